"""SocketServers: the socket servers of the brokers that run in this process, by node id."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coordinator_server.net.acceptor import StartError
from coordinator_server.steps import run_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinator_server.config.config import Listener
    from coordinator_server.net.addresses import AddressBook
    from coordinator_server.net.socket_server import SocketServer
    from coordinator_server.steps import Steps

ServerElsewhere = tuple["SocketServer", "tuple[Listener, ...]"]
"""A socket server that listens on other ports than its broker's, and its addresses."""


class SocketServers:
    """The socket servers in `by_id`. A broker without sockets, or that is stopped, has none."""

    def __init__(self, address_book: AddressBook) -> None:
        self.by_id: dict[int, SocketServer] = {}
        self._address_book = address_book

    def start(self, node_id: int, server: SocketServer) -> None:
        """Have a broker's server listen on the broker's addresses. Raises StartError."""
        self.by_id[node_id] = server
        try:
            server.start(self._address_book.listeners_of_start(node_id))
        except StartError:
            self.by_id.pop(node_id).accept_no_more()
            raise
        run_all(self.follow())

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

    async def disconnect(self) -> None:
        """Close all connections after sending queued responses."""
        await asyncio.gather(*[server.disconnect() for server in self.by_id.values()])

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
                free = [one._replace(port=0) for one in self.addresses(node_id)]
                elsewhere[node_id] = server, server.start(free)
        except StartError:
            for server in servers.values():
                server.accept_no_more()
                await server.disconnect()
            raise
        return elsewhere

    def move(self, elsewhere: Mapping[int, ServerElsewhere]) -> list[SocketServer]:
        """Replace servers by those of `start_elsewhere`; return the former ones to disconnect."""
        former = [self.by_id[node_id] for node_id in elsewhere]
        for server in former:
            server.accept_no_more()
        for node_id, (server, addresses) in elsewhere.items():
            self.by_id[node_id] = server
            self._address_book.listeners[node_id] = addresses
        return former

    # --- for the control of the clock -------------------------------------------------------------

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
