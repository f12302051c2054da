"""The composition root: builds the parts of a cluster and its brokers, and connects the parts.

No other module builds a broker. `cluster` and `broker` have the code that runs afterwards.
"""

from __future__ import annotations

import asyncio
import secrets
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from coordinator_server.apis.handlers import handler_of
from coordinator_server.broker import Broker, BrokerParts
from coordinator_server.clock.step_runner import StepRunner
from coordinator_server.cluster import Cluster, Handover
from coordinator_server.config.coordinator_configs import (
    group_settings,
    share_settings,
    share_state_settings,
    transaction_settings,
)
from coordinator_server.config.dynamic_configs import DynamicConfigs
from coordinator_server.config.group_configs import GroupConfigs
from coordinator_server.config.hosts import in_container
from coordinator_server.coordinator.group_coordinator import GroupCoordinator
from coordinator_server.coordinator.markers import Markers
from coordinator_server.coordinator.transaction_coordinator import TransactionCoordinator
from coordinator_server.core.groups.kinds import in_place_of
from coordinator_server.core.groups.settings import GroupEnvironment
from coordinator_server.events.log import LOG
from coordinator_server.faults.faults import Faults
from coordinator_server.fetch.purgatory import KeyedPurgatory
from coordinator_server.fetch.session import FetchSessionCache
from coordinator_server.maintenance import descriptors, ephemeral
from coordinator_server.maintenance.flusher import Flusher
from coordinator_server.net.addresses import AddressBook
from coordinator_server.net.connection_gate import ConnectionGate
from coordinator_server.net.dispatch import Dispatcher
from coordinator_server.net.metering import Metering
from coordinator_server.net.networks import RoutingTable
from coordinator_server.net.socket_server import SocketServer
from coordinator_server.on_demand import OnDemand
from coordinator_server.rebalances.journal import RebalanceJournal
from coordinator_server.running_brokers import RunningBrokers
from coordinator_server.runtime.topic import CoordinatorTopic
from coordinator_server.security.security import Security
from coordinator_server.shared_state import Clocks, SharedState
from coordinator_server.telemetry.telemetry import Telemetry
from coordinator_server.topics.manager import TopicManager, new_topic_id
from coordinator_server.topics.names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from coordinator_server.topics.producer_ids import ProducerIdManager
from coordinator_server.topics.recent_deletions import RecentDeletions
from coordinator_server.topics.topic_configs import LogDefaults, log_defaults
from storage.local_disk import LocalDisk
from storage.log_manager import LogManager
from storage.topic_catalogue import CATALOGUE_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from coordinator_server.clock.broker_clock import BrokerClock
    from coordinator_server.config.config import Config
    from coordinator_server.coordinator.share_coordinator import ShareCoordinator
    from coordinator_server.coordinator.share_partition_manager import SharePartitionManager
    from coordinator_server.coordinator.share_persister import LocalSharePersister
    from coordinator_server.core.groups.explain import Rebalance
    from coordinator_server.core.share_partitions.in_flight import GivenUpRecords
    from coordinator_server.core.share_partitions.share_partition import SharePartition
    from coordinator_server.counting.counts import Counts
    from coordinator_server.net.dispatch import Handler, RequestCounter
    from coordinator_server.telemetry.instances import ClientInstances
    from coordinator_server.tracing.tracing import Tracing
    from protocol.registry import ApiSpec
    from storage.disk import Disk


def compose(
    config: Config,
    clock: BrokerClock,
    disk: Disk | None = None,
    *,
    has_virtual_clock: bool = False,
    step_runner: StepRunner | None = None,
    counts: Counts | None = None,
    tracing: Tracing | None = None,
    faults: Sequence[Mapping[str, Any]] = (),
    flusher: Flusher | None = None,
    handover: Handover | None = None,
) -> Cluster:
    """Open the logs and return a cluster that is not started.

    `clock` is the machine's clock. With `has_virtual_clock` the time of the brokers and clients can
    be changed (see `control.advance`). `counts` counts requests and rebalances for metrics, None
    without metrics. `tracing` makes traces, None without OpenTelemetry. `faults` are the fault
    rules of the start. `handover` comes from the cluster that the new cluster replaces, if any.
    `disk`, `step_runner` and `flusher` are for tests. Needs a running event loop unless `flusher`
    is given. Raises StorageError, ConfigError, OSError.
    """
    clocks = Clocks(clock, clock, clock)
    if has_virtual_clock:
        from coordinator_server.clock.virtual_clock import VirtualClock

        clocks = Clocks(VirtualClock(clock), VirtualClock(clock), clock)
    flusher = Flusher(asyncio.get_running_loop()) if flusher is None else flusher
    # Compare with None, because a StepRunner without work is false.
    runner = StepRunner(clock) if step_runner is None else step_runner
    shared = _shared_state(config, clocks, disk, runner, flusher, counts, tracing, faults, handover)
    return Cluster(shared, partial(_broker, shared), partial(_socket_server, shared))


