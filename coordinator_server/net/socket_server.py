"""The sockets of one broker: it listens on its listeners and holds the connections.

Source: Kafka's SocketServer.
"""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.net.acceptor import Acceptor, bind
from coordinator_server.net.connection import Connection
from coordinator_server.net.connections import Connections

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coordinator_server.clock.broker_clock import Clock
    from coordinator_server.config.config import Config, Listener
    from coordinator_server.net.connections import Dispatch

_LEAST_BACKLOG = 1024


class SocketServer:
    """The listening sockets of one broker, and the connections that came in by them.

    `clock` is the machine's time, `dispatch(connection, frame)` handles a request.
    """

    def __init__(self, config: Config, clock: Clock, dispatch: Dispatch) -> None:
        self._backlog = max(config.integer("socket.listen.backlog.size"), _LEAST_BACKLOG)
        self.connections = Connections(config, clock, dispatch)
        self._acceptors: list[Acceptor] = []

    def start(self, listeners: Iterable[Listener]) -> tuple[Listener, ...]:
        """Listen on every listener; the hosts and ports really bound.

        Raises StartError if an address cannot be had.
        """
        addresses = []
        for listener in listeners:
            for bound in bind(listener):
                # Accepted sockets inherit it: a peer that vanished is noticed one day, even
                # while its request is parked. Kafka's Acceptor does the same.
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                acceptor = Acceptor(bound, partial(Connection, self.connections, listener.name))
                acceptor.start(self._backlog)
                self._acceptors.append(acceptor)
                port = bound.getsockname()[1]
            addresses.append(listener._replace(host=listener.host or "0.0.0.0", port=port))
        self.connections.start_sweeping()
        return tuple(addresses)

    def accept_no_more(self) -> None:
        """Close the listening sockets; the connections go on."""
        for acceptor in self._acceptors:
            acceptor.close()
        self._acceptors.clear()

    async def disconnect(self) -> None:
        """Close the connections: answers already given go out."""
        await self.connections.close()
