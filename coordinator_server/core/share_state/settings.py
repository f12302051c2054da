"""The broker settings of the share coordinator."""

from __future__ import annotations

from typing import NamedTuple


class ShareStateSettings(NamedTuple):
    """Settings with Kafka's defaults; times in milliseconds."""

    updates_per_snapshot: int = 500
    """`share.coordinator.snapshot.update.records.per.snapshot`."""
    cold_snapshot_interval_ms: int = 300_000
    """`share.coordinator.cold.partition.snapshot.interval.ms`: the maximum age of a snapshot, and
    the interval of the check."""
    prune_interval_ms: int = 300_000
    """`share.coordinator.state.topic.prune.interval.ms`: the interval at which obsolete records are
    deleted."""
