"""One client connection: bytes in, whole frames to the dispatcher one at a time, answers out.

Theory of operation. A request is a frame: an int32 length and so many bytes. Most arrive whole and
alone in one `data_received`; that path does no copy and no bookkeeping. Everything else goes
through a list of chunks that is joined only once a whole frame is there, so a frame in a thousand
pieces is not copied a thousand times, and an announced length allocates nothing.

As in Kafka's SocketServer (a muted channel) a connection handles one request at a time: while one
waits for its answer, what follows waits too, and answers go out in the order of the requests.
Frames wait for as long as `_holds` is not 0: a request is unanswered, the client does not take its
answers, this connection had its turn of the loop, or all requests are held while the broker's time
is advanced. Beyond READ_AHEAD_BYTES of waiting bytes the socket is no longer read, so TCP stops the
client, and memory per connection has a bound.
"""

from __future__ import annotations

import asyncio
from struct import Struct
from time import perf_counter
from typing import TYPE_CHECKING, cast

from coordinator_server.group.effects import Caller
from coordinator_server.net.networks import without_mapping

if TYPE_CHECKING:
    from coordinator_server.net.call import Body
    from coordinator_server.net.connections import Connections

READ_AHEAD_BYTES = 256 * 1024
FRAMES_PER_TURN = 4  # of one connection, before the others that are behind get their turn
TURN_SECONDS = 0.001  # and for no longer, if each of them takes some milliseconds
_JOINED_ANSWER_BYTES = 64 * 1024  # a longer body is not copied behind its header

_UNANSWERED = 1
_WRITE_PAUSED = 2
_TURN_OVER = 4
_CLOSED = 8
_HELD = 16

NO_CALLER = Caller(None, "", -1)
_length_at = Struct(">i").unpack_from


