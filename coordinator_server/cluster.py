"""The cluster in this process while it runs: brokers start and stop, and leadership moves.

With `broker.count=N` (default 1) each of the N brokers has its own ports, connections, fetch
sessions and group coordinator, as in a real cluster. `composition` builds the parts of a cluster,
and `cluster_reset` empties a cluster.
"""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.config.config import ConfigError
from coordinator_server.events.log import LOG
from coordinator_server.maintenance.scheduler import MaintenanceTimer
from coordinator_server.net.acceptor import StartError
from coordinator_server.net.addresses import check_names
from coordinator_server.net.connections import CLOSING_SECONDS
from coordinator_server.net.socket_server import SocketServers
from coordinator_server.topics.names import OFFSETS_TOPIC
from storage import replacement

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from coordinator_server.broker import Broker
    from coordinator_server.config.config import Config, Listener
    from coordinator_server.maintenance.ephemeral import OwnDirectory
    from coordinator_server.net.socket_server import Sockets, SocketServer
    from coordinator_server.shared_state import SharedState
    from coordinator_server.steps import Steps
    from coordinator_server.topics.topic import Partition, Topic

    NewBroker = Callable[[Config, Callable[[int], Coroutine[Any, Any, None]]], Broker]
    """`new_broker(config, stop_broker)` returns a broker that is not started."""

    NewServer = Callable[[Broker], SocketServer]


class Handover(NamedTuple):
    """The data directory, ports and sockets that a cluster hands to its replacement.

    `listeners` are the addresses of all brokers, `sockets` those of the running brokers: clients
    can connect during the replacement, and wait.
    """

    own_directory: OwnDirectory | None
    listeners: Mapping[int, tuple[Listener, ...]]
    sockets: Sockets

    def close(self) -> None:
        """Close the sockets. This is needed if no cluster takes them over."""
        for by_listener in self.sockets.values():
            for bound in chain.from_iterable(by_listener.values()):
                bound.close()


