"""The broker's settings that the share coordinator goes by."""

from __future__ import annotations

from typing import NamedTuple


class ShareStateSettings(NamedTuple):
    """Settings with Kafka's defaults; times in milliseconds."""

    updates_per_snapshot: int = 500
    """`share.coordinator.snapshot.update.records.per.snapshot`."""
    cold_snapshot_interval_ms: int = 300_000
    """`share.coordinator.cold.partition.snapshot.interval.ms`: how old a snapshot may become, and
    how often that is looked at."""
    prune_interval_ms: int = 300_000
    """`share.coordinator.state.topic.prune.interval.ms`: how often records that are out of date are
    deleted."""
