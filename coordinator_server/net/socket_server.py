"""The listening sockets and client connections of one broker.

Source: Kafka's SocketServer.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.config.config import ConfigError, Listener
from coordinator_server.events.log import LOG
from coordinator_server.net.acceptor import Acceptor, StartError, bind
from coordinator_server.net.addresses import EVERY_HOST, AddressBook
from coordinator_server.net.connection import Connection
from coordinator_server.net.connections import CLOSING_SECONDS, Connections
from coordinator_server.net.turns import Turns
from coordinator_server.security.listener_security import ListenerSecurity
from coordinator_server.steps import run_all

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from coordinator_server.clock.broker_clock import BrokerClock
    from coordinator_server.config.config import Config
    from coordinator_server.net.acceptor import NewProtocol
    from coordinator_server.net.connection_gate import ConnectionGate
    from coordinator_server.net.connection_slots import Slot
    from coordinator_server.net.connections import Dispatch
    from coordinator_server.security.security import Security
    from coordinator_server.steps import Steps

    BoundSockets = dict[Listener, list[socket.socket]]
    """Bound sockets by the address that they are bound to."""

_LEAST_BACKLOG = 1024

LOGIN_SECONDS = 0.002
"""Time limit for SASL steps per turn of the event loop: about ten steps."""


class _OpenListener(NamedTuple):
    """A listener with its sockets; `address` is the bound address."""

    address: Listener
    security: ListenerSecurity
    acceptors: list[Acceptor]

    def close(self) -> None:
        """Stop accepting."""
        for acceptor in self.acceptors:
            acceptor.close()


class SocketServer:
    """The listening sockets of one broker and the connections they accepted.

    `clock` is the machine's clock, `dispatch(connection, frame)` handles a request, and `gate`
    delays connections over a rate limit.
    """

    def __init__(
        self,
        config: Config,
        clock: BrokerClock,
        dispatch: Dispatch,
        security: Security,
        gate: ConnectionGate,
    ) -> None:
        self._config = config
        self._clock = clock
        self._security = security
        self._gate = gate
        self._backlog = max(config.integer("socket.listen.backlog.size"), _LEAST_BACKLOG)
        self.connections = Connections(config, clock, dispatch)
        self._open: dict[str, _OpenListener] = {}
        self.inherited: BoundSockets = {}
        """Bound sockets, which are used before new ones are bound."""
        self._changes = 0
        self._handshakes: Turns | None = None
        self._logins = Turns(LOGIN_SECONDS)

    @property
    def addresses(self) -> tuple[Listener, ...]:
        """The listeners with their bound hosts and ports."""
        return tuple(listener.address for listener in self._open.values())

    def start(self, listeners: Iterable[Listener]) -> tuple[Listener, ...]:
        """Listen on every listener; return the bound hosts and ports.

        Raises StartError if an address cannot be bound, ConfigError for an invalid TLS
        configuration.
        """
        for listener in listeners:
            self._listen(listener)
        self.connections.start_sweeping()
        return self.addresses

    def follow(self, listeners: Iterable[Listener]) -> Steps:
        """Open and close listeners, by name, to match `listeners`; known listeners stay open.

        Connections of removed listeners are closed. A listener that cannot be opened is logged and
        retried at the next change. A later call replaces a call in progress. Source:
        DynamicListenerConfig.reconfigure.
        """
        wanted = {listener.name: listener for listener in listeners}
        self._changes += 1
        change = self._changes
        for name in self._open.keys() - wanted.keys():
            self._open.pop(name).close()
            self.connections.close_listener(name)
            LOG.emit("listener.removed", listener=name)
        for name, listener in wanted.items():
            if name in self._open:
                continue
            yield
            if self._changes != change:
                return
            try:
                self._listen(listener)
            except (StartError, ConfigError) as error:
                LOG.emit("listener.failed", listener=name, reason=str(error))
            else:
                LOG.emit("listener.added", listener=name, address=self._open[name].address.address)

    def _listen(self, listener: Listener) -> None:
        security = ListenerSecurity(self._config, listener.name)
        new_protocol = self._new_protocol(security)
        self.connections.open_listener(listener.name)
        acceptors: list[Acceptor] = []
        for bound in self._bound(listener):
            # Keepalive probes detect a peer that has vanished, even while a request waits in a
            # purgatory. Accepted sockets inherit the option. Kafka's Acceptor sets the same
            # option.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            acceptor = Acceptor(
                bound, new_protocol, listener.name, self._gate, self.connections.slots
            )
            acceptor.start(self._backlog)
            acceptors.append(acceptor)
            port = bound.getsockname()[1]
        address = listener._replace(host=listener.host or EVERY_HOST, port=port)
        self._open[listener.name] = _OpenListener(address, security, acceptors)

    def _bound(self, listener: Listener) -> list[socket.socket]:
        """Return the inherited sockets of a listener, or new sockets. Raises StartError."""
        return self.inherited.pop(listener, None) or bind(listener)

    def _new_protocol(self, security: ListenerSecurity) -> NewProtocol:
        """Return the protocol factory for the connections of a listener."""
        authenticate = security.authentication(self._clock, self._security, self._logins.await_turn)

        def new_connection(slot: Slot | None) -> Connection:
            new = self.connections.connection_type
            return new(self.connections, security.listener_name, authenticate, slot)

        if not security.protocol.uses_tls:
            return new_connection
        # Imported here: a broker without TLS does not load OpenSSL.
        from coordinator_server.net.tls_transport import HANDSHAKE_SECONDS, TlsTransport

        handshakes = self._handshakes = self._handshakes or Turns(HANDSHAKE_SECONDS)
        report = self.connections.report_handshake
        return lambda slot: TlsTransport(new_connection(slot), security, handshakes, report)

    def close_inherited(self, wanted: Collection[Listener] = ()) -> None:
        """Close inherited sockets, except those of wanted listeners."""
        for address in self.inherited.keys() - set(wanted):
            for bound in self.inherited.pop(address):
                bound.close()

    def check(self, config: Config) -> None:
        """Check the certificates in these settings for every listener. Raises ConfigError."""
        for listener in self._open.values():
            listener.security.check(config)

    def settings_changed(self) -> None:
        """Apply connection limits and certificates changed at run time."""
        for listener in self._open.values():
            listener.security.settings_changed(self._config)
        self._gate.settings_changed()
        self.connections.settings_changed()

    def duplicates(self, undo: ExitStack) -> BoundSockets:
        """Return second sockets for the addresses, which keep the addresses open.

        `undo` closes the sockets. Raises OSError.
        """
        return {
            listener.address: [
                undo.enter_context(acceptor.duplicate()) for acceptor in listener.acceptors
            ]
            for listener in self._open.values()
        }

    def accept_no_more(self) -> None:
        """Close the listening sockets; open connections stay open."""
        for listener in self._open.values():
            listener.close()
        self._open.clear()
        self._changes += 1

    async def disconnect(self, within_seconds: float = CLOSING_SECONDS) -> None:
        """Close the connections after sending queued responses."""
        await self.connections.close(within_seconds)


Sockets = dict[int, "BoundSockets"]
"""Bound sockets by broker and address."""

ServerElsewhere = tuple["SocketServer", "tuple[Listener, ...]"]
"""A socket server that listens on other ports than its broker's, and its addresses."""


