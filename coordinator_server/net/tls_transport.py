"""TLS between a socket and a connection: a protocol for the socket, a transport for the connection.

The TLS of the event loops has three drawbacks. It does not send the alert of a failed handshake, so
clients cannot tell the cause (Kafka's SslTransportLayer sends the alert). It reports a connection
only after the handshake, so limits and shutdown would miss connections in the handshake. It
handshakes whenever bytes arrive, so two hundred simultaneous clients block all others. Here the
connection exists from the start and receives bytes after the handshake, and all handshakes of a
broker share turns of the event loop.

OpenSSL reads from one memory buffer and writes to another. Received data is decrypted record by
record and passed on until the connection pauses reading; the rest stays encrypted. After
TURN_SECONDS other connections get their turn; until this connection's next turn the socket is not
read. The socket is also not read while the client does not read TLS's own responses. Small writes
are encrypted at once. A long response is kept unencrypted and encrypted in steps of STEP_BYTES as
the socket accepts data, so that it does not take twice the memory.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, cast

from coordinator_server.events.log import LOG
from coordinator_server.net.connection import TURN_SECONDS
from coordinator_server.security.tls.handshake_failure import describe_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from coordinator_server.net.connection import Connection
    from coordinator_server.net.turns import Turns
    from coordinator_server.security.listener_security import ListenerSecurity

RECORD_BYTES = 16 * 1024
# The number of bytes encrypted in one turn, which takes about 0.25 ms.
STEP_BYTES = 256 * 1024
# The number of bytes written to the socket at a time.
_WRITE_BYTES = 64 * 1024
PIECE_BYTES = 16 * 1024
"""Bytes passed to OpenSSL at a time. They may contain hundreds of key update or handshake messages,
which OpenSSL processes without returning control; each takes 0.02 ms."""

INTERNAL_ERROR = bytes.fromhex("15 0303 0002 02 50")
"""The alert that Java sends for non-TLS input. Plaintext clients read it as the frame length
352518912, which librdkafka and web searches recognize."""

HANDSHAKE_SECONDS = 0.004
"""Time limit for handshakes per turn of the event loop: two or three with RSA keys."""


class TlsTransport(asyncio.Transport, asyncio.Protocol):
    """The TLS layer of one connection. `report(connection, reason)` logs a failed handshake.

    All handshakes share `turns`; connections with more records than fit in one turn wait in `turns`
    too.
    """

    def __init__(
        self,
        connection: Connection,
        security: ListenerSecurity,
        turns: Turns,
        report: Callable[[Connection, str], None],
    ) -> None:
        super().__init__()
        self._connection = connection
        self._security = security
        self._turns = turns
        self._report = report
        context = security.ssl_context()
        assert context is not None, "a listener without TLS"
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._first_bytes = b""
        self._timer: asyncio.TimerHandle | None = None
        self._is_established = self._is_waiting = False
        self._is_reading_paused = self._is_socket_paused = self._is_socket_full = False
        self._has_paused_connection = self._is_closing = self._is_encrypting = False
        self._pieces: deque[memoryview] = deque()
        self._unencrypted: deque[memoryview] = deque()
        self._unencrypted_bytes = 0

    # --- callbacks of the event loop --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Notify the connection, which may be refused at once, and wait for the handshake."""
        self._socket = cast("asyncio.Transport", transport)
        timeout_s = self._security.handshake_timeout_ms / 1000
        self._timer = asyncio.get_running_loop().call_later(timeout_s, self._timed_out)
        self._connection.connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the connection; report a handshake that the client aborted."""
        if not self._is_established and not self._is_closing and self._first_bytes:
            self._report(self._connection, "the client closed the connection in the TLS handshake")
        self._is_closing = True
        self._end_handshake()
        self._unencrypted.clear()
        self._pieces.clear()
        self._connection.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Decrypt, or queue a turn for the next handshake step."""
        if self._is_closing:
            return  # the connection is closing and would never read the data
        self._take(data)
        if self._is_established:
            if not self._is_reading_paused and not self._is_waiting:
                self._read()
            return
        if not self._first_bytes:
            self._first_bytes = data[:16]
        if self._pieces:
            self._pause_socket()
        self._await_turn(self._shake_hands)

    def eof_received(self) -> None:
        """Return None, so that the socket closes: the client sends no more data."""

    def pause_writing(self) -> None:
        """Stop encrypting: the write buffer of the socket is full."""
        self._is_socket_full = True
        self._update_flow()

    def resume_writing(self) -> None:
        """Continue encrypting: the socket accepts data again."""
        self._is_socket_full = False
        self._encrypt()
        if self._is_socket_paused:
            self._await_turn(self._read_on)

    # --- methods for the connection ---------------------------------------------------------------

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return information about the socket."""
        return self._socket.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that are not sent yet."""
        return self._unencrypted_bytes + self._socket.get_write_buffer_size()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send `data`."""
        if self._is_closing:
            return
        if self._unencrypted or self._is_socket_full or len(data) > RECORD_BYTES:
            self._append(data)
            self._encrypt()
            return
        try:
            self._session.write(data)
        except ssl.SSLError:
            self.abort()
            return
        self._socket.write(self._outgoing.read())

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Encrypt and send the parts of a long response."""
        if not self._is_closing:
            for data in list_of_data:
                self._append(data)
            self._encrypt()

    def pause_reading(self) -> None:
        """Stop passing data to the connection and reading the socket."""
        self._is_reading_paused = True
        self._pause_socket()

    def resume_reading(self) -> None:
        """Continue reading in a separate turn of the event loop, as a socket transport does."""
        self._is_reading_paused = False
        self._await_turn(self._read_on)

    def close(self) -> None:
        """Close after sending all data and the TLS close_notify alert."""
        if not self._is_closing:
            self._is_closing = True
            self._end_handshake()
            self._pieces.clear()
            if self._unencrypted:
                self._pause_socket()
            else:
                self._shut_down()

    def abort(self) -> None:
        """Close immediately."""
        self._is_closing = True
        self._end_handshake()
        self._socket.abort()

    # --- handshake --------------------------------------------------------------------------------

    def _shake_hands(self) -> None:
        self._is_waiting = False
        if self._is_closing:
            return
        try:
            self._session.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            if self._take_piece():
                self._await_turn(self._shake_hands)
            else:
                self._resume_socket()
            return
        except ssl.SSLError as error:
            self._refuse(describe_failure(error, self._first_bytes))
            return
        self._flush()
        try:
            principal = self._security.principal(self._session)
        except ValueError as error:
            self._report(self._connection, f"the client has no principal: {error}")
            self.close()
            return
        # Even after a bug, the client must not get another principal.
        except BaseException as error:
            self._report(self._connection, f"the client has no principal: {error!r}")
            self.abort()
            raise
        self._connection.principal = principal
        self._is_established = True
        self._end_handshake()
        if LOG.debug:
            LOG.emit(
                "client.authenticated",
                remote=self._connection.remote,
                listener=self._security.listener_name,
                principal=str(self._connection.principal),
            )
        self._read_on()

    def _timed_out(self) -> None:
        timeout_ms = self._security.handshake_timeout_ms
        self._report(self._connection, f"the TLS handshake was not done within {timeout_ms} ms")
        self.abort()

    def _refuse(self, reason: str) -> None:
        """Close with the alert that OpenSSL has written, or with Java's alert if there is none."""
        self._report(self._connection, reason)
        self._is_closing = True
        self._end_handshake()
        if not self._is_established and not self._outgoing.pending:
            self._socket.write(INTERNAL_ERROR)
        self._flush()
        self._socket.close()

    def _end_handshake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _await_turn(self, step: Callable[[], None]) -> None:
        """Queue the next handshake or read step behind other waiting connections."""
        if not self._is_waiting:
            self._is_waiting = True
            self._turns.await_turn(step)

    # --- bytes ------------------------------------------------------------------------------------

    def _read_on(self) -> None:
        self._is_waiting = False
        if self._is_closing or self._is_reading_paused:
            return
        self._read()
        is_held_up = self._is_reading_paused or self._is_waiting or self._is_socket_full
        if not is_held_up and not self._is_closing:
            self._resume_socket()

    def _pause_socket(self) -> None:
        if not self._is_socket_paused and not self._socket.is_closing():
            self._is_socket_paused = True
            self._socket.pause_reading()

    def _resume_socket(self) -> None:
        if self._is_socket_paused and not self._socket.is_closing():
            self._is_socket_paused = False
            self._socket.resume_reading()

    def _take(self, data: bytes) -> None:
        """Pass received data to OpenSSL, or keep it in pieces if there is too much."""
        if not self._pieces and self._incoming.pending + len(data) <= PIECE_BYTES:
            self._incoming.write(data)
            return
        view = memoryview(data)
        starts = range(0, len(data), PIECE_BYTES)
        self._pieces.extend(view[start : start + PIECE_BYTES] for start in starts)

    def _take_piece(self) -> bool:
        """Pass the next kept piece to OpenSSL; return False if there is none."""
        if not self._pieces:
            return False
        self._incoming.write(self._pieces.popleft())
        return True

    def _read(self) -> None:
        """Decrypt and pass on data until the connection pauses reading or its turn is over."""
        session, incoming = self._session, self._incoming
        end_s = perf_counter() + TURN_SECONDS
        try:
            while not self._is_closing:
                try:
                    data = session.read(RECORD_BYTES)
                except ssl.SSLWantReadError:  # an incomplete record, or a TLS message without data
                    if not self._take_piece():
                        break
                else:
                    if not data:  # the client has sent close_notify
                        self.close()
                        return
                    self._connection.data_received(data)
                    is_more_here = self._pieces or incoming.pending or session.pending()
                    if self._is_reading_paused or not is_more_here:
                        break
                if perf_counter() >= end_s:
                    self._pause_socket()
                    self._await_turn(self._read_on)
                    break
        except ssl.SSLError as error:
            self._refuse(describe_failure(error, b"", is_established=True))
            return
        if self._outgoing.pending and not self._is_closing:
            self._flush()
            if self._is_socket_full:
                # The client requests key updates, but does not read the answers.
                self._pause_socket()
            if session.version() != "TLSv1.3":  # TLS 1.3 has key updates instead of renegotiation
                self._refuse("the client wants to renegotiate TLS")

    def _append(self, data: bytes | bytearray | memoryview) -> None:
        if data:
            self._unencrypted.append(memoryview(data))
            self._unencrypted_bytes += len(data)

    def _encrypt(self) -> None:
        """Encrypt waiting data while the socket accepts it, at most STEP_BYTES."""
        end_bytes = self._unencrypted_bytes - STEP_BYTES
        while self._unencrypted and not self._is_socket_full and not self._socket.is_closing():
            if self._unencrypted_bytes <= end_bytes:
                self._encrypt_soon()
                break
            self._encrypt_some()
        self._update_flow()
        if self._is_closing and not self._unencrypted and not self._socket.is_closing():
            self._shut_down()

    def _encrypt_some(self) -> None:
        """Write the next encrypted records to the socket."""
        waiting = self._unencrypted
        try:
            while waiting and self._outgoing.pending < _WRITE_BYTES:
                data = waiting[0]
                written = self._session.write(data[:RECORD_BYTES])
                self._unencrypted_bytes -= written
                if written == len(data):
                    waiting.popleft()
                else:
                    waiting[0] = data[written:]
        except ssl.SSLError:
            waiting.clear()
            self.abort()
            return
        self._flush()

    def _encrypt_soon(self) -> None:
        if not self._is_encrypting:
            self._is_encrypting = True
            asyncio.get_running_loop().call_soon(self._encrypt_on)

    def _encrypt_on(self) -> None:
        self._is_encrypting = False
        self._encrypt()

    def _update_flow(self) -> None:
        """Pause or resume writing of the connection."""
        is_full = self._is_socket_full or bool(self._unencrypted)
        if is_full != self._has_paused_connection:
            self._has_paused_connection = is_full
            if is_full:
                self._connection.pause_writing()
            else:
                self._connection.resume_writing()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._socket.write(self._outgoing.read())

    def _shut_down(self) -> None:
        # The version is set when the handshake is complete.
        if self._session.version() is not None:
            with suppress(ssl.SSLError):  # do not wait for the client's close_notify
                self._session.unwrap()
            self._flush()
        self._socket.close()
