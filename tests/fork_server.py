"""Runs Python commands in forks of a process that has already imported their modules.

    python -P tests/fork_server.py DESCRIPTOR MODULE...

So a command costs a few milliseconds instead of the start of an interpreter and its imports. The
client is `tests.forked`. A message on the socket DESCRIPTOR is the JSON of a command after its
length, and brings file descriptors: standard input, output and error of the command, and a pipe.
The pipe receives the process id, and at the end of the process its exit code. The server ends when
the client closes the socket; running commands continue.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import signal
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import Any

NUMBER = struct.Struct(">i")
DESCRIPTORS = 4


class ForkServer:
    """Forks a process for each command, and reports the end of each process."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._waking, self._woken = socket.socketpair()
        self._waking.setblocking(False)
        self._woken.setblocking(False)
        self._reports: dict[int, int] = {}

    def serve(self) -> dict[str, Any] | None:
        """Return None when the client has closed the socket; return a command in its process."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._woken.fileno(), warn_on_full_buffer=False)
        with DefaultSelector() as selector:
            selector.register(self._connection, EVENT_READ)
            selector.register(self._waking, EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if self._waking in ready:
                    self._waking.recv(4096)
                    self._report_ended()
                if self._connection not in ready:
                    continue
                message = self._receive()
                if message is None:
                    return None
                command, (*streams, report) = message
                pid = os.fork()
                if pid == 0:
                    break
                self._reports[pid] = report
                for stream in streams:
                    os.close(stream)
        self._let_go()
        os.write(report, NUMBER.pack(os.getpid()))
        os.close(report)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        return command

    def _receive(self) -> tuple[dict[str, Any], list[int]] | None:
        """Return the next command and its descriptors, or None if the client closed the socket."""
        head, descriptors, _, _ = socket.recv_fds(self._connection, NUMBER.size, DESCRIPTORS)
        if not head:
            return None
        (size,) = NUMBER.unpack(head)
        text = bytearray()
        while len(text) < size:
            text += self._connection.recv(size - len(text))
        return json.loads(text), descriptors

    def _report_ended(self) -> None:
        """Send the exit codes of ended processes."""
        while self._reports:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            report = self._reports.pop(pid)
            with suppress(BrokenPipeError):  # the client has ended
                os.write(report, NUMBER.pack(os.waitstatus_to_exitcode(status)))
            os.close(report)

    def _let_go(self) -> None:
        """Drop everything of the server in a forked process."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for end in (self._connection, self._waking, self._woken):
            end.close()
        for report in self._reports.values():
            os.close(report)


def become(command: dict[str, Any]) -> None:
    """Run a command in this process, as `python -m MODULE ARGUMENTS...` does."""
    if command["is_new_session"]:
        os.setsid()
    os.chdir(command["directory"])
    os.environ.clear()
    os.environ.update(command["environment"])
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  # open to the end of the process
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = io.TextIOWrapper(
        io.FileIO(2, "w", closefd=False), errors="backslashreplace", line_buffering=True
    )
    sys.argv = ["", *command["arguments"]]
    if command["module"] in sys.modules:  # a package is run by its `__main__`
        is_package = hasattr(sys.modules[command["module"]], "__path__")
        sys.modules.pop(command["module"] + ".__main__" * is_package, None)
    try:
        runpy.run_module(command["module"], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        QUICK_EXIT.code = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise
    QUICK_EXIT.code = 0


def import_all(name: str) -> None:
    """Import a module, or the modules of a package of ours, except for those of its packages."""
    module = importlib.import_module(name)
    if "." in name and hasattr(module, "__path__"):
        for inner in pkgutil.iter_modules(module.__path__, f"{name}."):
            importlib.import_module(inner.name)


class QuickExit:
    """Ends a forked process after its exit handlers.

    Otherwise the interpreter would clean up every module, and so copy the pages of the server.
    """

    code: int | None = None
    """The exit code; None for a process that a signal or an exception ends."""

    def __call__(self) -> None:
        """End the process."""
        if self.code is not None:
            with suppress(OSError):  # the interpreter reports the error
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(self.code)


QUICK_EXIT = QuickExit()


def main() -> None:
    """Import the modules and serve."""
    descriptor, *modules = sys.argv[1:]
    sys.path.insert(0, str(Path(__file__).parents[1]))
    atexit.register(QUICK_EXIT)  # registered first, called last
    for name in modules:
        import_all(name)
    gc.collect()
    gc.freeze()  # a collection in a fork would copy the pages of all these objects
    with socket.socket(fileno=int(descriptor)) as connection:
        command = ForkServer(connection).serve()
    if command is not None:
        become(command)


if __name__ == "__main__":
    main()
