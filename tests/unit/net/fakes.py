"""Connections without sockets: a recording transport, and no broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from coordinator_server.config.config import Config
from coordinator_server.net.connection import Connection
from coordinator_server.net.connections import Connections, Dispatch
from tests.harness.clock import ManualClock

if TYPE_CHECKING:
    from coordinator_server.broker import Broker


class FakeTransport:
    """Records the calls of a connection to its transport, in order."""

    def __init__(self, peer: str = "10.0.0.7") -> None:
        self.peer = peer
        self.written: list[bytes] = []
        self.lines: list[bytes] = []
        self.reading = True
        self.closed = False
        self.aborted = False
        self.unsent_bytes = 0

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return (self.peer, 40000) if name == "peername" else ("10.0.0.1", 9092)

    def write(self, data: bytes) -> None:
        self.written.append(bytes(data))

    def writelines(self, parts: Iterable[bytes]) -> None:
        self.lines = list(parts)
        self.written.append(b"".join(self.lines))

    def pause_reading(self) -> None:
        assert self.reading, "paused twice"
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading, "resumed twice"
        self.reading = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


class FakeNetwork:
    """Connections whose frames go to `frames`; `answer` answers the oldest frame."""

    def __init__(
        self, settings: Mapping[str, str] | None = None, dispatch: Dispatch | None = None
    ) -> None:
        self.clock = ManualClock()
        self.frames: list[bytes | bytearray] = []
        config = Config(overrides=settings)
        self.connections = Connections(config, self.clock, dispatch or self._keep)

    def connect(
        self, peer: str = "10.0.0.7", listener: str = "PLAINTEXT"
    ) -> tuple[Connection, FakeTransport]:
        """Return a new connection and its transport."""
        connection = Connection(self.connections, listener)
        transport = FakeTransport(peer)
        connection.connection_made(cast(Any, transport))
        return connection, transport

    def _keep(self, connection: Connection, frame: bytes | bytearray) -> None:
        self.frames.append(frame)


def no_broker() -> Broker:
    """Return a broker for handlers that do not use it."""
    return cast("Broker", None)
