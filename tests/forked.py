"""Python commands as processes that start in milliseconds, forked by `tests/fork_server.py`.

`start` and `run` correspond to `subprocess.Popen` and `subprocess.run` for commands of the form
`python -m MODULE ARGUMENTS...`. The forked process runs the same code, but shares the imported
modules and the hash seed of its server. Tests of the start of a process, of its imports or memory
start a real process: with the marker `real_start`, or by `subprocess`.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import IO, Any, Self, cast

from tests import fork_server
from tests.fork_server import NUMBER

ROOT = Path(__file__).parents[1]
PIPE, DEVNULL = subprocess.PIPE, subprocess.DEVNULL

_OURS = (
    *("server", "composition", "apis", "client", "container", "coordinator", "kafka_tools"),
    "tools.explain",
)
_BROKER = (*(f"coordinator_server.{name}" for name in _OURS), "protocol.apis")
PRELOADED = {
    "coordinator_server": _BROKER,
    "tests.e2e": _BROKER,
    "tests.clients": ("kafka", "aiokafka", "confluent_kafka"),
    "tests.faults": ("confluent_kafka",),
}
"""Modules and packages that are imported before the fork, by the package of the command."""

USE = {"forks": False}
"""Whether commands are forked: in tests, but for those with certain markers (tests/conftest.py)."""


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a command like `subprocess.Popen`: forked, unless it needs its own interpreter."""
    module, arguments = _split(command)
    environment = options.get("env") or os.environ
    if not USE["forks"] or module is None or _interpreter_variables(environment) != _VARIABLES:
        return subprocess.Popen(command, **options)
    options.pop("creationflags", None)  # of Windows
    return cast("subprocess.Popen[Any]", Forked(module, arguments, **options))


def run(
    command: Sequence[str],
    *,
    input: str = "",  # noqa: A002  # as in `subprocess.run`
    cwd: str | os.PathLike[str] = ROOT,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and return its output. Raises subprocess.TimeoutExpired."""
    with (
        tempfile.TemporaryFile("w+") as stdin,
        tempfile.TemporaryFile("w+", errors="replace") as stdout,
        tempfile.TemporaryFile("w+", errors="replace") as stderr,
    ):
        stdin.write(input)
        stdin.seek(0)
        process = start(command, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=env)
        try:
            code = process.wait(timeout)
        except BaseException:
            process.kill()
            process.wait()
            raise
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(command, code, stdout.read(), stderr.read())


def _split(command: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """Return the module and the arguments of `python -m MODULE`; None for another command."""
    program, *words = command
    if words and words[0] == "-P":
        del words[0]
    is_module = program == sys.executable and len(words) > 1 and words[0] == "-m"
    if not is_module or _package(words[1]) is None:
        return None, ()
    return words[1], words[2:]


def _package(module: str) -> str | None:
    """Return the key of PRELOADED that a module belongs to, or None."""
    return next((name for name in PRELOADED if f"{module}.".startswith(f"{name}.")), None)


def _interpreter_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that an interpreter or its libraries read when they start."""
    prefixes = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "TZ")
    return {name: environment[name] for name in environment if name.startswith(prefixes)}


_VARIABLES = _interpreter_variables(os.environ)


class Forked:
    """A forked process with the interface of `subprocess.Popen`.

    Streams are files, descriptors, PIPE or DEVNULL, by default those of this process.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        text: bool = False,
        start_new_session: bool = False,
    ) -> None:
        self.args = [module, *arguments]
        self.returncode: int | None = None
        self._lock = Lock()
        command = {
            "module": module,
            "arguments": arguments,
            "directory": os.fspath(cwd or os.getcwd()),
            "environment": dict(os.environ if env is None else env),
            "is_new_session": start_new_session,
        }
        theirs: list[int] = []
        ours: list[IO[Any] | None] = []
        try:
            for number, stream in enumerate((stdin, stdout, stderr)):
                descriptor, own = _open(number, stream, is_text=text)
                theirs.append(descriptor)
                ours.append(own)
            self._report, report = os.pipe()
            theirs.append(report)
            _server_of(module).launch(command, theirs)
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        self.stdin, self.stdout, self.stderr = ours
        self.pid = self._read_number()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()

    def poll(self) -> int | None:
        """Return the exit code, -N after signal N, or None while the process runs."""
        with self._lock:
            if self.returncode is None and _is_readable(self._report, 0):
                self.returncode = self._read_number()
                os.close(self._report)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code. Raises subprocess.TimeoutExpired."""
        end = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            left = None if end is None else max(end - time.monotonic(), 0)
            if not _is_readable(self._report, left):
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[Any, Any]:
        """Close standard input; return the rest of the output and of the errors.

        Kills the process and raises TimeoutError if the pipes stay open for longer.
        """
        if self.stdin is not None:
            with suppress(BrokenPipeError):
                self.stdin.close()
        with ThreadPoolExecutor(2) as pool:
            streams = (self.stdout, self.stderr)
            reads = [stream and pool.submit(stream.read) for stream in streams]
            try:
                out, err = (read and read.result(timeout) for read in reads)
            except TimeoutError:
                self.kill()
                raise
        self.wait(timeout)
        return out, err

    def send_signal(self, number: int) -> None:
        """Send a signal unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _read_number(self) -> int:
        data = os.read(self._report, NUMBER.size)
        assert data, "the fork server has ended"
        number: int = NUMBER.unpack(data)[0]
        return number


class _Server:
    """The client of a fork server, which ends with this process."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._lock = Lock()
        self._socket, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            command = [sys.executable, "-P", fork_server.__file__, str(number), *modules]
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=DEVNULL, pass_fds=[number], start_new_session=True
            )
        atexit.register(self.close)

    def launch(self, command: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        """Start a process with three streams and the pipe for its id and exit code."""
        text = json.dumps(command).encode()
        with self._lock:
            socket.send_fds(self._socket, [NUMBER.pack(len(text))], descriptors)
            self._socket.sendall(text)

    def close(self) -> None:
        """End the server; running commands continue."""
        self._socket.close()
        self._process.wait()


_SERVERS: dict[tuple[str, ...], _Server] = {}
"""The fork servers by the modules that they have imported."""
_STARTING = Lock()


def _server_of(module: str) -> _Server:
    package = _package(module)
    assert package is not None, module
    with _STARTING:
        modules = PRELOADED[package]
        if modules not in _SERVERS:
            _SERVERS[modules] = _Server(modules)
        return _SERVERS[modules]


def _open(number: int, stream: Any, *, is_text: bool) -> tuple[int, IO[Any] | None]:
    """Return a descriptor for the process, and this process's end if the stream is PIPE."""
    if stream == DEVNULL:
        return os.open(os.devnull, os.O_RDWR), None
    if stream != PIPE:
        stream = number if stream is None else stream
        return os.dup(stream if isinstance(stream, int) else stream.fileno()), None
    reading, writing = os.pipe()
    theirs, ours = (writing, reading) if number else (reading, writing)
    mode = "r" if number else "w"
    return theirs, open(ours, mode) if is_text else open(ours, f"{mode}b", 0)


def _is_readable(descriptor: int, seconds: float | None) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))
