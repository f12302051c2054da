"""Offsets that nobody needs any more: expiry, and topics that are deleted.

Source: ClassicGroup.offsetExpirationCondition, OffsetMetadataManager.cleanupExpiredOffsets and
KIP-211.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from coordinator_server.group.classic.explain import Trigger
from coordinator_server.group.classic.state import DEAD, EMPTY, STABLE
from coordinator_server.group.delete_groups import end_group
from coordinator_server.group.records import (
    NO_EXPIRE_TIMESTAMP,
    Record,
    group_tombstone,
    offset_tombstone,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.group.classic.metadata import GroupMetadata
    from coordinator_server.group.effects import Effects
    from protocol.offsets_log import OffsetCommitValue


def expire_offsets(group: GroupMetadata, now_ms: int, effects: Effects) -> None:
    """Drop the offsets whose time is over; an Empty group without offsets ends with them.

    Called every `offsets.retention.check.interval.ms`.
    """

    def step(now_ms: int, effects: Effects) -> None:
        if group.state is not DEAD and _may_expire(group):
            _expire(group, now_ms, effects)

    effects.when_settled(step)


def _may_expire(group: GroupMetadata) -> bool:
    """Whether offsets of such a group expire at all: see the table in docs/coordinator.md."""
    if group.protocol_type is None or group.state is EMPTY:
        return True
    return (
        group.uses_consumer_protocol
        and group.state is STABLE
        and group.subscribed_topics is not None
    )


def _expire(group: GroupMetadata, now_ms: int, effects: Effects) -> None:
    records: list[Record] = []
    kept = 0
    for topic, partitions in group.image.offsets.items():
        if group.is_subscribed(topic):
            kept += len(partitions)
            continue
        for partition, stored in partitions.items():
            if _is_over(group, stored, now_ms):
                records.append(offset_tombstone(group.group_id, topic, partition))
            else:
                kept += 1
    expired = len(records)
    ends = not kept and group.state is EMPTY
    if ends:
        records.append(group_tombstone(group.group_id))
    if not records:
        return

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if error is not ErrorCode.NONE:
            return  # the next check tries again
        effects.event("offsets.expired", group=group.group_id, partitions=expired)
        if ends:
            end_group(group, Trigger.GROUP_EXPIRED, now_ms, effects)
            effects.event("group.expired", group=group.group_id)

    effects.write(records, done)


def _is_over(group: GroupMetadata, stored: OffsetCommitValue, now_ms: int) -> bool:
    """Whether the time of one offset is over."""
    if stored.expire_timestamp != NO_EXPIRE_TIMESTAMP:
        return now_ms >= stored.expire_timestamp  # asked for by a commit of v2..4
    since_ms = stored.commit_timestamp
    if group.protocol_type is not None and group.state is EMPTY:
        since_ms = stored.commit_timestamp
        if group.state_timestamp_ms is not None:
            since_ms = group.state_timestamp_ms
    return now_ms - since_ms >= group.settings.offsets_retention_ms


def topics_deleted(
    group: GroupMetadata, topics: Collection[str], now_ms: int, effects: Effects
) -> None:
    """Drop the offsets of topics that are gone; the group stays."""

    def step(now_ms: int, effects: Effects) -> None:
        records = [
            offset_tombstone(group.group_id, topic, partition)
            for topic in topics
            for partition in group.image.offsets.get(topic, {})
        ]
        if records and group.state is not DEAD:
            effects.event("offsets.deleted", group=group.group_id, partitions=len(records))
            effects.write(records)

    effects.when_settled(step)
