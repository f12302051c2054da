"""One broker of the process: its groups, its fetch sessions, and what it shares with the others.

Handlers get a `Broker` and find everything they need on it. It owns no socket (see `server`), so a
test can have one without a network; what the brokers share belongs to the `Cluster`.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING
from uuid import uuid4

from coordinator_server.coordinator.groups import GroupCoordinator
from coordinator_server.coordinator.transactions import TransactionCoordinator
from coordinator_server.group.settings import GroupSettings
from coordinator_server.topics.fetch_session import FetchSessionCache
from coordinator_server.transactions.settings import TransactionSettings

if TYPE_CHECKING:
    from coordinator_server.cluster import Cluster
    from coordinator_server.config.config import Config
    from coordinator_server.net.connection import Connection
    from coordinator_server.net.endpoint import Endpoint


class Broker:
    """One broker. `start` before use, `shutting_down` at the end, never to be started again.

    `config` are the settings as this broker has them: its id, its ports.
    """

    def __init__(self, cluster: Cluster, config: Config) -> None:
        self.config = config
        self.node_id = config.node_id
        self.clock = cluster.clock
        self.client_clock = cluster.client_clock
        self.machine_clock = cluster.machine_clock
        self.cluster_id = cluster.cluster_id
        self.topics = cluster.topics
        self.producer_ids = cluster.producer_ids
        self.fetch_purgatory = cluster.fetch_purgatory
        self.fetch_sessions = FetchSessionCache(
            config.integer("max.incremental.fetch.session.cache.slots"), _session_id
        )
        self.step_runner = cluster.step_runner
        self.markers = cluster.markers
        self.groups = GroupCoordinator(
            group_settings(config),
            cluster.clock,
            cluster.step_runner,
            cluster.topics,
            cluster.offsets_topic,
            node_id=self.node_id,
            new_member_id=_new_member_id,
            explain=cluster.journal.take,
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
        self._cluster = cluster

    def start(self) -> None:
        """Begin to load groups and transactional ids; needs a running loop."""
        self.groups.start()
        self.transactions.start()

    def shutting_down(self) -> None:
        """Answer what waits in the coordinators, so that the connections can be closed."""
        self.transactions.stop()
        self.groups.stop()

    def forget(self) -> None:
        """Let groups, transactions and fetch sessions go; the topics are about to be deleted."""
        self.transactions.emigrate_all()
        self.groups.emigrate_all()
        self.fetch_sessions.clear()

    @property
    def controller_id(self) -> int:
        """The broker that clients are told to be the controller."""
        return self._cluster.controller_id

    def endpoints(self, connection: Connection, *, with_stopped: bool = False) -> list[Endpoint]:
        """Where the client of a connection finds the brokers, those that run or all of them."""
        cluster = self._cluster
        nodes = cluster.node_ids if with_stopped else cluster.brokers
        return [cluster.endpoint(node_id, self.node_id, connection) for node_id in nodes]

    def endpoint(self, node_id: int, connection: Connection) -> Endpoint | None:
        """Where the client of a connection finds one broker; None if that does not run."""
        if node_id not in self._cluster.brokers:
            return None
        return self._cluster.endpoint(node_id, self.node_id, connection)


def group_settings(config: Config) -> GroupSettings:
    """What the group coordinator reads of the broker's settings."""
    return GroupSettings(
        min_session_timeout_ms=config.integer("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.integer("group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=config.integer("group.initial.rebalance.delay.ms"),
        max_size=config.integer("group.max.size"),
        offset_metadata_max_length=config.integer("offset.metadata.max.bytes"),
        offsets_retention_ms=config.integer("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=config.integer("offsets.retention.check.interval.ms"),
    )


def transaction_settings(config: Config) -> TransactionSettings:
    """What the transaction coordinator reads of the broker's settings."""
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


def _new_member_id(prefix: str) -> str:
    """Client id or instance id, and a random uuid (Kafka's generateMemberId)."""
    return f"{prefix}-{uuid4()}"


def _session_id() -> int:
    return secrets.randbelow(2**31 - 1) + 1