def _shared_state(
    config: Config,
    clocks: Clocks,
    disk: Disk | None,
    step_runner: StepRunner,
    flusher: Flusher,
    counts: Counts | None,
    tracing: Tracing | None,
    faults: Sequence[Mapping[str, Any]],
    handover: Handover | None,
) -> SharedState:
    """Open the logs, and build the state that the brokers share."""
    clock, machine_clock = clocks.broker, clocks.machine
    of_brokers = map(config.of_broker, range(config.integer("broker.count")))
    configs = {of_broker.node_id: of_broker for of_broker in of_brokers}
    address_book = AddressBook(configs, RoutingTable.read(), in_container=in_container())
    own_directory = _own_directory(config, handover)
    path = config.data_directory if own_directory is None else own_directory.path
    logs = _open_logs(config, disk, path, clock.now_ms())
    dynamic_configs = DynamicConfigs(logs.catalogue, configs)
    address_book.follow_all()
    if handover is not None:
        address_book.inherit(handover.listeners)
    defaults = LogDefaults(logs, configs)
    logs.use(flusher)
    fetch_purgatory = KeyedPurgatory(clocks.client, clocks.client.now_ms)
    topics = TopicManager(
        logs, config, clock, node_ids=tuple(configs), changed=fetch_purgatory.notify
    )
    defaults.lead_by(topics)
    dynamic_configs.on_changed.append(defaults.follow)
    running = RunningBrokers()
    share_state_topic = CoordinatorTopic(topics, SHARE_STATE_TOPIC)
    return SharedState(
        cluster_id=logs.cluster_id,
        configs=configs,
        clocks=clocks,
        step_runner=step_runner,
        running=running,
        address_book=address_book,
        own_directory=own_directory,
        flusher=flusher,
        topics=topics,
        recent_deletions=RecentDeletions(machine_clock),
        fetch_purgatory=fetch_purgatory,
        producer_ids=ProducerIdManager(logs.next_producer_ids),
        dynamic_configs=dynamic_configs,
        group_configs=GroupConfigs(logs.catalogue, config),
        telemetry=Telemetry(logs.catalogue, keeps_pushes=clock is not machine_clock),
        security=Security(config, logs.security_state, clock, machine_clock),
        offsets_topic=CoordinatorTopic(topics, OFFSETS_TOPIC),
        transactions_topic=CoordinatorTopic(topics, TRANSACTIONS_TOPIC),
        share_state_topic=share_state_topic,
        markers=Markers(topics, running.groups_of, clock),
        journal=RebalanceJournal(config, clock, topics, machine_clock, step_runner),
        share_persister=OnDemand(
            partial(_share_persister, share_state_topic, running, machine_clock),
            lambda persister: persister.close(),
        ),
        logs=logs,
        counts=counts,
        tracing=tracing,
        faults=Faults(clocks.client, faults),
    )


def _open_logs(config: Config, disk: Disk | None, path: str, now_ms: int) -> LogManager:
    """Open the logs below `path`. Raises StorageError, OSError."""
    logs = LogManager.open(
        disk or LocalDisk(durable=not config.ephemeral),
        path,
        log_defaults(config),
        node_id=config.node_id,
        cluster_id=config.cluster_id,
        now_ms=now_ms,
        max_open_files=descriptors.for_logs(),
    )
    if logs.catalogue.dropped_bytes:
        LOG.emit("topics.truncated", file=CATALOGUE_FILE, bytes=logs.catalogue.dropped_bytes)
    return logs


def _own_directory(config: Config, handover: Handover | None) -> ephemeral.OwnDirectory | None:
    """Return the directory of ephemeral data, which is kept if the cluster is replaced."""
    if handover is not None:
        return handover.own_directory
    return ephemeral.OwnDirectory() if config.ephemeral else None


def _socket_server(shared: SharedState, broker: Broker) -> SocketServer:
    """Return a socket server for the requests to a broker; the server does not listen yet."""
    security, machine_clock = shared.security, shared.clocks.machine
    # Without a control server requests are not counted, because nothing publishes the counts.
    counts = None if shared.counts is None else shared.counts.of(broker.node_id)

    def find_handler(spec: ApiSpec) -> Handler[Broker]:
        handle = handler_of(spec, security.authorizer)
        if counts is None:
            return handle
        from coordinator_server.counting.connections import noting_topics

        return noting_topics(spec, handle)

    metering = Metering(security, machine_clock)
    counter: RequestCounter | None = None if counts is None else counts.traffic
    if shared.tracing is not None:
        counter = shared.tracing.counter(counter, broker.node_id)
    dispatch = Dispatcher(
        broker, shared.step_runner, find_handler, metering, counter, shared.faults
    ).dispatch
    gate = ConnectionGate(broker.config, security, machine_clock)
    server = SocketServer(broker.config, machine_clock, dispatch, security, gate)
    server.connections.on_lost.append(broker.disconnected)
    if counts is not None:
        from coordinator_server.counting.connections import CountedConnection

        server.connections.connection_type = CountedConnection
        server.connections.on_lost.append(counts.connection_lost)
    return server


# --- parts of a broker ----------------------------------------------------------------------------


