"""The broker's process: started, watched, stopped.

Its standard input is a pipe that only we hold: when this process ends, however it ends, the pipe
closes and the broker stops by itself. Its log goes to a file without a name, which needs no thread
to be read and leaves nothing behind.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

from coordinator_server.testing.control import BrokerError

COMMAND = (sys.executable, "-P", "-m", "coordinator_server")
START_SECONDS = 30.0
STOP_SECONDS = 10.0


class BrokerProcess:
    """One process at a time; its log goes on where that of the one before it ended.

    `command` starts our command line: by default that of this very environment. `environment` are
    variables beside those of this process, of which KAFKA_... are left out: they are those of the
    application under test.
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
        self._log = tempfile.TemporaryFile(prefix="coordinator-server-log-")  # noqa: SIM115
        self._process: subprocess.Popen[bytes] | None = None
        self._output = b""
        self._exit_code: int | None = None
        self.data_directory: str | None = None
        """What is to be removed should the process have no time for it."""

    @property
    def pid(self) -> int:
        """The process id. Raises BrokerError when there is no process."""
        if self._process is None:
            raise BrokerError("the broker is not started")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether there is a process, ready or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code of the last process, -N if signal N ended it; None before it has ended."""
        return self._exit_code if self._process is None else self._process.poll()

    def launch(self, arguments: Sequence[str]) -> None:
        """Start `coordinator-server serve ...` and wait for nothing."""
        assert not self.is_running, "started twice"
        self._output = b""
        self._process = subprocess.Popen(
            [*self._command, "serve", *arguments],
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C is for the tests; the broker ends with them
        )

    def wait_for_line(self, start: str) -> str:
        """What follows `start` on a line of the process. Raises BrokerError if it ends instead."""
        deadline = time.monotonic() + START_SECONDS
        process = self._process
        assert process is not None, "not launched"
        assert process.stdout is not None
        output = process.stdout.fileno()
        while True:
            for line in self._output.decode().splitlines(keepends=True):
                if line.startswith(start) and line.endswith("\n"):
                    return line.removeprefix(start).strip()
            left = deadline - time.monotonic()
            if left <= 0 or not _is_readable(output, left):
                self.kill()
                raise BrokerError(
                    f"the broker did not start within {START_SECONDS:g} s\n{self.log()}"
                )
            part = os.read(output, 4096)
            if not part:
                code = self.wait()
                raise BrokerError(f"the broker ended with exit code {code}: {self.log().strip()}")
            self._output += part

    def wait(self, timeout_seconds: float | None = None) -> int:
        """Wait until the process has ended; its exit code. Raises subprocess.TimeoutExpired."""
        assert self._process is not None, "not launched"
        code = self._process.wait(timeout_seconds)
        self._close()
        return code

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if that is not enough; fine when it does not run."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """SIGKILL: what the process had not written is lost; fine when it does not run."""
        if self._process is None:
            return
        self._process.kill()
        self.wait()
        if self.data_directory is not None:
            shutil.rmtree(self.data_directory, ignore_errors=True)

    def _close(self) -> None:
        self._read_what_is_there()
        process, self._process = self._process, None
        if process is not None:
            self._exit_code = process.returncode
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()

    @property
    def output(self) -> str:
        """What the last process wrote to standard output so far."""
        self._read_what_is_there()
        return self._output.decode(errors="replace")

    def _read_what_is_there(self) -> None:
        """Read standard output without waiting for more of it."""
        if self._process is None or self._process.stdout is None:
            return
        output = self._process.stdout.fileno()
        while _is_readable(output, 0):
            part = os.read(output, 4096)
            if not part:
                return
            self._output += part

    @property
    def log_size(self) -> int:
        """How long the log is, in bytes."""
        return os.fstat(self._log.fileno()).st_size

    def log(self, start: int = 0) -> str:
        """The log from byte `start` on."""
        size = self.log_size - start
        return os.pread(self._log.fileno(), size, start).decode(errors="replace")


def _is_readable(descriptor: int, timeout_seconds: float) -> bool:
    """Wait until something can be read. Unlike `select`, `poll` takes descriptors above 1023."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(timeout_seconds * 1000))
