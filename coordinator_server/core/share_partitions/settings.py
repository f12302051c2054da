"""The broker settings and group configs that share partitions use.

The settings are plain values. Source: Kafka's ShareGroupConfig, and GroupConfig through
ShareGroupConfigProvider.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

READ_COMMITTED = "read_committed"
LATEST, EARLIEST, BY_DURATION = "latest", "earliest", "by_duration:"
DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"
LEAST_THROTTLE_LIMIT = 2
"""SharePartition.MINIMUM_THROTTLE_RECORDS_DELIVERY_LIMIT."""


class ShareSettings(NamedTuple):
    """The settings of one share group; group configs override broker settings.

    `max_share_sessions` applies to the whole broker. `auto_offset_reset` is `latest`, `earliest` or
    `by_duration:` with an ISO 8601 duration.
    """

    record_lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    partition_max_record_locks: int = 2_000
    auto_offset_reset: str = LATEST
    isolation_level: str = "read_uncommitted"
    renew_acknowledge_enable: bool = True
    max_share_sessions: int = 2_000
    dead_letter_topic: str = ""
    """The topic of the dead letter queue; empty if there is none."""

    @property
    def reads_committed(self) -> bool:
        """Whether records of aborted transactions are left out."""
        return self.isolation_level == READ_COMMITTED

    @property
    def throttle_limit(self) -> int:
        """The delivery count from which records are acquired in smaller batches.

        This is half of `delivery_count_limit`, but at least LEAST_THROTTLE_LIMIT.
        """
        return max(LEAST_THROTTLE_LIMIT, (self.delivery_count_limit + 1) // 2)

    def of_group(self, configs: Mapping[str, str]) -> ShareSettings:
        """Return the settings with a group's (valid) configs applied."""
        if not configs:
            return self
        return ShareSettings(
            int(configs.get("share.record.lock.duration.ms", self.record_lock_duration_ms)),
            int(configs.get("share.delivery.count.limit", self.delivery_count_limit)),
            int(configs.get("share.partition.max.record.locks", self.partition_max_record_locks)),
            configs.get("share.auto.offset.reset", self.auto_offset_reset).lower(),
            configs.get("share.isolation.level", self.isolation_level).lower(),
            configs.get("share.renew.acknowledge.enable", "true").strip().lower() == "true",
            self.max_share_sessions,
            configs.get(DEAD_LETTER_TOPIC, ""),
        )
