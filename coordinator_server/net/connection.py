"""One client connection: bytes in, whole frames to the dispatcher one at a time, answers out.

Theory of operation. A request is a frame: an int32 length and so many bytes. Most arrive whole and
alone in one `data_received`; that path does no copy and no bookkeeping. Everything else goes
through a list of chunks that is joined only once a whole frame is there, so a frame in a thousand
pieces is not copied a thousand times, and an announced length allocates nothing.

As in Kafka's SocketServer (a muted channel) a connection handles one request at a time: while one
waits for its answer, what follows waits too, and answers go out in the order of the requests.
Frames wait for as long as `_holds` is not 0: a request is unanswered, the client does not take its
answers, this connection had its turn of the loop, all requests are held while the broker's time is
advanced, or the client is over its quota. Beyond READ_AHEAD_BYTES of waiting bytes the socket is no
longer read, so TCP stops the client, and memory per connection has a bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from struct import Struct
from time import perf_counter
from typing import TYPE_CHECKING, Protocol, cast

from coordinator_server.config.hosts import as_java, without_mapping
from coordinator_server.core.caller import Caller
from coordinator_server.security.client_software import UNKNOWN_SOFTWARE
from coordinator_server.security.principal import ANONYMOUS

if TYPE_CHECKING:
    from coordinator_server.net.call import Body
    from coordinator_server.net.connection_slots import Slot
    from coordinator_server.net.connections import Connections, Dispatch
    from protocol.errors import ErrorCode
    from protocol.registry import ApiSpec
    from protocol.schema import Message


class Authenticator(Protocol):
    """What authenticates the client of one connection."""

    @property
    def has_authenticated(self) -> bool:
        """Whether the client is known."""

    def gone(self) -> None:
        """The connection has ended."""


NewAuthenticator = Callable[["Connection", "Dispatch"], Authenticator]
"""Begins to authenticate the client of a connection; the dispatch is for afterwards."""

READ_AHEAD_BYTES = 256 * 1024
FRAMES_PER_TURN = 4  # of one connection, before the others that are behind get their turn
TURN_SECONDS = 0.001  # and for no longer, if each of them takes some milliseconds
_JOINED_ANSWER_BYTES = 64 * 1024  # a longer body is not copied behind its header

_UNANSWERED = 1
_WRITE_PAUSED = 2
_TURN_OVER = 4
_CLOSED = 8
_HELD = 16
_MUTED = 32

_TLS_HANDSHAKE = 0x1603
"""Type and version that begin a TLS handshake, where the length of a frame should be."""

_HTTP_METHODS = (b"GET ", b"HEAD", b"POST", b"PUT ", b"PRI ", b"OPTI", b"CONN")
"""The same of HTTP, by its commonest methods."""

NO_CALLER = Caller(None, "", -1)
_length_at = Struct(">i").unpack_from


class Connection(asyncio.Protocol):
    """One connection. `active` is set by every read; the idle sweep of `Connections` clears it.

    `client_host` is "/127.0.0.1" as Kafka writes it, `remote` "127.0.0.1:40000" for the log,
    `local_address` the (host, port) that the client reached us by. `caller` is that of the last
    request: the next one mostly has the same. `software` is the name and the version of the
    client, from ApiVersions. `principal` is who the client is, once it has authenticated;
    `has_token` if it did so with a delegation token.
    """

    __slots__ = (
        "_answers",
        "_authenticate",
        "_authenticator",
        "_buffer",
        "_chunks",
        "_dispatch",
        "_draining",
        "_holds",
        "_muted_until",
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
        "has_token",
        "idle_since_ms",
        "listener_name",
        "local_address",
        "principal",
        "remote",
        "slot",
        "software",
    )

    def __init__(
        self,
        shared: Connections,
        listener_name: str,
        authenticate: NewAuthenticator | None = None,
        slot: Slot | None = None,
    ) -> None:
        self.slot = slot
        """Its place within max.connections; None: it takes one when it is made."""
        self._shared = shared
        self._authenticate = authenticate
        self._authenticator: Authenticator | None = None
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
        self._muted_until: asyncio.TimerHandle | None = None
        self.active = True
        self.idle_since_ms = 0
        self.listener_name = listener_name
        self.principal = ANONYMOUS
        self.has_token = False
        self.software = UNKNOWN_SOFTWARE
        self.client_host = self.remote = ""
        self.caller = NO_CALLER
        self.local_address = ("", 0)

    @property
    def closed(self) -> bool:
        """Whether nothing can be answered any more."""
        return bool(self._holds & _CLOSED)

    @property
    def is_unauthenticated(self) -> bool:
        """Whether the client has yet to say who it is, where it has to."""
        return self._authenticator is not None and not self._authenticator.has_authenticated

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
        """Note the addresses; one beyond the limits is closed again."""
        # A cast: uvloop's transports are no asyncio.Transport. Both loops set TCP_NODELAY.
        self._transport = cast("asyncio.Transport", transport)
        host, port = _address(transport.get_extra_info("peername"))
        self.client_host = f"/{as_java(host)}"
        self.remote = f"{host}:{port}"
        self.local_address = _address(transport.get_extra_info("sockname"))
        self._shared.opened(self)
        if self._authenticate is not None:
            self._authenticator = self._authenticate(self, self._shared.dispatch)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget everything; answers that come later are dropped."""
        self._holds |= _CLOSED
        self._transport = None
        self._forget_input()
        if self._authenticator is not None:
            self._authenticator.gone()
            # They refer to this object: a cycle that the collector may be told to ignore.
            self._authenticator = None
            self._dispatch = self._shared.dispatch
        if self._muted_until is not None:
            self._muted_until.cancel()
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

    def failed(
        self, spec: ApiSpec, version: int, request: Message, error: ErrorCode, message: str
    ) -> Message:
        """The answer of an API that carries an error, wherever it has a place for one."""
        from coordinator_server.net.error_response import Failure, error_response

        failure = Failure(error, message)
        answer = error_response(spec.response_type, request, version, failure)
        return spec.response_type() if answer is None else answer

    def hand_frames_to(self, dispatch: Dispatch, most_bytes: int | None) -> None:
        """Have somebody else handle the frames from now on, of at most so many bytes.

        None for the usual largest size.
        """
        self._dispatch = dispatch
        usual = self._shared.request_max_bytes
        self._request_max_bytes = min(usual if most_bytes is None else most_bytes, usual)

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

    def mute(self, throttle_ms: int) -> None:
        """Handle no more requests for so long. Source: ThrottledChannel."""
        if self._holds & _CLOSED:
            return
        self._holds |= _MUTED
        if self._muted_until is not None:
            self._muted_until.cancel()
        loop = asyncio.get_running_loop()
        self._muted_until = loop.call_later(throttle_ms / 1000, self._unmute)

    def _unmute(self) -> None:
        self._muted_until = None
        self._holds &= ~_MUTED
        if self._waiting_bytes:
            self.active = True  # Kafka reads it only now
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
            if self._shared.turns:
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
        self._shared.turns.await_turn(self._begin_turn)

    def _begin_turn(self) -> None:
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
            self.refuse(self._bad_length(length))
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

    def _bad_length(self, length: int) -> str:
        if length >> 16 == _TLS_HANDSHAKE:
            return (
                f"it looks like a TLS handshake, the listener {self.listener_name} does not use TLS"
            )
        if length > 0 and length.to_bytes(4, "big") in _HTTP_METHODS:
            return f"it looks like HTTP, the listener {self.listener_name} speaks Kafka's protocol"
        announced = f"a frame of {length} bytes is announced"
        most = self._request_max_bytes
        if length <= most:
            return announced
        is_usual = most == self._shared.request_max_bytes
        setting = "socket.request.max.bytes" if is_usual else "sasl.server.max.receive.size"
        return f"{announced}, {setting} is {most}"


def _address(name: object) -> tuple[str, int]:
    """Host and port of a socket name; an IPv4 address inside an IPv6 one is taken out of it."""
    if not isinstance(name, tuple) or len(name) < 2:
        return "unknown", 0  # the peer was gone before we looked
    return without_mapping(str(name[0])), int(name[1])