class SocketServers:
    """The socket servers of running brokers, in `by_id`; a broker without sockets has none."""

    def __init__(self, address_book: AddressBook) -> None:
        self.by_id: dict[int, SocketServer] = {}
        self._address_book = address_book

    def start(
        self,
        node_id: int,
        server: SocketServer,
        inherited: BoundSockets | None = None,
    ) -> None:
        """Have a broker's server listen on the broker's addresses. Raises StartError.

        `inherited` are sockets that are already bound to some of the addresses.
        """
        self.by_id[node_id] = server
        server.inherited = dict(inherited or {})
        server.close_inherited(self._address_book.listeners[node_id])  # new listeners need ports
        try:
            server.start(self._address_book.listeners_of_start(node_id))
        except StartError:
            self.by_id.pop(node_id).accept_no_more()
            server.close_inherited()
            raise
        run_all(self.follow())
        server.close_inherited()

    def duplicates(self) -> Sockets:
        """Return second sockets for all addresses, which keep the addresses open.

        The addresses of stopped brokers are bound, too. If this raises OSError or StartError, no
        socket of the result stays open.
        """
        with ExitStack() as undo:
            sockets = {node_id: server.duplicates(undo) for node_id, server in self.by_id.items()}
            for node_id in self._address_book.listeners.keys() - sockets.keys():
                sockets[node_id] = {
                    listener: [undo.enter_context(bound) for bound in bind(listener)]
                    for listener in self.addresses(node_id)
                }
            undo.pop_all()
        return sockets

    def follow(self) -> Steps:
        """Open and close listeners to match the settings."""
        yield from self._address_book.follow(self.by_id)

    def pop(self, node_id: int) -> SocketServer | None:
        """Remove a broker's server, and close its listening sockets; None if there is no server."""
        server = self.by_id.pop(node_id, None)
        if server is not None:
            server.accept_no_more()
        return server

    def accept_no_more(self) -> None:
        """Close all listening sockets; open connections stay open."""
        for server in self.by_id.values():
            server.accept_no_more()

    async def disconnect(self, within_seconds: float = CLOSING_SECONDS) -> None:
        """Close all connections after sending queued responses."""
        await asyncio.gather(*[server.disconnect(within_seconds) for server in self.by_id.values()])

    def abort_connections(self) -> None:
        """Close all connections without sending queued responses."""
        for server in self.by_id.values():
            server.connections.abort()

    # --- addresses --------------------------------------------------------------------------------

    def addresses(self, node_id: int) -> tuple[Listener, ...]:
        """Return the addresses that a broker listens on while it runs."""
        return self._address_book.listeners[node_id]

    def connection_count(self, node_id: int) -> int:
        """Return the number of connections of a broker."""
        server = self.by_id.get(node_id)
        return 0 if server is None else len(server.connections)

    async def start_elsewhere(
        self, servers: Mapping[int, SocketServer]
    ) -> dict[int, ServerElsewhere]:
        """Start a second server on free ports for each broker, not yet advertised.

        Raises StartError; then none of the servers is left open.
        """
        elsewhere: dict[int, ServerElsewhere] = {}
        try:
            for node_id, server in servers.items():
                free = [address._replace(port=0) for address in self.addresses(node_id)]
                elsewhere[node_id] = server, server.start(free)
        except StartError:
            for server in servers.values():
                server.accept_no_more()
                await server.disconnect()
            raise
        return elsewhere

    def move(self, elsewhere: Mapping[int, ServerElsewhere]) -> list[SocketServer]:
        """Replace servers by those of `start_elsewhere`; return the replaced servers.

        The caller must disconnect them.
        """
        former = [self.by_id[node_id] for node_id in elsewhere]
        for server in former:
            server.accept_no_more()
        for node_id, (server, addresses) in elsewhere.items():
            self.by_id[node_id] = server
            self._address_book.listeners[node_id] = addresses
        return former

    # --- work that the virtual clock waits for ----------------------------------------------------

    @property
    def are_behind(self) -> bool:
        """Whether received requests wait only for the event loop."""
        return any(server.connections.is_behind for server in self.by_id.values())

    def hold_requests(self) -> None:
        """Hold incoming requests until `release_requests`."""
        for server in self.by_id.values():
            server.connections.hold()

    def release_requests(self) -> None:
        """Handle the held requests, and future requests as they arrive."""
        for server in self.by_id.values():
            server.connections.release()
