"""One client connection: reads frames, dispatches them one at a time, and sends responses.

A request is a frame: an int32 length and that many bytes. Most frames arrive whole and alone in one
`data_received`, a path without copying. Other data is kept as a list of chunks and joined when a
frame is complete, so that a frame in a thousand chunks is not copied a thousand times; an announced
length allocates no memory.

As in Kafka's SocketServer (a muted channel), a connection handles one request at a time, and
responses are sent in the order of the requests. Frames wait while `_holds` is not 0. The reasons
are: a request has no response yet, the client does not read its responses, this connection has used
up its turn, the broker clock is being advanced, or a quota throttles the client. When more than
READ_AHEAD_BYTES are waiting, the socket is not read, so TCP flow control stops the client and
memory per connection is bounded.
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
    """Authenticates the client of one connection."""

    @property
    def has_authenticated(self) -> bool:
        """Whether the client has authenticated."""

    def gone(self) -> None:
        """Release resources after the connection has ended."""


NewAuthenticator = Callable[["Connection", "Dispatch"], Authenticator]
"""Starts authentication on a connection; the dispatch handles frames after authentication."""

READ_AHEAD_BYTES = 256 * 1024
# The number of frames of one connection before other waiting connections get a turn.
FRAMES_PER_TURN = 4
# The time limit of a turn, for slow requests.
TURN_SECONDS = 0.001
# A response body up to this size is joined to its header before it is sent.
_JOINED_ANSWER_BYTES = 64 * 1024

_UNANSWERED = 1
_WRITE_PAUSED = 2
_TURN_OVER = 4
_CLOSED = 8
_HELD = 16
_MUTED = 32

_TLS_HANDSHAKE = 0x1603
"""First two bytes of a TLS handshake, read where a frame length is expected."""

_HTTP_METHODS = (b"GET ", b"HEAD", b"POST", b"PUT ", b"PRI ", b"OPTI", b"CONN")
"""First four bytes of common HTTP requests."""

NO_CALLER = Caller(None, "", -1)
_length_at = Struct(">i").unpack_from


class Connection(asyncio.Protocol):
    """One connection. `active` is set by every read and cleared by the idle sweep of `Connections`.

    `client_host` is "/127.0.0.1" as Kafka writes it, `remote` is "127.0.0.1:40000" for the log, and
    `local_address` is the (host, port) that the client connected to. `caller` caches the Caller of
    the last request. `software` is the client's name and version from ApiVersions. `principal` is
    the authenticated principal; `has_token` is True if the client authenticated with a delegation
    token.
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
        """The slot within max.connections; None until `connection_made` takes one."""
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
        """Whether no further response can be sent."""
        return bool(self._holds & _CLOSED)

    @property
    def is_unauthenticated(self) -> bool:
        """Whether the client must still authenticate."""
        return self._authenticator is not None and not self._authenticator.has_authenticated

    @property
    def answer_is_due(self) -> bool:
        """Whether a request waits for its response; False once the connection is closing."""
        return self._holds & (_UNANSWERED | _CLOSED) == _UNANSWERED

    @property
    def write_is_paused(self) -> bool:
        """Whether the client is not reading its responses."""
        return bool(self._holds & _WRITE_PAUSED)

    def has_taken_some(self) -> bool:
        """Return whether the client has read response bytes since the last call."""
        before = self._unsent_bytes
        self._unsent_bytes = (
            0 if self._transport is None else self._transport.get_write_buffer_size()
        )
        return self._unsent_bytes < before

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Record the addresses and register the connection, which is closed if over a limit."""
        # uvloop's transports are no asyncio.Transport, hence the cast. Both event loops set
        # TCP_NODELAY.
        self._transport = cast("asyncio.Transport", transport)
        host, port = _address(transport.get_extra_info("peername"))
        self.client_host = f"/{as_java(host)}"
        self.remote = f"{host}:{port}"
        self.local_address = _address(transport.get_extra_info("sockname"))
        self._shared.opened(self)
        if self._authenticate is not None:
            self._authenticator = self._authenticate(self, self._shared.dispatch)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release all state; responses sent later are dropped."""
        self._holds |= _CLOSED
        self._transport = None
        self._forget_input()
        if self._authenticator is not None:
            self._authenticator.gone()
            # Break reference cycles with this object, because garbage collection may be frozen.
            self._authenticator = None
            self._dispatch = self._shared.dispatch
        if self._muted_until is not None:
            self._muted_until.cancel()
        self._shared.lost(self)

    def data_received(self, data: bytes) -> None:
        """Dispatch a whole frame, or keep the bytes until the frame is complete."""
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
        """Handle no requests while the client does not read its responses."""
        self._holds |= _WRITE_PAUSED

    def resume_writing(self) -> None:
        """Continue with waiting requests: the client has read its responses."""
        self._holds &= ~_WRITE_PAUSED
        self._go_on()

    def answer(self, prefix: bytes, body: Body) -> None:
        """Send the response to the current request and continue with the next one.

        Small responses of one turn are sent together at its end, to save system calls. If the body
        is in parts, the first part must be small, because it is copied behind the prefix.
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
        """End the current request without a response and continue with the next one."""
        self._holds &= ~_UNANSWERED
        self._go_on()

    def failed(
        self, spec: ApiSpec, version: int, request: Message, error: ErrorCode, message: str
    ) -> Message:
        """Return the API's response type with an error in every error field."""
        from coordinator_server.net.error_response import Failure, error_response

        failure = Failure(error, message)
        answer = error_response(spec.response_type, request, version, failure)
        return spec.response_type() if answer is None else answer

    def hand_frames_to(self, dispatch: Dispatch, most_bytes: int | None) -> None:
        """Use another dispatch for later frames, with a maximum frame size in bytes.

        None restores the usual maximum frame size.
        """
        self._dispatch = dispatch
        usual = self._shared.request_max_bytes
        self._request_max_bytes = min(usual if most_bytes is None else most_bytes, usual)

    @property
    def is_behind(self) -> bool:
        """Whether received frames wait only for their turn of the event loop."""
        return bool(self._holds & _TURN_OVER)

    def hold(self) -> None:
        """Handle no more requests until `release`."""
        self._holds |= _HELD

    def release(self) -> None:
        """Continue with waiting requests after `hold`."""
        self._holds &= ~_HELD
        self._go_on()

    def mute(self, throttle_ms: int) -> None:
        """Handle no requests for `throttle_ms`. Source: ThrottledChannel."""
        if self._holds & _CLOSED:
            return
        self._holds |= _MUTED
        loop = asyncio.get_running_loop()
        end_s = loop.time() + throttle_ms / 1000
        if self._muted_until is not None:
            if self._muted_until.when() >= end_s:
                return  # a fault on demand mutes the connection for longer than a quota
            self._muted_until.cancel()
        self._muted_until = loop.call_at(end_s, self._unmute)

    def _unmute(self) -> None:
        self._muted_until = None
        self._holds &= ~_MUTED
        if self._waiting_bytes:
            # The data counts as read only now, as in Kafka, so the connection is not idle.
            self.active = True
        self._go_on()

    def refuse(self, reason: str, api: str | int | None = None, version: int | None = None) -> None:
        """Close the connection because of invalid input; queued responses are still sent."""
        if not self._holds & _CLOSED:
            self._shared.report("connection.closed", self, reason, api=api, version=version)
            self.close()

    def close(self) -> None:
        """Close the connection after sending queued responses."""
        if self._answers:
            self._send_answers()
        self._holds |= _CLOSED
        self._forget_input()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection immediately."""
        self._holds |= _CLOSED
        if self._transport is not None:
            self._transport.abort()

    def _send_answers(self) -> None:
        """Send the responses that this turn has queued."""
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
        """Handle waiting requests and read again, unless `_holds` prevents it."""
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
        """Queue for another turn, behind the other waiting connections."""
        self._holds |= _TURN_OVER
        self._shared.turns.await_turn(self._begin_turn)

    def _begin_turn(self) -> None:
        """Handle some of the received requests."""
        self._holds &= ~_TURN_OVER
        if self._holds or self._draining:
            return
        if self._waiting_bytes >= self._needed_bytes:
            self._drain()
        self._read_on()

    def _gather(self) -> None:
        """Append chunks of a large frame as they arrive: joining all at once takes too long."""
        if not isinstance(self._buffer, bytearray):
            self._buffer = bytearray(memoryview(self._buffer)[self._position :])
            self._position = 0
        for chunk in self._chunks:
            self._buffer += chunk
        self._chunks.clear()

    def _drain(self) -> None:
        """Dispatch waiting frames until a frame must wait or the turn is over."""
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
        """Return the next whole frame with its length prefix, or None if it is incomplete."""
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
        if isinstance(buffer, bytearray):  # the chunk also has bytes of the next frame
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
    """Return host and port of a socket name; an IPv4-mapped IPv6 address becomes IPv4."""
    if not isinstance(name, tuple) or len(name) < 2:
        return "unknown", 0  # the peer has already disconnected
    return without_mapping(str(name[0])), int(name[1])
