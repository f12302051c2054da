"""TLS between the socket and a connection: a protocol below, a transport above.

The event loops have TLS of their own, but it does not send the alert of a handshake that failed, so
clients learn nothing (Kafka's SslTransportLayer sends it); it does not tell a connection of itself
before the handshake is done, so limits and shutdown would miss those that linger in it; and it
handshakes whenever bytes come, so two hundred clients at once hold all others up. Here the
connection is there from the start and gets its bytes once the handshake is done, and all handshakes
of a broker share turns of the loop.

Theory of operation. OpenSSL reads from one memory buffer and writes to another. What comes in is
decrypted a record at a time and handed on until the connection pauses reading; the rest waits
encrypted. After TURN_SECONDS the others have their turn first; until then the socket is not read,
and neither is it while the client leaves unread what TLS itself answers. What goes out in small
pieces is encrypted at once. A long answer waits as it is and is encrypted in steps of STEP_BYTES
while the socket takes it, so its memory is not needed twice.
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
STEP_BYTES = 256 * 1024  # encrypted in one turn, a quarter of a millisecond
_WRITE_BYTES = 64 * 1024  # handed to the socket at a time
PIECE_BYTES = 16 * 1024
"""How much OpenSSL is given at once: in it, or in the handshake, may be hundreds of requests for
new keys, with nothing in between that the connection would be told of; each takes 0.02 ms."""

INTERNAL_ERROR = bytes.fromhex("15 0303 0002 02 50")
"""The alert of Java for what is no TLS. Clients in plain text take it for the length of a frame,
352518912, by which librdkafka and many who search for the number know what is wrong."""

HANDSHAKE_SECONDS = 0.004
"""How long handshakes may take in a turn of the loop: two or three, with keys of RSA."""


class TlsTransport(asyncio.Transport, asyncio.Protocol):
    """The TLS of one connection. `report(connection, reason)` writes why a handshake failed.

    `turns` are those of all handshakes; connections with more records than are read in one turn
    wait among them.
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

    # --- what the loop calls ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Tell the connection, which may be refused at once; then wait for the handshake."""
        self._socket = cast("asyncio.Transport", transport)
        timeout_s = self._security.handshake_timeout_ms / 1000
        self._timer = asyncio.get_running_loop().call_later(timeout_s, self._timed_out)
        self._connection.connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the connection; a handshake that the client broke off is reported."""
        if not self._is_established and not self._is_closing and self._first_bytes:
            self._report(self._connection, "the client closed the connection in the TLS handshake")
        self._is_closing = True
        self._end_handshake()
        self._unencrypted.clear()
        self._pieces.clear()
        self._connection.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Decrypt, or go on with the handshake when it is this connection's turn."""
        if self._is_closing:
            return  # nobody would ever read it
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
        """The client sends no more: the socket closes."""

    def pause_writing(self) -> None:
        """The socket takes no more for now."""
        self._is_socket_full = True
        self._update_flow()

    def resume_writing(self) -> None:
        """The socket takes more: go on with what waits."""
        self._is_socket_full = False
        self._encrypt()
        if self._is_socket_paused:
            self._await_turn(self._read_on)

    # --- what the connection calls ----------------------------------------------------------------

    def get_extra_info(self, name: str, default: object = None) -> object:
        """What the socket knows of itself."""
        return self._socket.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        """Bytes that the client has not taken yet."""
        return self._unencrypted_bytes + self._socket.get_write_buffer_size()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send encrypted."""
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
        """Send the parts of a long answer."""
        if not self._is_closing:
            for data in list_of_data:
                self._append(data)
            self._encrypt()

    def pause_reading(self) -> None:
        """Hand no more to the connection; what is encrypted waits, and the socket is not read."""
        self._is_reading_paused = True
        self._pause_socket()

    def resume_reading(self) -> None:
        """Go on in a turn of its own, as a socket would."""
        self._is_reading_paused = False
        self._await_turn(self._read_on)

    def close(self) -> None:
        """Close when all is sent, with the note that TLS has for it."""
        if not self._is_closing:
            self._is_closing = True
            self._end_handshake()
            self._pieces.clear()
            if self._unencrypted:
                self._pause_socket()
            else:
                self._shut_down()

    def abort(self) -> None:
        """Close at once."""
        self._is_closing = True
        self._end_handshake()
        self._socket.abort()

    # --- the handshake ----------------------------------------------------------------------------

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
        except BaseException as error:  # a bug must not have it served as somebody else
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
        """End with the alert that OpenSSL has written; with Java's if it has written none."""
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
        """Do the next step, of the handshake or of reading, after the others that wait."""
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
        """Give OpenSSL what came, or keep what is too much at once."""
        if not self._pieces and self._incoming.pending + len(data) <= PIECE_BYTES:
            self._incoming.write(data)
            return
        view = memoryview(data)
        starts = range(0, len(data), PIECE_BYTES)
        self._pieces.extend(view[start : start + PIECE_BYTES] for start in starts)

    def _take_piece(self) -> bool:
        """Give OpenSSL the next piece of what was kept; False if there is none."""
        if not self._pieces:
            return False
        self._incoming.write(self._pieces.popleft())
        return True

    def _read(self) -> None:
        """Hand on what is here, until the connection wants no more of it or its turn is over."""
        session, incoming = self._session, self._incoming
        end_s = perf_counter() + TURN_SECONDS
        try:
            while not self._is_closing:
                try:
                    data = session.read(RECORD_BYTES)
                except ssl.SSLWantReadError:  # half a record, or one of TLS itself
                    if not self._take_piece():
                        break
                else:
                    if not data:  # the client's note that it closes
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
                self._pause_socket()  # a client that asks for new keys reads nothing of them
            if session.version() != "TLSv1.3":  # which has new keys instead, and answers that
                self._refuse("the client wants to renegotiate TLS")

    def _append(self, data: bytes | bytearray | memoryview) -> None:
        if data:
            self._unencrypted.append(memoryview(data))
            self._unencrypted_bytes += len(data)

    def _encrypt(self) -> None:
        """Encrypt what waits while the socket takes it, at most STEP_BYTES of it."""
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
        """Hand the next records to the socket."""
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
        """Tell the connection whether its answers are taken."""
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
        if self._session.version() is not None:  # the handshake is done
            with suppress(ssl.SSLError):  # the client's own note has not come: nobody waits for it
                self._session.unwrap()
            self._flush()
        self._socket.close()
