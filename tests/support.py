"""Shared parts of tests of the real process: brokers, raw connections, waiting for a condition.

    with Broker({"num.partitions": 6}) as broker:
        broker.bootstrap_servers   # "127.0.0.1:PORT"

The broker is that of `coordinator_server.testing`. Every wait here is for a condition; its time
limit only serves to end a broken test.
"""

from __future__ import annotations

import os
import random
import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from coordinator_server import testing
from coordinator_server.config.authorizer_settings import AUTHORIZER_CLASS
from coordinator_server.testing.process import COMMAND, BrokerProcess

ROOT = Path(__file__).parents[1]
STOP_SECONDS = 60.0
AUTHORIZED = {"authorizer.class.name": AUTHORIZER_CLASS, "super.users": "User:ANONYMOUS"}
"""Settings of a broker with ACLs where an unauthenticated client may do everything."""

T = TypeVar("T")


def wait_for(
    condition: Callable[[], T], what: str, seconds: float = 60.0, step_seconds: float = 0.01
) -> T:
    """Return the first truthy value of `condition`; fail with `what` after the time limit."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(step_seconds)


class _Observed:
    """Observe a broker process from outside."""

    @property
    def pid(self) -> int:
        """Return the process id."""
        raise NotImplementedError

    @property
    def log(self) -> str:
        """Return the broker's standard error so far."""
        raise NotImplementedError

    @property
    def bootstrap_servers(self) -> str:
        """Return HOST:PORT, as clients expect it."""
        raise NotImplementedError

    @property
    def address(self) -> tuple[str, int]:
        """Return host and port of the first broker."""
        return address_of(self.bootstrap_servers)

    def connect(self, timeout_seconds: float = 30.0) -> Wire:
        """Open a raw connection."""
        return connect(self.bootstrap_servers, timeout_seconds)

    def log_lines(self, *words: str) -> list[str]:
        """Return the log lines that contain all of the words."""
        return [line for line in self.log.splitlines() if all(word in line for word in words)]

    def cpu_seconds(self) -> float:
        """Return the CPU time that the process has used."""
        return cpu_seconds(self.pid)

    def resident_mb(self) -> float:
        """Return the resident memory in MiB."""
        return resident_mb(self.pid)


class Broker(testing.Broker, _Observed):
    """The broker of `coordinator_server.testing`, which here must also stop cleanly."""

    def stop(self) -> None:
        """Stop the broker and check that it stopped cleanly."""
        was_running = self.is_running
        super().stop()
        assert not was_running or self.exit_code == 0, self.log


class Serve(_Observed):
    """A `serve` process with exactly these arguments, for tests of the command line.

    `command` replaces the command that starts the process, `environment` is added to the variables.
    """

    def __init__(
        self,
        *arguments: str,
        listener: str | None = "127.0.0.1:0",
        command: Sequence[str] = COMMAND,
        environment: Mapping[str, str] | None = None,
        directory: Path = ROOT,
    ) -> None:
        self._arguments = [*(("--listener", listener) if listener else ()), *arguments]
        self._process = BrokerProcess(command, environment, directory)
        self._bootstrap_servers = ""

    def __enter__(self) -> Self:
        self.launch()
        self._bootstrap_servers = self._process.wait_for_line("listening ")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()

    def launch(self) -> None:
        """Start the process without waiting."""
        self._process.launch(self._arguments)

    def run(self) -> int:
        """Start a process that is expected to fail, and return its exit code."""
        self.launch()
        return self.wait()

    def wait(self) -> int:
        """Wait until the process has ended and return its exit code."""
        return self._process.wait(STOP_SECONDS)

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        os.kill(self.pid, number)

    def stop(self) -> int:
        """Send SIGTERM, wait, and return the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    @property
    def log(self) -> str:
        """Return the standard error of the process so far."""
        return self._process.log()

    @property
    def output(self) -> str:
        """Return the standard output of the process so far."""
        return self._process.output

    @property
    def bootstrap_servers(self) -> str:
        """Return HOST:PORT from the process's "listening" line."""
        return self._bootstrap_servers


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of all threads of a process so far (clock_getcpuclockid)."""
    return time.clock_gettime((~pid << 3) | 2)


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")


PORTS = range(10_240, 32_768)
"""Ports outside every system's ephemeral range.

So an outgoing connection of another test cannot take a port before its process has started.
"""


def free_port() -> int:
    """Return a port of the loopback interface that is free now and likely to stay free."""
    while True:
        port = random.choice(PORTS)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port


def free_ports(count: int) -> int:
    """Return the first port of a free range of `count` ports."""
    while True:
        first = free_port()
        with ExitStack() as taken, suppress(OSError):
            for port in range(first, first + count):
                taken.enter_context(socket.create_server(("127.0.0.1", port)))
            return first


def address_of(bootstrap_servers: str) -> tuple[str, int]:
    """Return host and port of the first entry of a comma-separated list of HOST:PORT."""
    host, _, port = bootstrap_servers.partition(",")[0].rpartition(":")
    return host.strip("[]"), int(port)


def connect(bootstrap_servers: str, timeout_seconds: float = 30.0) -> Wire:
    """Open a raw connection to the first of the bootstrap servers."""
    return Wire(socket.create_connection(address_of(bootstrap_servers), timeout_seconds))


class Wire:
    """A raw connection that sends and receives frames."""

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
        """Send whole frames, which include their lengths."""
        self.socket.sendall(b"".join(frames))

    def receive(self) -> bytes | None:
        """Return the next frame without its length; None if the broker closed the connection."""
        prefix = self._exactly(4)
        return None if prefix is None else self._exactly(struct.unpack(">i", prefix)[0])

    def ask(self, request: bytes) -> bytes:
        """Send one request frame and return the response; fail if the connection was closed."""
        self.send(request)
        answer = self.receive()
        assert answer is not None, "closed"
        return answer

    def is_closed(self) -> bool:
        """Wait for the end of the connection; return False if the broker sends data."""
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
    """Repeat a request without reading until the broker accepts no more; return the bytes sent."""
    block = request * 1000
    # A send may accept only part of the block; the next send continues after that part.
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
    """Return a frame: the length, then the payload."""
    return struct.pack(">i", len(payload)) + payload


def request(
    api_key: int,
    version: int,
    body: bytes = b"",
    *,
    correlation_id: int = 5,
    flexible: bool = False,
) -> bytes:
    """Return a request frame with the client id "test"."""
    header = struct.pack(">hhih", api_key, version, correlation_id, 4) + b"test"
    return frame(header + (b"\x00" if flexible else b"") + body)


API_VERSIONS_REQUEST = request(18, 0)
"""A valid request that every broker answers."""
