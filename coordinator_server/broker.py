"""One broker of the process: its coordinators, its fetch sessions and its settings.

Handlers get a `Broker` and find everything they need on it. A broker owns no socket (see
`net.socket_server`), so tests can use one without a network. State that all brokers share belongs
to the `Cluster`.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from coordinator_server.config.group_settings import CONSUMER_ASSIGNOR_CLASSES
from coordinator_server.coordinator.group_coordinator import GroupCoordinator
from coordinator_server.coordinator.transaction_coordinator import TransactionCoordinator
from coordinator_server.core.groups.kinds import in_place_of
from coordinator_server.core.groups.settings import GroupEnvironment, GroupKind, GroupSettings
from coordinator_server.core.transactions.settings import TransactionSettings
from coordinator_server.fetch.session import FetchSessionCache
from coordinator_server.topics.creation_errors import CreationErrors
from coordinator_server.topics.manager import new_topic_id
from coordinator_server.topics.names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from coordinator_server.cluster import Cluster
    from coordinator_server.config.config import Config
    from coordinator_server.coordinator.share_coordinator import ShareCoordinator
    from coordinator_server.coordinator.share_partition_manager import SharePartitionManager
    from coordinator_server.core.share_partitions.settings import ShareSettings
    from coordinator_server.core.share_state.settings import ShareStateSettings
    from coordinator_server.net.connection import Connection
    from coordinator_server.net.endpoint import BrokerEndpoint
    from coordinator_server.runtime.coordinator import CoordinatorRuntime
    from coordinator_server.telemetry.instances import ClientInstances


_STOPPING: set[asyncio.Task[None]] = set()
"""References to the tasks that stop brokers; the event loop holds only weak ones."""


class Broker:
    """One broker. Call `start` before use and `shutting_down` at the end; it cannot be restarted.

    `config` holds the settings of this broker, with its own id and ports.
    """

    def __init__(self, cluster: Cluster, config: Config) -> None:
        self.config = config
        self.node_id = config.node_id
        self.clock = cluster.clock
        self.client_clock = cluster.client_clock
        self.machine_clock = cluster.machine_clock
        self.cluster_id = cluster.cluster_id
        self.topics = cluster.topics
        self.group_configs = cluster.group_configs
        self.telemetry = cluster.telemetry
        self.dynamic_configs = cluster.dynamic_configs
        self.security = cluster.security
        self.producer_ids = cluster.producer_ids
        self.fetch_purgatory = cluster.fetch_purgatory
        self.fetch_sessions = FetchSessionCache(
            config.integer("max.incremental.fetch.session.cache.slots"), _session_id
        )
        self.creation_errors = CreationErrors()
        self.step_runner = cluster.step_runner
        self.markers = cluster.markers
        self.groups = GroupCoordinator(
            GroupEnvironment(
                group_settings(config),
                _new_member_id,
                _new_uuid,
                in_place_of,
                cluster.topics,
                cluster.group_configs.of,
                cluster.offsets_topic.max_message_bytes,
            ),
            cluster.clock,
            cluster.step_runner,
            cluster.topics,
            cluster.offsets_topic,
            node_id=self.node_id,
            explain=cluster.journal.take,
            persister=lambda: cluster.share_persister,
            keeps_snapshots=not config.ephemeral,
        )
        self.transactions = TransactionCoordinator(
            transaction_settings(config),
            cluster.clock,
            cluster.step_runner,
            cluster.topics,
            cluster.transactions_topic,
            cluster.producer_ids,
            cluster.markers,
            node_id=self.node_id,
            peer=cluster.transactions_of,
        )
        self._client_instances: ClientInstances | None = None
        self._share_partitions: SharePartitionManager | None = None
        self._share_states: ShareCoordinator | None = None
        self._is_shutting_down = False
        self._cluster = cluster

    def start(self) -> None:
        """Start loading the state of the coordinators. Needs a running event loop."""
        self.groups.start()
        self.transactions.start()
        if self._cluster.share_state_topic.partitions:
            self._share_states = self._new_share_states()

    def settings_changed(self) -> None:
        """Apply settings that have changed at run time."""
        self.groups.settings_changed(group_settings(self.config))
        self.transactions.settings = transaction_settings(self.config)

    def shutting_down(self) -> None:
        """Answer pending requests of the coordinators, so that the connections can be closed."""
        self._is_shutting_down = True
        if self._share_partitions is not None:
            self._share_partitions.stop()
        if self._share_states is not None:
            self._share_states.stop()
        self.transactions.stop()
        self.groups.stop()

    def forget(self) -> None:
        """Drop all coordinator state and fetch sessions; the topics are about to be deleted."""
        if self._share_partitions is not None:
            self._share_partitions.forget()
        if self._share_states is not None:
            self._share_states.emigrate_all()
        self.transactions.emigrate_all()
        self.groups.emigrate_all()
        self.fetch_sessions.clear()
        self._client_instances = None

    def disconnected(self, connection: Connection) -> None:
        """Release the state of a connection that has ended."""
        if self._share_partitions is not None:
            self._share_partitions.disconnected(connection)
        if self._client_instances is not None:
            self._client_instances.disconnected(connection)

    @property
    def client_instances(self) -> ClientInstances:
        """The client instances that get their metrics subscriptions from this broker (KIP-714)."""
        if self._client_instances is None:
            from coordinator_server.telemetry.instances import ClientInstances

            self._client_instances = ClientInstances(
                self.telemetry.configs, self.config.integer("telemetry.max.bytes"), new_topic_id
            )
        return self._client_instances

    # Created with the first share group, or at the start if the share-state topic exists, so that a
    # broker without share groups does not import these modules.

    @property
    def share_partitions(self) -> SharePartitionManager:
        """The share partitions that this broker leads."""
        if self._share_partitions is None:
            self._share_partitions = self._new_share_partitions()
        return self._share_partitions

    @property
    def share_states(self) -> ShareCoordinator:
        """The share coordinator of this broker, which stores the state of share partitions."""
        if self._share_states is None:
            self._share_states = self._new_share_states()
        return self._share_states

    def coordinator_of(self, topic_name: str) -> CoordinatorRuntime[Any, Any] | None:
        """Return the coordinator whose state is in this topic; None for other topics."""
        if topic_name == OFFSETS_TOPIC:
            return self.groups
        if topic_name == TRANSACTIONS_TOPIC:
            return self.transactions
        return self.share_states if topic_name == SHARE_STATE_TOPIC else None

    def _new_share_partitions(self) -> SharePartitionManager:
        from coordinator_server.coordinator.dead_letters import DeadLetterQueues
        from coordinator_server.coordinator.share_partition_manager import SharePartitionManager

        cluster = self._cluster
        made = SharePartitionManager(
            share_settings(self.config),
            cluster.clock,
            cluster.step_runner,
            cluster.topics,
            cluster.fetch_purgatory,
            cluster.share_persister,
            cluster.group_configs.of,
            node_id=self.node_id,
            gave_up=cluster.explain_given_up,
            queues=DeadLetterQueues(
                self.config,
                cluster.clock,
                cluster.step_runner,
                cluster.topics,
                cluster.group_configs.of,
            ),
        )
        made.start()
        if self._is_shutting_down:
            made.stop()
        return made

    def _new_share_states(self) -> ShareCoordinator:
        from coordinator_server.coordinator.share_coordinator import ShareCoordinator

        cluster = self._cluster
        made = ShareCoordinator(
            share_state_settings(self.config),
            cluster.clock,
            cluster.step_runner,
            cluster.topics,
            cluster.share_state_topic,
            node_id=self.node_id,
        )
        made.start()
        if self._is_shutting_down:
            made.stop()
        return made

    # --- addresses for clients --------------------------------------------------------------------

    @property
    def controller_id(self) -> int:
        """The broker that clients are told to be the controller."""
        return self._cluster.controller_id

    def endpoints(
        self, connection: Connection, *, with_stopped: bool = False
    ) -> list[BrokerEndpoint]:
        """Return the brokers' addresses for the client of a connection.

        Stopped brokers are included only if `with_stopped`. Brokers that lack the client's listener
        are left out.
        """
        cluster = self._cluster
        registered = self.topics.broker_ids
        nodes = (
            filter(registered.__contains__, cluster.node_ids) if with_stopped else cluster.brokers
        )
        found = (cluster.endpoint(node_id, self.node_id, connection) for node_id in nodes)
        return [one for one in found if one is not None]

    def endpoint(self, node_id: int, connection: Connection) -> BrokerEndpoint | None:
        """Return a broker's address for the client of a connection.

        None if the broker is stopped or lacks the client's listener.
        """
        if node_id not in self._cluster.brokers:
            return None
        return self._cluster.endpoint(node_id, self.node_id, connection)

    def unregister(self, node_id: int) -> None:
        """Unregister a broker until it is started again, and stop it if it runs."""
        self.topics.leadership.unregister(node_id)
        if node_id in self._cluster.brokers:
            task = asyncio.get_running_loop().create_task(self._cluster.stop_broker(node_id))
            _STOPPING.add(task)
            task.add_done_callback(_STOPPING.discard)

    def advertised_listeners(self, connection: Connection) -> str:
        """Return this broker's `advertised.listeners` as the client of a connection sees it."""
        return self._cluster.advertised_listeners(self.node_id, connection)