def _broker(
    shared: SharedState, config: Config, stop_broker: Callable[[int], Coroutine[Any, Any, None]]
) -> Broker:
    """Return a broker that is not started, with the settings of `config`."""
    parts = BrokerParts(
        groups=_group_coordinator(shared, config),
        transactions=TransactionCoordinator(
            transaction_settings(config),
            shared.clocks.broker,
            shared.step_runner,
            shared.topics,
            shared.transactions_topic,
            shared.producer_ids,
            shared.markers,
            shared.clocks.machine,
            node_id=config.node_id,
            peer=shared.running.transactions_of,
        ),
        fetch_sessions=FetchSessionCache(
            config.integer("max.incremental.fetch.session.cache.slots"), _session_id
        ),
        share_states=OnDemand(
            partial(_share_coordinator, shared, config), lambda coordinator: coordinator.stop()
        ),
        share_partitions=OnDemand(
            partial(_share_partition_manager, shared, config), lambda manager: manager.stop()
        ),
        new_client_instances=partial(_client_instances, shared, config),
    )
    return Broker(config, shared, parts, stop_broker)


def _explain(shared: SharedState, node_id: int) -> Callable[[str, Rebalance], None]:
    """Return the callback that receives each rebalance of a broker when the rebalance has ended."""
    explain: Callable[[str, Rebalance], None] = shared.journal.take
    if shared.counts is not None:
        explain = shared.counts.of(node_id).counting(explain)
    if shared.tracing is not None:
        explain = shared.tracing.explaining(explain, node_id, shared.clocks.broker)
    return explain


def _group_coordinator(shared: SharedState, config: Config) -> GroupCoordinator:
    return GroupCoordinator(
        GroupEnvironment(
            group_settings(config),
            _new_member_id,
            _new_uuid,
            in_place_of,
            shared.topics,
            shared.group_configs.of,
            shared.offsets_topic.max_message_bytes,
        ),
        shared.clocks.broker,
        shared.step_runner,
        shared.topics,
        shared.offsets_topic,
        node_id=config.node_id,
        explain=_explain(shared, config.node_id),
        persister=shared.share_persister.get,
        keeps_snapshots=not config.ephemeral,
    )


def _client_instances(shared: SharedState, config: Config) -> ClientInstances:
    from coordinator_server.telemetry.instances import ClientInstances

    return ClientInstances(
        shared.telemetry.configs, config.integer("telemetry.max.bytes"), new_topic_id
    )


# --- share groups (imported on first use) ---------------------------------------------------------


def _share_persister(
    share_state_topic: CoordinatorTopic, running: RunningBrokers, machine_clock: BrokerClock
) -> LocalSharePersister:
    from coordinator_server.coordinator.share_persister import LocalSharePersister

    return LocalSharePersister(share_state_topic, running.share_states_of, machine_clock)


def _share_coordinator(shared: SharedState, config: Config) -> ShareCoordinator:
    from coordinator_server.coordinator.share_coordinator import ShareCoordinator

    coordinator = ShareCoordinator(
        share_state_settings(config),
        shared.clocks.broker,
        shared.step_runner,
        shared.topics,
        shared.share_state_topic,
        node_id=config.node_id,
    )
    coordinator.start()
    return coordinator


def _share_partition_manager(shared: SharedState, config: Config) -> SharePartitionManager:
    from coordinator_server.coordinator.dead_letters import DeadLetterQueues
    from coordinator_server.coordinator.share_partition_manager import SharePartitionManager

    clock, configs_of = shared.clocks.broker, shared.group_configs.of
    manager = SharePartitionManager(
        share_settings(config),
        clock,
        shared.step_runner,
        shared.topics,
        shared.fetch_purgatory,
        shared.share_persister.get(),
        configs_of,
        node_id=config.node_id,
        gave_up=partial(_explain_given_up, shared, config.node_id),
        queues=DeadLetterQueues(config, clock, shared.step_runner, shared.topics, configs_of),
    )
    manager.start()
    return manager


def _explain_given_up(
    shared: SharedState, node_id: int, share_partition: SharePartition, records: GivenUpRecords
) -> None:
    """Publish an event for records that a share group has given up."""
    from coordinator_server.rebalances.given_up import given_up

    key = share_partition.key
    topic = shared.topics.topic_by_id(key.topic_id)
    if topic is not None:
        group, now_ms = shared.running.group(key.group_id), shared.clocks.broker.now_ms()
        account = given_up(group, topic.name, key.partition, records, now_ms)
        _explain(shared, node_id)(key.group_id, account)


# --- ids ------------------------------------------------------------------------------------------


def _new_member_id(prefix: str) -> str:
    """Return the prefix (client id or instance id) and a random UUID (Kafka's generateMemberId)."""
    return f"{prefix}-{uuid4()}"


def _new_uuid() -> str:
    """Return a random UUID in the format of Kafka's Uuid, for members that send no member id."""
    from protocol.json_form import uuid_to_text

    return uuid_to_text(new_topic_id())


def _session_id() -> int:
    return secrets.randbelow(2**31 - 1) + 1
