"""A real broker process for tests: started, watched and stopped by its process id.

    with Broker("--ephemeral", settings={"num.partitions": "6"}) as broker:
        broker.bootstrap   # "127.0.0.1:PORT"

Every wait here is for a condition, with a limit that is only there to end a broken test.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

ROOT = Path(__file__).parents[1]
START_SECONDS = 60.0
STOP_SECONDS = 60.0

T = TypeVar("T")


def wait_for(
    condition: Callable[[], T], what: str, seconds: float = 60.0, step_seconds: float = 0.01
) -> T:
    """The first truthy value of `condition`; fails with `what` when it does not come in time."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(step_seconds)


class Broker:
    """One broker process. Arguments are those of `serve`; `--listener` is any free local port."""

    def __init__(
        self,
        *arguments: str,
        settings: Mapping[str, str] | None = None,
        listener: str = "127.0.0.1:0",
        command: Sequence[str] = (sys.executable, "-m", "coordinator_server"),
        directory: Path = ROOT,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command = [*command, "serve", "--listener", listener, *arguments]
        for name, value in (settings or {}).items():
            self._command += ["--set", f"{name}={value}"]
        self._directory = directory
        kept = {name: value for name, value in os.environ.items() if name[:6] != "KAFKA_"}
        self._environment = {**kept, **(environment or {})}
        self._process: subprocess.Popen[str] | None = None
        self._log: list[str] = []
        self._output: list[str] = []
        self._readers: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._join_readers()

    def start(self) -> None:
        """Start the process and wait for its `listening` line."""
        self.spawn()
        wait_for(
            lambda: self._output or self._exited, "the line `listening HOST:PORT`", START_SECONDS
        )
        assert self._output, f"the broker ended: {self.log}"

    def spawn(self) -> None:
        """Start the process and wait for nothing."""
        self._log.clear()
        self._output.clear()
        self._process = subprocess.Popen(
            self._command,
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        # Threads, so that a talkative broker never blocks on a full pipe.
        self._readers = [
            threading.Thread(target=lines.extend, args=(stream,), daemon=True)
            for lines, stream in (
                (self._output, self._process.stdout),
                (self._log, self._process.stderr),
            )
        ]
        for reader in self._readers:
            reader.start()

    @property
    def bootstrap(self) -> str:
        """HOST:PORT, as clients want it."""
        return self._output[0].removeprefix("listening ").strip()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        host, _, port = self.bootstrap.rpartition(":")
        return host, int(port)

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def log(self) -> str:
        """What the broker wrote to standard error so far."""
        return "".join(tuple(self._log))

    @property
    def output(self) -> str:
        """What the broker wrote to standard output so far."""
        return "".join(tuple(self._output))

    @property
    def _exited(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def log_lines(self, *words: str) -> list[str]:
        """Log lines that hold all of the words."""
        return [line for line in self.log.splitlines() if all(word in line for word in words)]

    def connect(self, timeout_seconds: float = 30.0) -> Wire:
        """A new raw connection."""
        return Wire(socket.create_connection(self.address, timeout_seconds))

    def signal(self, number: int) -> None:
        """Send a signal to the broker's own process."""
        os.kill(self.pid, number)

    def wait(self, seconds: float = STOP_SECONDS) -> int:
        """Wait for the process to end; returns its exit code (negative: a signal)."""
        assert self._process is not None, "not started"
        code = self._process.wait(seconds)
        self._join_readers()
        return code

    def stop(self) -> int:
        """SIGTERM, then wait; returns the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """SIGKILL, then wait."""
        self.signal(signal.SIGKILL)
        self.wait()

    def cpu_seconds(self) -> float:
        """CPU time that the process has used (clock_getcpuclockid of its id)."""
        return time.clock_gettime((~self.pid << 3) | 2)

    def resident_mb(self) -> float:
        """Resident memory in MiB."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise AssertionError("no VmRSS")

    def _join_readers(self) -> None:
        for reader in self._readers:
            reader.join(5)
        if self._process is not None:
            for stream in (self._process.stdout, self._process.stderr):
                if stream is not None:
                    stream.close()


class Wire:
    """A raw connection: frames out, frames in."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.socket.close()

    def send(self, *frames: bytes) -> None:
        """Send whole frames, lengths included."""
        self.socket.sendall(b"".join(frames))

    def receive(self) -> bytes | None:
        """The next frame without its length; None if the broker closed the connection."""
        prefix = self._exactly(4)
        return None if prefix is None else self._exactly(struct.unpack(">i", prefix)[0])

    def ask(self, request: bytes) -> bytes:
        """Send one request frame and return its answer; fails if the connection was closed."""
        self.send(request)
        answer = self.receive()
        assert answer is not None, "closed"
        return answer

    def is_closed(self) -> bool:
        """Wait until the broker closes; False if it answers instead."""
        try:
            return self.receive() is None
        except ConnectionError:
            return True

    def _exactly(self, size: int) -> bytes | None:
        received = bytearray()
        while len(received) < size:
            try:
                part = self.socket.recv(size - len(received))
            except ConnectionResetError:
                part = b""
            if not part:
                return None
            received += part
        return bytes(received)


def send_until_refused(wires: Sequence[Wire], request: bytes) -> int:
    """Repeat a request and read nothing until no more is taken; returns the bytes sent."""
    block = request * 1000
    # A part of the block may be taken: what is sent next goes on from there.
    reached = {wire.socket: 0 for wire in wires}
    sent = 0
    while writable := select.select([], list(reached), [], 1.0)[1]:
        for one in writable:
            one.setblocking(False)
            taken = one.send(block[reached[one] :])
            one.setblocking(True)
            reached[one] = (reached[one] + taken) % len(block)
            sent += taken
        assert sent < 100_000_000 * len(wires), "the broker reads without end"
    return sent


def frame(payload: bytes) -> bytes:
    """A frame: the length, then the payload."""
    return struct.pack(">i", len(payload)) + payload


def request(
    api_key: int,
    version: int,
    body: bytes = b"",
    *,
    correlation_id: int = 5,
    flexible: bool = False,
) -> bytes:
    """A request frame with the client id "test"."""
    header = struct.pack(">hhih", api_key, version, correlation_id, 4) + b"test"
    return frame(header + (b"\x00" if flexible else b"") + body)


API_VERSIONS_REQUEST = request(18, 0)
"""A healthy request that any broker answers."""