def group_settings(config: Config) -> GroupSettings:
    """Return the broker settings that the group coordinator uses."""
    return GroupSettings(
        min_session_timeout_ms=config.integer("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.integer("group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=config.integer("group.initial.rebalance.delay.ms"),
        max_size=config.integer("group.max.size"),
        offset_metadata_max_length=config.integer("offset.metadata.max.bytes"),
        offsets_retention_ms=config.integer("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=config.integer("offsets.retention.check.interval.ms"),
        consumer_session_timeout_ms=config.integer("group.consumer.session.timeout.ms"),
        consumer_heartbeat_interval_ms=config.integer("group.consumer.heartbeat.interval.ms"),
        consumer_assignment_interval_ms=config.integer("group.consumer.assignment.interval.ms"),
        consumer_max_size=config.integer("group.consumer.max.size"),
        consumer_assignors=tuple(
            CONSUMER_ASSIGNOR_CLASSES.get(item, item)
            for item in config.items("group.consumer.assignors")
        ),
        consumer_migration_policy=config.text("group.consumer.migration.policy"),
        consumer_regex_refresh_interval_ms=config.integer(
            "group.consumer.regex.refresh.interval.ms"
        ),
        share_session_timeout_ms=config.integer("group.share.session.timeout.ms"),
        share_heartbeat_interval_ms=config.integer("group.share.heartbeat.interval.ms"),
        share_assignment_interval_ms=config.integer("group.share.assignment.interval.ms"),
        share_max_size=config.integer("group.share.max.size"),
        share_initialize_retry_interval_ms=max(
            config.integer("group.share.initialize.retry.interval.ms"),
            config.integer("offsets.commit.timeout.ms"),
        ),
        streams_session_timeout_ms=config.integer("group.streams.session.timeout.ms"),
        streams_heartbeat_interval_ms=config.integer("group.streams.heartbeat.interval.ms"),
        streams_assignment_interval_ms=config.integer("group.streams.assignment.interval.ms"),
        streams_initial_rebalance_delay_ms=config.integer(
            "group.streams.initial.rebalance.delay.ms"
        ),
        streams_num_standby_replicas=config.integer("group.streams.num.standby.replicas"),
        streams_acceptable_recovery_lag=config.integer("group.streams.acceptable.recovery.lag"),
        streams_task_offset_interval_ms=config.integer("group.streams.task.offset.interval.ms"),
        streams_max_size=config.integer("group.streams.max.size"),
        protocols=frozenset(
            GroupKind(item) for item in config.items("group.coordinator.rebalance.protocols")
        ),
    )


def share_settings(config: Config) -> ShareSettings:
    """Return the broker settings that share partitions use."""
    from coordinator_server.core.share_partitions.settings import ShareSettings

    return ShareSettings(
        record_lock_duration_ms=config.integer("group.share.record.lock.duration.ms"),
        delivery_count_limit=config.integer("group.share.delivery.count.limit"),
        partition_max_record_locks=config.integer("group.share.partition.max.record.locks"),
        max_share_sessions=config.integer("group.share.max.share.sessions"),
    )


def transaction_settings(config: Config) -> TransactionSettings:
    """Return the broker settings that the transaction coordinator uses."""
    return TransactionSettings(
        max_timeout_ms=config.integer("transaction.max.timeout.ms"),
        abort_interval_ms=config.integer(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms"
        ),
        id_expiration_ms=config.integer("transactional.id.expiration.ms"),
        expiration_interval_ms=config.integer(
            "transaction.remove.expired.transaction.cleanup.interval.ms"
        ),
        verifies_partitions=config.boolean("transaction.partition.verification.enable"),
    )


def share_state_settings(config: Config) -> ShareStateSettings:
    """Return the broker settings that the share coordinator uses."""
    from coordinator_server.core.share_state.settings import ShareStateSettings

    return ShareStateSettings(
        updates_per_snapshot=config.integer(
            "share.coordinator.snapshot.update.records.per.snapshot"
        ),
        cold_snapshot_interval_ms=config.integer(
            "share.coordinator.cold.partition.snapshot.interval.ms"
        ),
        prune_interval_ms=config.integer("share.coordinator.state.topic.prune.interval.ms"),
    )


def _new_member_id(prefix: str) -> str:
    """Return the prefix (client id or instance id) and a random UUID (Kafka's generateMemberId)."""
    return f"{prefix}-{uuid4()}"


def _new_uuid() -> str:
    """Return a random UUID as Kafka's Uuid writes it, the id of a member that sends none."""
    from protocol.json_form import uuid_to_text

    return uuid_to_text(new_topic_id())


def _session_id() -> int:
    return secrets.randbelow(2**31 - 1) + 1