class Connection(asyncio.Protocol):
    """One connection. `active` is set by every read; the idle sweep of `Connections` clears it.

    `client_host` is "/127.0.0.1" as Kafka writes it, `remote` "127.0.0.1:40000" for the log,
    `local_address` the (host, port) that the client reached us by. `caller` is that of the last
    request: the next one mostly has the same.
    """

    __slots__ = (
        "_answers",
        "_buffer",
        "_chunks",
        "_dispatch",
        "_draining",
        "_holds",
        "_needed_bytes",
        "_position",
        "_reading_paused",
        "_request_max_bytes",
        "_shared",
        "_transport",
        "_unsent_bytes",
        "_waiting_bytes",
        "active",
        "caller",
        "client_host",
        "idle_since_ms",
        "listener_name",
        "local_address",
        "remote",
    )

    def __init__(self, shared: Connections, listener_name: str) -> None:
        self._shared = shared
        self._dispatch = shared.dispatch
        self._request_max_bytes = shared.request_max_bytes
        self._transport: asyncio.Transport | None = None
        self._holds = 0
        self._buffer: bytes | bytearray = b""
        self._position = 0
        self._chunks: list[bytes | bytearray] = []
        self._answers: list[bytes] = []
        self._waiting_bytes = self._unsent_bytes = 0
        self._needed_bytes = 4
        self._draining = False
        self._reading_paused = False
        self.active = True
        self.idle_since_ms = 0
        self.listener_name = listener_name
        self.client_host = self.remote = ""
        self.caller = NO_CALLER
        self.local_address = ("", 0)

    @property
    def closed(self) -> bool:
        """Whether nothing can be answered any more."""
        return bool(self._holds & _CLOSED)

    @property
    def answer_is_due(self) -> bool:
        """Whether a request waits for its answer; none does any more once it is being closed."""
        return self._holds & (_UNANSWERED | _CLOSED) == _UNANSWERED

    @property
    def write_is_paused(self) -> bool:
        """Whether the client does not take its answers."""
        return bool(self._holds & _WRITE_PAUSED)

    def has_taken_some(self) -> bool:
        """Whether the client has taken something of its answers since the last call."""
        before = self._unsent_bytes
        self._unsent_bytes = (
            0 if self._transport is None else self._transport.get_write_buffer_size()
        )
        return self._unsent_bytes < before

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the addresses; a connection beyond max.connections is closed again."""
        # A cast: uvloop's transports are no asyncio.Transport. Both loops set TCP_NODELAY.
        self._transport = cast("asyncio.Transport", transport)
        host, port = _address(transport.get_extra_info("peername"))
        self.client_host = f"/{host}"
        self.remote = f"{host}:{port}"
        self.local_address = _address(transport.get_extra_info("sockname"))
        self._shared.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget everything; answers that come later are dropped."""
        self._holds |= _CLOSED
        self._transport = None
        self._forget_input()
        self._shared.lost(self)

    def data_received(self, data: bytes) -> None:
        """Hand a whole frame to the dispatcher, or keep the bytes until there is one."""
        self.active = True
        if not self._holds and not self._waiting_bytes and len(data) >= 4:
            length = _length_at(data)[0]
            if length == len(data) - 4 and 0 < length <= self._request_max_bytes:
                self._holds = _UNANSWERED
                self._dispatch(self, data)
                return
        if self._holds & _CLOSED:
            return
        self._chunks.append(data)
        self._waiting_bytes += len(data)
        if self._holds:
            if self._waiting_bytes > READ_AHEAD_BYTES and not self._reading_paused:
                self._reading_paused = True
                self._open_transport().pause_reading()
            return
        if self._needed_bytes > READ_AHEAD_BYTES:
            self._gather()
        if self._waiting_bytes >= self._needed_bytes:
            self._drain()

    def pause_writing(self) -> None:
        """Handle no more requests while the client does not take its answers."""
        self._holds |= _WRITE_PAUSED

    def resume_writing(self) -> None:
        """The client took its answers: go on."""
        self._holds &= ~_WRITE_PAUSED
        self._go_on()

    def answer(self, prefix: bytes, body: Body) -> None:
        """Send the answer of the request being handled, and go on with the next one.

        Small answers given in one turn are sent together at its end: each write is a system call.
        The first part of a body in parts is small.
        """
        self._holds &= ~_UNANSWERED
        if self._transport is None or self._holds & _CLOSED:
            return
        if not isinstance(body, list) and len(body) <= _JOINED_ANSWER_BYTES:
            if self._draining:
                self._answers.append(prefix + body)
                return
            self._transport.write(prefix + body)
        else:
            if self._answers:
                self._send_answers()
            parts = (prefix + body[0], *body[1:]) if isinstance(body, list) else (prefix, body)
            self._transport.writelines(parts)
        if self._waiting_bytes or self._reading_paused:
            self._go_on()

    def answer_nothing(self) -> None:
        """End the request being handled without an answer, and go on with the next one."""
        self._holds &= ~_UNANSWERED
        self._go_on()

    @property
    def is_behind(self) -> bool:
        """Whether frames that are here wait for the loop alone."""
        return bool(self._holds & _TURN_OVER)

    def hold(self) -> None:
        """Handle no more requests until `release`."""
        self._holds |= _HELD

    def release(self) -> None:
        """Go on with what came meanwhile."""
        self._holds &= ~_HELD
        self._go_on()

    def refuse(self, reason: str, api: str | int | None = None, version: int | None = None) -> None:
        """Close because of what the client sent; answers already given still go out."""
        if not self._holds & _CLOSED:
            self._shared.report("connection.closed", self, reason, api=api, version=version)
            self.close()

    def close(self) -> None:
        """Close once the answers already given are sent."""
        if self._answers:
            self._send_answers()
        self._holds |= _CLOSED
        self._forget_input()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._holds |= _CLOSED
        if self._transport is not None:
            self._transport.abort()

    def _send_answers(self) -> None:
        """Send what this turn has answered so far."""
        if self._transport is not None:
            self._transport.write(b"".join(self._answers))
        self._answers.clear()

    def _open_transport(self) -> asyncio.Transport:
        assert self._transport is not None, "no transport"
        return self._transport

    def _forget_input(self) -> None:
        self._buffer = b""
        self._position = self._waiting_bytes = 0
        self._chunks.clear()

    def _go_on(self) -> None:
        """Handle what waits, and read again, if nothing holds the connection up."""
        if self._holds or self._draining:
            return
        if self._waiting_bytes >= self._needed_bytes:
            if self._shared.is_any_behind:
                self._await_turn()
                return
            self._drain()
        self._read_on()

    def _read_on(self) -> None:
        if self._reading_paused and not self._holds:
            self._reading_paused = False
            self._open_transport().resume_reading()

    def _await_turn(self) -> None:
        """Let the other connections that are behind go first."""
        self._holds |= _TURN_OVER
        self._shared.await_turn(self)

    def begin_turn(self) -> None:
        """Handle some of the requests that are here."""
        self._holds &= ~_TURN_OVER
        if self._holds or self._draining:
            return
        if self._waiting_bytes >= self._needed_bytes:
            self._drain()
        self._read_on()

    def _gather(self) -> None:
        """Copy a large frame as it comes: to join all of its chunks at once would take too long."""
        if not isinstance(self._buffer, bytearray):
            self._buffer = bytearray(memoryview(self._buffer)[self._position :])
            self._position = 0
        for chunk in self._chunks:
            self._buffer += chunk
        self._chunks.clear()

    def _drain(self) -> None:
        """Hand the waiting frames to the dispatcher until one of them has to wait."""
        if self._chunks:
            self._chunks.insert(0, self._buffer[self._position :])
            self._buffer = b"".join(self._chunks)
            self._position = 0
            self._chunks.clear()
        self._draining = True
        handled, end_s = 0, perf_counter() + TURN_SECONDS
        while not self._holds:
            frame = self._next_frame()
            if frame is None:
                break
            handled += 1
            self._holds |= _UNANSWERED
            self._dispatch(self, frame)
            is_over = handled >= FRAMES_PER_TURN or perf_counter() >= end_s
            if is_over and self._waiting_bytes and not self._holds & _TURN_OVER:
                self._await_turn()
        self._draining = False
        if self._answers:
            self._send_answers()

    def _next_frame(self) -> bytes | bytearray | None:
        """Take the next whole frame with its length in front; None if it is not there yet."""
        buffer, position = self._buffer, self._position
        here = len(buffer) - position
        if here < 4:
            self._needed_bytes = 4
            return None
        length: int = _length_at(buffer, position)[0]
        if not 0 < length <= self._request_max_bytes:
            self.refuse(_bad_length(length, self._request_max_bytes))
            return None
        if here < length + 4:
            self._needed_bytes = length + 4
            return None
        self._needed_bytes = 4
        self._waiting_bytes -= length + 4
        if here == length + 4:
            self._buffer, self._position = b"", 0
            return buffer[position:] if position else buffer
        if isinstance(buffer, bytearray):  # a large frame, and what came with its end
            self._buffer = bytes(memoryview(buffer)[length + 4 :])
            del buffer[length + 4 :]
            return buffer
        self._position = position + length + 4
        return buffer[position : self._position]


def _bad_length(length: int, most: int) -> str:
    if length > most:
        return f"a frame of {length} bytes is announced, socket.request.max.bytes is {most}"
    return f"a frame of {length} bytes is announced"


def _address(name: object) -> tuple[str, int]:
    """Host and port of a socket name; an IPv4 address inside an IPv6 one is taken out of it."""
    if not isinstance(name, tuple) or len(name) < 2:
        return "unknown", 0  # the peer was gone before we looked
    return without_mapping(str(name[0])), int(name[1])
