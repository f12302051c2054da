"""Listening sockets: bind to every address of a listener and accept connections in bulk.

libuv accepts one connection per turn of the event loop. Under load, when a turn takes tens of
milliseconds, only a few dozen clients per second could reconnect while their sessions expire. The
acceptor therefore accepts up to ACCEPTS_PER_TURN connections when the socket is readable.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinator_server.events.log import LOG

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.config.config import Listener
    from coordinator_server.net.connection_gate import ConnectionGate
    from coordinator_server.net.connection_slots import ConnectionSlots, Slot

    NewProtocol = Callable[[Slot | None], asyncio.BaseProtocol]

ACCEPTS_PER_TURN = 200
"""High enough that a thousand clients connect within a few turns."""

_OUT_OF_RESOURCES = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
# On Windows, the error of an accept if the client has already disconnected.
_NETNAME_DELETED = 64
# The delay before another accept; asyncio uses the same delay.
_RETRY_SECONDS = 1.0


class StartError(Exception):
    """The broker cannot start, for example because a port is in use. Exit code 1."""


class Acceptor:
    """One listening socket (Kafka's SocketServer.Acceptor). Accepts from `start` to `close`.

    `gate` delays connections that exceed a connection rate; `slots` delays connections that exceed
    a connection limit. `new_protocol(slot)` creates the protocol of a connection, which gives the
    slot back when the connection ends.
    """

    def __init__(
        self,
        listening: socket.socket,
        new_protocol: NewProtocol,
        listener_name: str = "",
        gate: ConnectionGate | None = None,
        slots: ConnectionSlots | None = None,
    ) -> None:
        self._socket = listening
        self._new_protocol = new_protocol
        self._listener_name = listener_name
        self._gate = gate
        self._slots = slots
        self._kept_waiting: dict[socket.socket, asyncio.TimerHandle] = {}
        self._without_slot: deque[socket.socket] = deque()
        self._may_accept = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._connecting: dict[asyncio.Task[object], tuple[socket.socket, Slot | None]] = {}
        self._retry: asyncio.TimerHandle | None = None
        self._accepting: asyncio.Task[None] | None = None

    def start(self, backlog: int) -> None:
        """Start listening and accepting."""
        self._socket.setblocking(False)
        self._socket.listen(backlog)
        self._may_accept.set()
        try:
            self._loop.add_reader(self._socket.fileno(), self._accept)
        except NotImplementedError:  # the Windows event loop has no readiness callbacks
            self._accepting = self._loop.create_task(self._accept_in_turn())

    def duplicate(self) -> socket.socket:
        """Return a second socket for the address, with which the address stays open."""
        return self._socket.dup()

    def close(self) -> None:
        """Stop accepting. Open connections stay open; connections still being set up are closed."""
        for task in self._connecting:
            task.cancel()
        for accepted, timer in self._kept_waiting.items():
            timer.cancel()
            accepted.close()
        for accepted in self._without_slot:
            accepted.close()
        if self._slots is not None:
            self._slots.wait_no_more(self._serve_waiting)
        if self._retry is not None:
            self._retry.cancel()
        if self._accepting is not None:
            self._accepting.cancel()
        else:
            self._loop.remove_reader(self._socket.fileno())
        self._socket.close()

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue  # the client has already disconnected
            except OSError as error:
                if error.errno not in _OUT_OF_RESOURCES:
                    raise
                self._failed(error)
                # The socket stays readable, so retrying at once would busy-loop.
                self._pause(_RETRY_SECONDS)
                return
            self._take(accepted, address)
            if not self._may_accept.is_set():
                return

    async def _accept_in_turn(self) -> None:
        while True:
            try:
                accepted, address = await self._loop.sock_accept(self._socket)
            except OSError as error:
                client_is_gone = isinstance(error, ConnectionError) or (
                    getattr(error, "winerror", 0) == _NETNAME_DELETED
                )
                if not client_is_gone:
                    self._failed(error)
                await asyncio.sleep(0 if client_is_gone else _RETRY_SECONDS)
            else:
                self._take(accepted, address)
                await self._may_accept.wait()

    def _take(self, accepted: socket.socket, address: Any) -> None:
        """Serve a connection, or delay it if a connection rate is exceeded.

        Source: SocketServer.Acceptor.accept. A connection over the listener's rate is served
        later, and the listener accepts no other connection meanwhile. A connection over its
        address's rate is closed after a delay.
        """
        gate = self._gate
        if gate is None or not gate.is_enabled:
            self._serve(accepted, address)
            return
        listener_ms, address_ms = gate.admit(self._listener_name, address[0])
        if address_ms:
            self._keep_waiting(accepted, address_ms, accepted.close)
        elif listener_ms:
            self._keep_waiting(accepted, listener_ms, partial(self._serve, accepted, address))
        else:
            self._serve(accepted, address)
        if listener_ms:
            self._pause(listener_ms / 1000)

    def _keep_waiting(
        self, accepted: socket.socket, wait_ms: int, then: Callable[[], None]
    ) -> None:
        def end() -> None:
            del self._kept_waiting[accepted]
            then()

        self._kept_waiting[accepted] = self._loop.call_later(wait_ms / 1000, end)

    def _serve(self, accepted: socket.socket, address: Any) -> None:
        """Serve a connection once there is a slot for it, as ConnectionQuotas does."""
        reason = None if self._slots is None else self._slots.refusal(self._listener_name)
        if self._slots is None or reason is None:
            self._connect(accepted)
            return
        LOG.emit(
            "connection.delayed",
            remote=f"{address[0]}:{address[1]}",
            listener=self._listener_name,
            reason=reason,
        )
        if not self._without_slot:
            self._slots.wait(self._serve_waiting)
        self._without_slot.append(accepted)
        self._pause(None)

    def _serve_waiting(self) -> None:
        """Serve waiting connections while slots are free; called when a connection has ended."""
        assert self._slots is not None
        while self._without_slot:
            if self._slots.refusal(self._listener_name) is not None:
                self._slots.wait(self._serve_waiting)
                return
            self._connect(self._without_slot.popleft())
        self._go_on()

    def _connect(self, accepted: socket.socket) -> None:
        slot = None if self._slots is None else self._slots.take(self._listener_name)
        accepted.setblocking(False)
        task = self._loop.create_task(
            self._loop.connect_accepted_socket(partial(self._new_protocol, slot), accepted)
        )
        self._connecting[task] = accepted, slot
        task.add_done_callback(self._connected)

    def _connected(self, task: asyncio.Task[object]) -> None:
        accepted, slot = self._connecting.pop(task)
        if not task.cancelled() and task.exception() is None:
            return
        accepted.close()
        if slot is not None:
            slot.give_back()
        if not task.cancelled():
            LOG.emit("connection.failed", reason=str(task.exception()))

    def _failed(self, error: OSError) -> None:
        LOG.emit("connection.failed", reason=f"no connection can be accepted: {error.strerror}")

    def _pause(self, seconds: float | None) -> None:
        """Stop accepting for `seconds`; None: until the waiting connections are served."""
        self._may_accept.clear()
        if self._accepting is None:
            self._loop.remove_reader(self._socket.fileno())
        if seconds is not None:
            self._retry = self._loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        self._retry = None
        self._go_on()

    def _go_on(self) -> None:
        """Accept again, unless a pause or waiting connections prevent it."""
        if self._retry is not None or self._without_slot:
            return
        self._may_accept.set()
        if self._accepting is None:
            self._loop.add_reader(self._socket.fileno(), self._accept)


def bind(listener: Listener) -> list[socket.socket]:
    """Return sockets bound to every address of a listener's host, all with the same port.

    Raises StartError if an address cannot be bound.
    """
    if not listener.host:
        return [_bind_everywhere(listener)]
    try:
        addresses = socket.getaddrinfo(
            listener.host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise StartError(f"cannot listen on {listener}: {error.strerror}") from error
    bound: list[socket.socket] = []
    port = listener.port
    try:
        for family, address in dict.fromkeys((entry[0], str(entry[4][0])) for entry in addresses):
            try:
                bound.append(socket.create_server((address, port), family=family))
            except OSError as error:
                # A name such as localhost may have an IPv6 address where IPv6 is off.
                if not bound or error.errno == errno.EADDRINUSE:
                    raise
                continue
            port = port or bound[0].getsockname()[1]
    except OSError as error:
        for open_socket in bound:
            open_socket.close()
        raise StartError(f"cannot listen on {listener}: {error.strerror}") from error
    return bound


def _bind_everywhere(listener: Listener) -> socket.socket:
    """Return a socket for all interfaces, IPv4 and, if available, IPv6."""
    try:
        if socket.has_dualstack_ipv6():
            return socket.create_server(
                ("", listener.port), family=socket.AF_INET6, dualstack_ipv6=True
            )
        return socket.create_server(("", listener.port))
    except OSError as error:
        raise StartError(f"cannot listen on {listener}: {error.strerror}") from error
