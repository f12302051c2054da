"""The cluster in this process: one data directory, its topics, and N brokers that share them.

With `broker.count=N` (default 1) each of the N brokers has its own ports, connections, fetch
sessions and group coordinator, as in a real cluster. All brokers share one log per partition, so
only leadership moves when a broker stops (see `topics.leadership`), never data.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coordinator_server.broker import Broker
from coordinator_server.clock.step_runner import StepRunner
from coordinator_server.config.config import ConfigError
from coordinator_server.config.dynamic_configs import DynamicConfigs
from coordinator_server.config.group_configs import GroupConfigs
from coordinator_server.config.hosts import in_container
from coordinator_server.coordinator.markers import Markers
from coordinator_server.events.log import LOG
from coordinator_server.fetch.purgatory import KeyedPurgatory
from coordinator_server.maintenance import descriptors, ephemeral
from coordinator_server.maintenance.flusher import Flusher
from coordinator_server.net.acceptor import StartError
from coordinator_server.net.addresses import AddressBook, check_names
from coordinator_server.net.connection_gate import ConnectionGate
from coordinator_server.net.dispatch import Dispatcher
from coordinator_server.net.endpoint import BrokerEndpoint
from coordinator_server.net.metering import Metering
from coordinator_server.net.networks import RoutingTable
from coordinator_server.net.socket_server import SocketServer
from coordinator_server.rebalances.journal import RebalanceJournal
from coordinator_server.runtime.topic import CoordinatorTopic
from coordinator_server.security.security import Security
from coordinator_server.steps import run_all
from coordinator_server.telemetry.telemetry import Telemetry
from coordinator_server.topics.leadership import NOBODY
from coordinator_server.topics.log_defaults import LogDefaults
from coordinator_server.topics.manager import TopicManager
from coordinator_server.topics.names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from coordinator_server.topics.producer_ids import ProducerIdManager
from coordinator_server.topics.topic_configs import log_defaults
from storage.local_disk import LocalDisk
from storage.log_manager import LogManager

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.clock.broker_clock import BrokerClock, Timer
    from coordinator_server.config.config import Config, Listener
    from coordinator_server.coordinator.group_coordinator import GroupCoordinator
    from coordinator_server.coordinator.share_coordinator import ShareCoordinator
    from coordinator_server.coordinator.share_persister import LocalSharePersister
    from coordinator_server.coordinator.transaction_coordinator import TransactionCoordinator
    from coordinator_server.core.share_partitions.in_flight import GivenUpRecords
    from coordinator_server.core.share_partitions.share_partition import SharePartition
    from coordinator_server.net.connection import Connection
    from coordinator_server.net.dispatch import Handler
    from coordinator_server.security.authorizer import Authorizer
    from coordinator_server.steps import Steps
    from coordinator_server.topics.topic import Partition, Topic
    from protocol.registry import ApiSpec
    from storage.disk import Disk

    HandlerOf = Callable[[ApiSpec, Authorizer | None], Handler[Broker]]

FAILED_MAINTENANCE_DELAY_MS = 1000
"""Delay before maintenance continues after an error outside any one log."""


class Cluster:
    """The brokers of the process: call `start`, optionally `listen`, and `stop` at the end.
    `brokers` has the running brokers by id; `node_ids` has the ids of all. The attributes declared
    in the class body exist only after `start`. `clock` is the broker's time, `client_clock` the
    time of clients' waits, `machine_clock` the time of sockets: all the same clock unless
    `has_virtual_clock` (see `control.advance`). Code that changes the cluster or its time must hold
    the lock `changing`. `handler_of` returns the handler of an API; `disk` is for tests.
    """

    topics: TopicManager
    group_configs: GroupConfigs
    telemetry: Telemetry
    dynamic_configs: DynamicConfigs
    security: Security
    offsets_topic: CoordinatorTopic
    transactions_topic: CoordinatorTopic
    share_state_topic: CoordinatorTopic
    markers: Markers
    journal: RebalanceJournal
    producer_ids: ProducerIdManager
    fetch_purgatory: KeyedPurgatory
    cluster_id: str

    def __init__(
        self,
        config: Config,
        clock: BrokerClock,
        handler_of: HandlerOf,
        disk: Disk | None = None,
        *,
        has_virtual_clock: bool = False,
    ) -> None:
        self.config = config
        self.machine_clock = self.clock = self.client_clock = clock
        if has_virtual_clock:
            from coordinator_server.clock.virtual_clock import VirtualClock

            self.clock, self.client_clock = VirtualClock(clock), VirtualClock(clock)
        self.brokers: dict[int, Broker] = {}
        configs = map(config.of_broker, range(config.integer("broker.count")))
        self._configs = {one.node_id: one for one in configs}
        self.node_ids = tuple(self._configs)
        self._servers: dict[int, SocketServer] = {}
        self._share_persister: LocalSharePersister | None = None
        self._is_listening = self._is_stopping = False
        self.step_runner = StepRunner(self.machine_clock)
        routes, is_inside = RoutingTable.read(), in_container()
        self._address_book = AddressBook(self._configs, routes, in_container=is_inside)
        self._handler_of = handler_of
        self._disk = disk
        self.changing = asyncio.Lock()
        self._own_directory: ephemeral.OwnDirectory | None = None
        self._maintenance_timer: Timer | None = None

    # --- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the logs and start loading the coordinators. Raises StorageError, ConfigError."""
        config, clock = self.config, self.clock
        logs = LogManager.open(
            self._disk or LocalDisk(durable=not config.ephemeral),
            self._data_directory(),
            log_defaults(config),
            node_id=config.node_id,
            cluster_id=config.cluster_id,
            now_ms=clock.now_ms(),
            max_open_files=descriptors.for_logs(),
        )
        self.dynamic_configs = DynamicConfigs(logs.catalogue, self._configs)
        self._address_book.follow_all()
        self._log_defaults = LogDefaults(logs, self._configs)
        self._flusher = Flusher(asyncio.get_running_loop())
        logs.use(self._flusher)
        self.cluster_id = logs.cluster_id
        self.fetch_purgatory = KeyedPurgatory(self.client_clock, self.client_clock.now_ms)
        self.producer_ids = ProducerIdManager(logs.next_producer_ids)
        self.topics = TopicManager(
            logs, config, clock, node_ids=self.node_ids, changed=self.fetch_purgatory.notify
        )
        self._log_defaults.lead_by(self.topics)
        self.dynamic_configs.servers = self._servers
        self.dynamic_configs.on_changed += [self._log_defaults.follow, self._take_settings]
        self.topics.leadership.on_moving.append(self._on_moving)
        self.topics.leadership.on_moved.append(self._on_moved)
        self.group_configs = GroupConfigs(logs.catalogue, config)
        self.telemetry = Telemetry(logs.catalogue, keeps_pushes=clock is not self.machine_clock)
        self.security = Security(config, logs.security_state, clock, self.machine_clock)
        self.offsets_topic = CoordinatorTopic(self.topics, OFFSETS_TOPIC)
        self.transactions_topic = CoordinatorTopic(self.topics, TRANSACTIONS_TOPIC)
        self.share_state_topic = CoordinatorTopic(self.topics, SHARE_STATE_TOPIC)
        self.markers = Markers(
            self.topics, self._groups_of, clock, self.machine_clock, self.step_runner
        )
        self.journal = RebalanceJournal(
            config, clock, self.topics, asyncio.get_running_loop(), self.step_runner
        )
        for node_id, broker_config in self._configs.items():
            broker = self.brokers[node_id] = Broker(self, broker_config)
            broker.start()
        self.security.start()
        self.topics.create_initial()
        self._maintain()

    async def listen(self) -> tuple[Listener, ...]:
        """Open the sockets and return the addresses of the first broker. Raises StartError."""
        self._is_listening = True
        check_names(self.config)
        for node_id, broker in self.brokers.items():
            self._listen(broker)
            if node_id != self.config.node_id:
                for address in self.addresses(node_id):
                    LOG.emit("broker.listening", broker=node_id, address=address.address)
        return self.addresses(self.config.node_id)

    async def stop(self) -> None:
        """Answer parked requests, close connections and logs, and remove ephemeral data."""
        if self._maintenance_timer is not None:
            self._maintenance_timer.cancel()
        self.security.stop()
        for server in self._servers.values():
            server.accept_no_more()
        self._is_stopping = True
        if self._share_persister is not None:
            self._share_persister.close()
        for broker in self.brokers.values():
            broker.shutting_down()
        self.fetch_purgatory.close()
        await asyncio.gather(*[server.disconnect() for server in self._servers.values()])
        self.step_runner.close()
        self.journal.close()
        self._flusher.close()
        self.topics.close()
        if self._own_directory is not None:
            self._own_directory.remove()

    # --- where the brokers are --------------------------------------------------------------------

    @property
    def controller_id(self) -> int:
        """The broker that clients see as the controller; -1 when no broker runs."""
        return next(iter(self.brokers), NOBODY)

    def endpoint(
        self, node_id: int, asked_id: int, connection: Connection
    ) -> BrokerEndpoint | None:
        """Return the address of broker `node_id` for a client that is connected to `asked_id`.

        None if broker `node_id` lacks the listener that the client is connected to.
        """
        address = self._address_book.find(connection, node_id, asked_id)
        if address is None:
            return None
        rack = self.topics.racks.get(node_id)
        return BrokerEndpoint(node_id, *address, node_id not in self.brokers, rack)

    def advertised_listeners(self, node_id: int, connection: Connection) -> str:
        """Return `advertised.listeners` of a broker as a client of that broker sees it."""
        return self._address_book.advertised_listeners(connection, node_id)

    def addresses(self, node_id: int) -> tuple[Listener, ...]:
        """Return the addresses that a broker listens on while it runs."""
        return self._address_book.listeners[node_id]

    def connection_count(self, node_id: int) -> int:
        """Return the number of connections of a broker."""
        return len(self._servers[node_id].connections) if node_id in self._servers else 0

    # --- changes at run time ----------------------------------------------------------------------

    async def stop_broker(self, node_id: int) -> None:
        """Stop one broker as in a controlled shutdown: move its leadership, then disconnect."""
        async with self.changing:
            broker = self.brokers.pop(node_id, None)
            if broker is None:
                return
            server = self._servers.pop(node_id, None)
            if server is not None:
                server.accept_no_more()
            broker.shutting_down()
            moved = self.topics.leadership.stop_node(node_id, self.topics.all_topics())
            LOG.emit("broker.removed", broker=node_id, partitions_moved=moved)
            if server is not None:
                await server.disconnect()

    async def start_broker(self, node_id: int) -> None:
        """Start a stopped broker on its previous addresses. Raises StartError."""
        async with self.changing:
            if node_id in self.brokers:
                return
            broker = Broker(self, self._configs[node_id])
            if self._is_listening:
                try:
                    self._listen(broker)
                except ConfigError as error:  # certificate files may have changed meanwhile
                    raise StartError(str(error)) from error
            broker.start()
            self.brokers = {
                one: broker if one == node_id else self.brokers[one]
                for one in self.node_ids
                if one == node_id or one in self.brokers
            }
            moved = self.topics.leadership.start_node(node_id, self.topics.all_topics())
            LOG.emit("broker.returned", broker=node_id, partitions_moved=moved)

    def _take_settings(self) -> Steps:
        """Apply settings that have changed at run time to the brokers, in steps."""
        self.topics.settings_changed()
        for node_id, broker in self.brokers.items():
            broker.settings_changed()
            if node_id in self._servers:
                self._servers[node_id].settings_changed()
            yield
        yield from self._address_book.follow(self._servers)

    def move(self, topic: Topic, partition: Partition, node_id: int) -> None:
        """Make a running broker the leader of a partition and the coordinator of its groups."""
        self.topics.leadership.move(topic, partition, node_id)

    async def reset(self, *, moves: bool = False) -> dict[str, int]:
        """Remove all state that clients created, and their connections; return what was removed.

        The result counts topics, groups and connections. Stopped brokers are started. With `moves`
        the brokers listen on other ports, so that former clients cannot reconnect. The removal
        happens in one turn of the event loop, connections first. Producer ids are not reused.
        Clocks and the log level return to their initial values. Raises StorageError, StartError.
        """
        for node_id in self.node_ids:
            await self.start_broker(node_id)
        async with self.changing:
            fresh = await self._listen_elsewhere() if moves else {}
            while self.step_runner or self._flusher.is_checking:  # they may still write
                for server in self._servers.values():
                    server.connections.abort()
                self._flusher.cancel_checks()
                await asyncio.sleep(0 if self.step_runner else 0.001)
            topics = tuple(self.topics.all_topics())
            told = {
                "topics": len(topics),
                "groups": sum(len(broker.groups.tasks) for broker in self.brokers.values()),
                "connections": sum(map(self.connection_count, self.node_ids)),
            }
            left = [self._servers[node_id] for node_id in fresh]
            for server in left:
                server.accept_no_more()
            for server in self._servers.values():
                server.connections.abort()
            for node_id, (server, addresses) in fresh.items():
                self._servers[node_id] = server
                self._address_book.listeners[node_id] = addresses
            for broker in self.brokers.values():
                broker.forget()
            if topics:
                run_all(self.topics.delete(topics))
            self.group_configs.clear()
            self.telemetry.clear()
            run_all(self.dynamic_configs.clear())
            self.security.forget()
            self.journal.forget()
            LOG.reset_level()
            self.topics.create_initial()
            self._reset_clocks()
            await asyncio.gather(*[server.disconnect() for server in left])
        LOG.emit("cluster.reset", **told)
        return told

    def explain_given_up(self, share_partition: SharePartition, records: GivenUpRecords) -> None:
        """Publish an event for records that a share group has given up."""
        from coordinator_server.rebalances.given_up import given_up

        key = share_partition.key
        topic = self.topics.topic_by_id(key.topic_id)
        if topic is not None:
            tasks = (one.groups.tasks.get(key.group_id) for one in self.brokers.values())
            group = next((task.group for task in tasks if task is not None), None)
            account = given_up(group, topic.name, key.partition, records, self.clock.now_ms())
            self.journal.take(key.group_id, account)

    async def _listen_elsewhere(self) -> dict[int, tuple[SocketServer, tuple[Listener, ...]]]:
        """Start a second server on free ports for each listening broker, not yet advertised."""
        servers = {node_id: self._socket_server(self.brokers[node_id]) for node_id in self._servers}
        fresh = {}
        try:
            for node_id, server in servers.items():
                free = [one._replace(port=0) for one in self.addresses(node_id)]
                fresh[node_id] = server, server.start(free)
        except StartError:
            for server in servers.values():
                server.accept_no_more()
                await server.disconnect()
            raise
        return fresh

    def _reset_clocks(self) -> None:
        """Reset virtual clocks to the machine's time; no state with other times is left."""
        if self.clock is self.machine_clock:
            return
        from coordinator_server.clock.virtual_clock import VirtualClock

        before_ms = self.clock.now_ms()
        for clock in (self.clock, self.client_clock):
            assert isinstance(clock, VirtualClock)
            clock.reset()
        self.topics.clock_set_back(before_ms - self.clock.now_ms())

    def _on_moving(self, partition: Partition) -> None:
        """Have groups write pending requests while their broker is still the leader."""
        groups = self._groups_of(partition.leader_id)
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
        self.fetch_purgatory.check_and_complete(partition)

    def _groups_of(self, node_id: int) -> GroupCoordinator | None:
        """Return the group coordinator of a broker; None if the broker is stopped."""
        broker = self.brokers.get(node_id)
        return None if broker is None else broker.groups

    def transactions_of(self, node_id: int) -> TransactionCoordinator | None:
        """Return the transaction coordinator of a broker; None if the broker is stopped."""
        broker = self.brokers.get(node_id)
        return None if broker is None else broker.transactions

    @property
    def share_persister(self) -> LocalSharePersister:
        """The client of the share coordinators, created with the first share group."""
        if self._share_persister is None:
            from coordinator_server.coordinator.share_persister import LocalSharePersister

            self._share_persister = LocalSharePersister(
                self.share_state_topic, self._share_states_of, self.machine_clock
            )
            if self._is_stopping:
                self._share_persister.close()
        return self._share_persister

    def _share_states_of(self, node_id: int) -> ShareCoordinator | None:
        """Return the share coordinator of a broker; None if the broker is stopped."""
        broker = self.brokers.get(node_id)
        return None if broker is None else broker.share_states

    # --- for the control of the clock -------------------------------------------------------------

    @property
    def is_behind(self) -> bool:
        """Whether received requests wait only for the event loop."""
        return any(server.connections.is_behind for server in self._servers.values())

    def hold_requests(self) -> None:
        """Hold incoming requests until `release_requests`."""
        for server in self._servers.values():
            server.connections.hold()

    def release_requests(self) -> None:
        """Handle the held requests, and future requests as they arrive."""
        for server in self._servers.values():
            server.connections.release()

    def busy_with(self, *, with_groups: bool) -> str:
        """Return the name of work in progress, such as "fetches"; "" if the cluster is idle."""
        if self.topics.is_in_maintenance:
            return "maintenance of the logs"
        if self._flusher.is_busy:
            return "syncing the logs"
        if self.step_runner or self._flusher.is_checking:
            return "a long request"
        if self.fetch_purgatory.is_busy:
            return "fetches"
        busy_with = (
            broker.groups.busy_with(with_groups=with_groups) for broker in self.brokers.values()
        )
        return next(filter(None, busy_with), "")

    # --- details ----------------------------------------------------------------------------------

    def _listen(self, broker: Broker) -> None:
        node_id = broker.node_id
        server = self._servers[node_id] = self._socket_server(broker)
        try:
            server.start(self._address_book.listeners_of_start(node_id))
        except StartError:
            self._servers.pop(node_id).accept_no_more()
            raise
        run_all(self._address_book.follow(self._servers))

    def _socket_server(self, broker: Broker) -> SocketServer:
        metering = Metering(self.security, self.machine_clock)
        dispatch = Dispatcher(broker, self.step_runner, self._find_handler, metering).dispatch
        gate = ConnectionGate(broker.config, self.security, self.machine_clock)
        server = SocketServer(broker.config, self.machine_clock, dispatch, self.security, gate)
        server.connections.on_lost.append(broker.disconnected)
        return server

    def _find_handler(self, spec: ApiSpec) -> Handler[Broker]:
        return self._handler_of(spec, self.security.authorizer)

    def _data_directory(self) -> str:
        if not self.config.ephemeral:
            return self.config.data_directory
        self._own_directory = ephemeral.OwnDirectory()
        return self._own_directory.path

    def _maintain(self) -> None:
        """Do one step of log maintenance and set the timer for the next step.

        A failing step ends its round; the next round still runs.
        """
        delay_ms = FAILED_MAINTENANCE_DELAY_MS
        try:
            delay_ms = self.topics.maintenance_step()
        except OSError as error:  # such as no file descriptor left for a late import
            LOG.emit("log.failed", reason=f"maintenance is interrupted: {error}")
        finally:
            # Pauses within a round use the machine's clock, the time between rounds the broker's.
            is_working = self.topics.is_in_maintenance
            call = self.machine_clock.call_later if is_working else self.clock.call_maintenance
            self._maintenance_timer = call(delay_ms / 1000, self._maintain)