class Cluster:
    """The brokers of the process: call `start`, optionally `listen`, and `stop` at the end.

    `brokers` has the running brokers by id; `node_ids` has the ids of all brokers. For the three
    clocks see `shared_state.Clocks`. Code that changes the cluster or its time must hold the lock
    `changing`.
    """

    def __init__(self, shared: SharedState, new_broker: NewBroker, new_server: NewServer) -> None:
        self.shared = shared
        self.node_ids = tuple(shared.configs)
        self.config = shared.configs[self.node_ids[0]]
        self.clock, self.client_clock, self.machine_clock = shared.clocks
        self.cluster_id = shared.cluster_id
        self.brokers = shared.running
        self.topics = shared.topics
        self.group_configs = shared.group_configs
        self.telemetry = shared.telemetry
        self.dynamic_configs = shared.dynamic_configs
        self.security = shared.security
        self.step_runner = shared.step_runner
        self.journal = shared.journal
        self.offsets_topic = shared.offsets_topic
        self.share_state_topic = shared.share_state_topic
        self.changing = asyncio.Lock()
        self.servers = SocketServers(shared.address_book)
        self.new_server = new_server
        self._new_broker = new_broker
        self.is_closed = False
        self.local_work: set[asyncio.Task[None]] = set()
        """Requests of the control server in progress, which `close` cancels."""
        self._is_listening = False
        self._maintenance = MaintenanceTimer(self.topics, self.clock, self.machine_clock)
        self.dynamic_configs.servers = self.servers.by_id
        self.dynamic_configs.on_changed.append(self._take_settings)
        self.topics.leadership.on_moving.append(self._on_moving)
        self.topics.leadership.on_moved.append(self._on_moved)

    # --- start and stop ---------------------------------------------------------------------------

    def start(self) -> None:
        """Start the brokers, which load their coordinators. Raises StorageError, ConfigError."""
        for config in self.shared.configs.values():
            broker = self._new_broker(config, self.stop_broker)
            self.brokers.add(broker)
            broker.start()
        self.security.start()
        self.topics.create_initial()
        self._maintenance.start()

    async def listen(self, handover: Handover | None = None) -> tuple[Listener, ...]:
        """Open the sockets and return the addresses of the first broker. Raises StartError."""
        inherited = {} if handover is None else handover.sockets
        self._is_listening = True
        check_names(self.config)
        for node_id, broker in self.brokers.items():
            self.servers.start(node_id, self.new_server(broker), inherited.get(node_id))
            if node_id != self.config.node_id:
                for address in self.servers.addresses(node_id):
                    LOG.emit("broker.listening", broker=node_id, address=address.address)
        self.step_runner.run(self._forget_replaced())
        return self.servers.addresses(self.config.node_id)

    def _forget_replaced(self) -> Steps:
        """Remove the data that a restore has replaced, now that the new data is served."""
        logs = self.shared.logs
        try:
            yield from replacement.forget(logs.disk, logs.path)
        except OSError as error:
            LOG.emit("log.failed", reason=f"the replaced data cannot be removed: {error}")

    def handover(self) -> Handover:
        """Return the Handover for the next cluster of the process. Call this before `close`."""
        shared = self.shared
        return Handover(
            shared.own_directory, dict(shared.address_book.listeners), self.servers.duplicates()
        )

    async def stop(self) -> None:
        """Answer parked requests, close connections and logs, and remove ephemeral data."""
        await self.close()
        if self.shared.own_directory is not None:
            self.shared.own_directory.remove()

    async def close(self, within_seconds: float = CLOSING_SECONDS) -> None:
        """Answer parked requests, and close connections and logs. Raises StorageError.

        Connections whose clients do not read their responses are closed after `within_seconds`.
        """
        shared = self.shared
        self.is_closed = True
        self._maintenance.stop()
        for task in self.local_work:
            task.cancel()
        shared.security.stop()
        self.servers.accept_no_more()
        shared.share_persister.close()
        for broker in self.brokers.values():
            broker.shutting_down()
        shared.fetch_purgatory.close()
        await self.servers.disconnect(within_seconds)
        shared.step_runner.close()
        shared.journal.close()
        shared.flusher.close()
        shared.topics.close()

    # --- single brokers ---------------------------------------------------------------------------

    async def stop_broker(self, node_id: int) -> None:
        """Stop one broker as in a controlled shutdown: move its leadership, then disconnect."""
        async with self.changing:
            broker = None if self.is_closed else self.brokers.pop(node_id, None)
            if broker is None:
                return
            server = self.servers.pop(node_id)
            broker.shutting_down()
            moved = self.topics.leadership.stop_node(node_id, self.topics.all_topics())
            LOG.emit("broker.removed", broker=node_id, partitions_moved=moved)
            if server is not None:
                await server.disconnect()

    async def start_broker(self, node_id: int) -> None:
        """Start a stopped broker on its previous addresses. Raises StartError."""
        async with self.changing:
            self.check_open()
            if node_id in self.brokers:
                return
            broker = self._new_broker(self.shared.configs[node_id], self.stop_broker)
            if self._is_listening:
                try:
                    self.servers.start(node_id, self.new_server(broker))
                except ConfigError as error:
                    # Certificate files may have changed since the configuration was read.
                    raise StartError(str(error)) from error
            broker.start()
            self.brokers.add(broker)
            moved = self.topics.leadership.start_node(node_id, self.topics.all_topics())
            LOG.emit("broker.returned", broker=node_id, partitions_moved=moved)

    def broker_to_read(self, node_id: int) -> Broker:
        """Return a broker, also if it is stopped, to read settings, ACLs and quotas from.

        The coordinators of a stopped broker know nothing.
        """
        broker = self.brokers.get(node_id)
        if broker is None:
            broker = self._new_broker(self.shared.configs[node_id], self.stop_broker)
        return broker

    def check_open(self) -> None:
        """Raise StartError if the cluster is closed: its data may belong to another cluster."""
        if self.is_closed:
            raise StartError("the cluster is closed")

    def move(self, topic: Topic, partition: Partition, node_id: int) -> None:
        """Make a running broker the leader of a partition and the coordinator of its groups."""
        self.topics.leadership.move(topic, partition, node_id)

    def _take_settings(self) -> Steps:
        """Apply settings that have changed at run time to the brokers, in steps."""
        self.topics.settings_changed()
        for node_id, broker in tuple(self.brokers.items()):
            broker.settings_changed()
            if node_id in self.servers.by_id:
                self.servers.by_id[node_id].settings_changed()
            yield
        yield from self.servers.follow()

    def _on_moving(self, partition: Partition) -> None:
        """Let groups finish their queued requests while their broker is still the leader."""
        groups = self.brokers.groups_of(partition.leader_id)
        if partition.topic_name == OFFSETS_TOPIC and groups is not None:
            groups.emigrate(partition.index)

    def _on_moved(self, partition: Partition, before: int) -> None:
        """Move coordinator state with its partition, and complete fetches that wait for it."""
        old, new = (
            None if broker is None else broker.coordinator_of(partition.topic_name)
            for broker in map(self.brokers.get, (before, partition.leader_id))
        )
        if old is not None and old is new:
            old.renew(partition)
        elif old is not None:
            old.emigrate(partition.index)
        if new is not None and new is not old:
            new.immigrate(partition)
        self.shared.fetch_purgatory.check_and_complete(partition)

    def busy_with(self, *, with_groups: bool) -> str:
        """Return the name of work in progress, such as "fetches"; "" if the cluster is idle."""
        if self.topics.is_in_maintenance:
            return "maintenance of the logs"
        if self.shared.flusher.is_busy:
            return "syncing the logs"
        if self.step_runner or self.shared.flusher.is_checking:
            return "a long request"
        if self.shared.fetch_purgatory.is_busy:
            return "fetches"
        busy_with = (
            broker.groups.busy_with(with_groups=with_groups) for broker in self.brokers.values()
        )
        return next(filter(None, busy_with), "")
