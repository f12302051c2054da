"""Chooses the broker address for each client: from `advertised.listeners`, or by `auto`.

`auto` returns the address by which the client reached this broker, because that address has worked
for the client. A published container port is the exception: clients connect to a host and port that
the container cannot see. Such clients connect from the gateway of the container's network
(docker-proxy or NAT) and get `published.host` and `published.port`. docs/docker.md lists the rules.
"""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.config.config import format_address
from coordinator_server.config.hosts import is_address, is_loopback
from coordinator_server.events.log import LOG

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinator_server.config.config import Config, Listener
    from coordinator_server.net.connection import Connection
    from coordinator_server.net.networks import RoutingTable
    from coordinator_server.net.socket_server import SocketServer
    from coordinator_server.steps import Steps


class BrokerEndpoint(NamedTuple):
    """A broker's id, its address for one client and its rack; `is_stopped` if it is not running."""

    node_id: int
    host: str
    port: int
    is_stopped: bool = False
    rack: str | None = None


_DEFAULT_PUBLISHED_HOST = "localhost"

EVERY_HOST = "0.0.0.0"
"""The bound host of a listener without a host."""


class AddressBook:
    """Addresses of all brokers of the process for a client; `configs` are by node id.

    An address that the client probably cannot reach is logged the first time, once per listener.
    """

    def __init__(
        self, configs: Mapping[int, Config], routing_table: RoutingTable, *, in_container: bool
    ) -> None:
        self._configs = configs
        self.listeners: dict[int, tuple[Listener, ...]] = {}
        """Listeners by node id, kept while a broker is stopped so that it restarts on the same
        ports."""
        self.follow_all()
        self._advertised = {
            node_id: config.advertised_listeners() for node_id, config in configs.items()
        }
        self._published_ports = {
            node_id: config.integer("published.port") for node_id, config in configs.items()
        }
        first = next(iter(configs.values()))
        self._published_host = first.optional_text("published.host")
        self._routing_table = routing_table
        self._in_container = in_container
        self._warned: set[str] = set()

    def follow_all(self) -> None:
        """Set the configured listeners of all brokers, before they listen."""
        self.listeners = {node_id: config.listeners() for node_id, config in self._configs.items()}

    def inherit(self, listeners: Mapping[int, tuple[Listener, ...]]) -> None:
        """Take the addresses of `listeners` for configured listeners that allow these addresses.

        A configured listener needs the same name and host, and the same port or port 0.
        """
        for node_id, former in listeners.items():
            known = {listener.name: listener for listener in former}
            self.listeners[node_id] = tuple(
                known[wanted.name]
                if wanted.name in known
                and wanted.port in (0, known[wanted.name].port)
                and (wanted.host or EVERY_HOST) == known[wanted.name].host
                else wanted
                for wanted in self.listeners.get(node_id, ())
            )

    def listeners_of_start(self, node_id: int) -> list[Listener]:
        """Return the listeners of a broker that were not added at run time."""
        fixed = {listener.name for listener in self._configs[node_id].listeners_of_start()}
        return [listener for listener in self._wanted(node_id) if listener.name in fixed]

    def follow(self, servers: Mapping[int, SocketServer]) -> Steps:
        """Apply the configured listeners of all brokers; existing listeners keep their address."""
        for node_id in self._configs:
            self.listeners[node_id] = self._wanted(node_id)
            server = servers.get(node_id)
            if server is not None:
                yield from server.follow(self.listeners[node_id])
                if servers.get(node_id) is server:
                    self.listeners[node_id] = server.addresses

    def _wanted(self, node_id: int) -> tuple[Listener, ...]:
        known = {listener.name: listener for listener in self.listeners[node_id]}
        wanted = self._configs[node_id].listeners()
        return tuple(known.get(listener.name, listener) for listener in wanted)

    def find(self, connection: Connection, node_id: int, asked_id: int) -> tuple[str, int] | None:
        """Return host and port of a broker for a client that is connected to broker `asked_id`.

        By default this is the host that the client connected to, with the port of broker
        `node_id`. Returns None if that broker lacks the client's listener.
        """
        if node_id == asked_id:
            return self.address(connection, node_id, connection.local_address[1])
        name = connection.listener_name
        port = next(
            (listener.port for listener in self.listeners[node_id] if listener.name == name), None
        )
        return None if port is None else self.address(connection, node_id, port)

    def address(self, connection: Connection, node_id: int, port: int) -> tuple[str, int]:
        """Return host and port at which the client of a connection reaches a broker.

        `port` is the broker's bound port of the client's listener.
        """
        name = connection.listener_name
        peer = connection.client_host.removeprefix("/")
        advertised = self._advertised[node_id].get(name)
        if advertised is not None:
            address = advertised.host, advertised.port
            if is_loopback(advertised.host) and not self._shares_loopback(connection, peer):
                self._warn_once(
                    name, peer, address, "localhost is another machine there, set a name or auto"
                )
            return address
        if self._came_through_published_port(peer):
            host = self._published_host or _DEFAULT_PUBLISHED_HOST
            return host, self._published_ports[node_id] or port
        address = connection.local_address[0], port
        if self._in_container and not self._is_known(peer):
            self._warn_once(
                name, peer, address, "if it came through a published port, set published.host"
            )
        return address

    def advertised_listeners(self, connection: Connection, node_id: int) -> str:
        """Return `advertised.listeners` of a broker as the client of a connection sees it.

        The client's own listener shows the address that the client is given; other listeners show
        the same host with their own ports.
        """
        came_in_by = connection.listener_name
        host, port = self.address(connection, node_id, connection.local_address[1])
        shown: list[str] = []
        for listener in self.listeners[node_id]:
            advertised = self._advertised[node_id].get(listener.name)
            if listener.name == came_in_by:
                address = format_address(host, port)
            elif advertised is not None:
                address = format_address(advertised.host, advertised.port)
            elif came_in_by in self._advertised[node_id]:
                address = format_address(connection.local_address[0], listener.port)
            else:
                address = format_address(host, listener.port)
            shown.append(f"{listener.name}://{address}")
        return ",".join(shown)

    def _came_through_published_port(self, peer: str) -> bool:
        if self._published_host is None:
            return self._in_container and self._routing_table.is_gateway(peer)
        return self._routing_table.is_gateway(peer) or not self._routing_table.is_on_link(peer)

    def _shares_loopback(self, connection: Connection, peer: str) -> bool:
        """Return whether the client runs on this machine or on the host that publishes our port."""
        return (
            is_loopback(peer)
            or peer == connection.local_address[0]
            or (self._in_container and self._routing_table.is_gateway(peer))
        )

    def _is_known(self, peer: str) -> bool:
        return self._routing_table.is_on_link(peer) or not is_address(peer)

    def _warn_once(self, name: str, peer: str, address: tuple[str, int], reason: str) -> None:
        if name not in self._warned:
            self._warned.add(name)
            LOG.emit(
                "address.doubted",
                listener=name,
                remote=peer,
                address=format_address(*address),
                reason=reason,
            )


def check_names(config: Config) -> threading.Thread | None:
    """Resolve the advertised host names and log each that does not resolve here.

    Runs in a daemon thread, because a slow name server must not delay start or stop. Returns the
    thread, or None if no name is advertised.
    """
    hosts = {listener.host for listener in config.advertised_listeners().values()}
    names = sorted(host for host in hosts if not is_address(host))
    if not names:
        return None
    thread = threading.Thread(target=_look_up, args=(names,), name="addresses", daemon=True)
    thread.start()
    return thread


def _look_up(names: list[str]) -> None:
    for name in names:
        try:
            socket.getaddrinfo(name, None)
        except (OSError, UnicodeError) as error:
            reason = f"advertised.listeners: the name {name} does not resolve here: {error}"
            LOG.emit("address.unresolved", address=name, reason=reason)
