"""The broker's process: start, watch, stop.

Only this process holds the broker's standard input, a pipe. When this process ends, for any reason,
the pipe closes and the broker stops. The broker's output goes to temporary files, which can be read
without a thread on any system and disappear with the last process that has them open.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from weakref import finalize

from coordinator_server.testing.control import BrokerError

COMMAND = (sys.executable, "-P", "-m", "coordinator_server")
START_SECONDS = 30.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.003

start_process: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen
"""Starts a process; this project's own tests replace this function (tests/forked.py)."""

HAS_SIGNALS = os.name == "posix"
"""Whether the system has signals. On Windows, closing standard input asks the broker to stop."""

_TEMPORARY = getattr(os, "O_TEMPORARY", 0)  # Windows deletes the file when it is closed
_NEW_GROUP = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)


class BrokerProcess:
    """One broker process at a time; a new process continues the log of the one before.

    `command` starts the command line, by default that of this Python environment. `environment` is
    added to this process's variables. KAFKA_* variables of this process are left out, because they
    belong to the application under test.
    """

    def __init__(
        self,
        command: Sequence[str] = COMMAND,
        environment: Mapping[str, str] | None = None,
        directory: str | os.PathLike[str] | None = None,
    ) -> None:
        kept = {name: value for name, value in os.environ.items() if name[:6] != "KAFKA_"}
        self._command = tuple(command)
        self._environment = {**kept, **(environment or {})}
        self._directory = directory
        self._log = _Captured()
        self._output = _Captured()
        self._output_start = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._exit_code: int | None = None
        self.data_directory: str | None = None
        """The directory to delete if the process was killed before it could do so."""

    @property
    def pid(self) -> int:
        """The process id. Raises BrokerError if there is no process."""
        if self._process is None:
            raise BrokerError("the broker is not started")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process is running, ready or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code of the last process, -N if signal N ended it, None while it runs.

        On Windows, the exit code after `kill` is 1.
        """
        return self._exit_code if self._process is None else self._process.poll()

    def launch(self, arguments: Sequence[str]) -> None:
        """Start `coordinator-server serve ...` without waiting until it is ready."""
        assert not self.is_running, "started twice"
        self._output_start = self._output.size
        self._process = start_process(
            [*self._command, "serve", *arguments],
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=self._output.descriptor,
            stderr=self._log.descriptor,
            # Ctrl-C must reach only the test process, which then ends the broker.
            start_new_session=True,
            creationflags=_NEW_GROUP,
        )

    def wait_for_line(self, start: str) -> str:
        """Wait for a line that begins with `start` and return the rest of the line.

        Raises BrokerError if the process ends first.
        """
        deadline = time.monotonic() + START_SECONDS
        process = self._process
        assert process is not None, "not launched"
        while True:
            # Poll first: once the process has ended, `output` is complete.
            has_ended = process.poll() is not None
            for line in self.output.splitlines(keepends=True):
                if line.startswith(start) and line.endswith("\n"):
                    return line.removeprefix(start).strip()
            if has_ended:
                code = self.wait()
                raise BrokerError(f"the broker ended with exit code {code}: {self.log().strip()}")
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerError(
                    f"the broker did not start within {START_SECONDS:g} s\n{self.log()}"
                )
            time.sleep(POLL_SECONDS)

    def wait(self, timeout_seconds: float | None = None) -> int:
        """Wait for the end of the process and return its exit code.

        Raises subprocess.TimeoutExpired.
        """
        assert self._process is not None, "not launched"
        code = self._process.wait(timeout_seconds)
        self._close()
        return code

    def stop(self) -> None:
        """Ask the process to stop and kill it after a timeout; do nothing if it does not run."""
        if self._process is None:
            return
        if HAS_SIGNALS:
            self._process.terminate()
        else:
            self._close_stdin()
        try:
            self.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill the process (SIGKILL); unwritten data is lost. Does nothing if it does not run."""
        if self._process is None:
            return
        self._process.kill()
        self.wait()
        if self.data_directory is not None:
            shutil.rmtree(self.data_directory, ignore_errors=True)

    def _close(self) -> None:
        self._close_stdin()
        if self._process is not None:
            self._exit_code = self._process.returncode
            self._process = None

    def _close_stdin(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    @property
    def output(self) -> str:
        """The standard output of the last process so far."""
        return self._output.text(self._output_start)

    @property
    def log_size(self) -> int:
        """The size of the log in bytes."""
        return self._log.size

    def log(self, start: int = 0) -> str:
        """Return the log from byte `start` on."""
        return self._log.text(start)


class _Captured:
    """A temporary file that processes write through `descriptor` and this process reads."""

    def __init__(self) -> None:
        created, path = tempfile.mkstemp(prefix="coordinator-server-log-")
        os.close(created)
        self.descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | _TEMPORARY)
        self._reading = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | _TEMPORARY)
        if not _TEMPORARY:
            os.unlink(path)
        self._lock = Lock()
        for descriptor in (self.descriptor, self._reading):
            finalize(self, os.close, descriptor)

    @property
    def size(self) -> int:
        """The number of bytes written."""
        return os.fstat(self._reading).st_size

    def text(self, start: int) -> str:
        """Return the text written from byte `start` on."""
        with self._lock:
            os.lseek(self._reading, start, os.SEEK_SET)
            written = os.read(self._reading, max(self.size - start, 0))
        return written.decode(errors="replace").replace(os.linesep, "\n")
