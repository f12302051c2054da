"""The settings of the coordinators and of share partitions, read from a broker's configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.config.group_settings import CONSUMER_ASSIGNOR_CLASSES
from coordinator_server.core.groups.settings import GroupKind, GroupSettings
from coordinator_server.core.transactions.settings import TransactionSettings

if TYPE_CHECKING:
    from coordinator_server.config.config import Config
    from coordinator_server.core.share_partitions.settings import ShareSettings
    from coordinator_server.core.share_state.settings import ShareStateSettings


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
