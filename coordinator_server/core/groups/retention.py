"""Deletion of offsets that have expired or whose topic was deleted.

Source: OffsetMetadataManager.cleanupExpiredOffsets, GroupMetadataManager.maybeDeleteGroup, KIP-211.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from coordinator_server.core.groups.effects import STEP_ITEMS
from coordinator_server.core.groups.explain import Trigger
from coordinator_server.core.groups.modern import account
from coordinator_server.core.groups.offsets import NO_EXPIRE_TIMESTAMP
from coordinator_server.core.groups.records import (
    CoordinatorRecord,
    offset_tombstone,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.groups.effects import Effects
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.offsets import CommittedOffset
    from coordinator_server.steps import Steps

WRITE_RECORDS = 1000
"""Tombstones per write: if the shared batch is too large, each write becomes its own batch."""


def expire_offsets(group: Group, now_ms: int, effects: Effects) -> Steps:
    """Delete expired offsets; delete an empty group that has no offset left.

    Called every `offsets.retention.check.interval.ms`.
    """
    if not group.offsets_may_expire:
        return
    records: list[CoordinatorRecord] = []
    kept = seen = 0
    for topic, partitions in group.offsets.by_topic.items():
        if group.is_subscribed(topic):
            kept += len(partitions)
            continue
        for partition, stored in partitions.items():
            if group.offsets.pending.has(topic, partition):
                kept += 1
            elif _is_expired(group, stored, now_ms):
                records.append(offset_tombstone(group.group_id, topic, partition))
            else:
                kept += 1
            seen += 1
            if not seen % STEP_ITEMS:
                yield
    expired = len(records)
    ends = not kept and group.is_empty and not group.offsets.pending
    if ends:
        records += group.tombstones()
    if not records:
        return

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if error is not ErrorCode.NONE:
            return  # the next check tries to expire the offsets again
        effects.event("offsets.expired", group=group.group_id, partitions=expired)
        if ends and not group.offsets:
            assert effects.group is not None
            account.ended(group, Trigger.GROUP_EXPIRED, now_ms, effects)
            effects.group.end(Trigger.GROUP_EXPIRED, now_ms, effects)
            effects.event("group.expired", group=group.group_id)

    for start in range(0, len(records), WRITE_RECORDS):
        write = effects.write(records[start : start + WRITE_RECORDS])
    write.then(done)


def _is_expired(group: Group, stored: CommittedOffset, now_ms: int) -> bool:
    if stored.expire_timestamp != NO_EXPIRE_TIMESTAMP:
        return now_ms >= stored.expire_timestamp  # set by OffsetCommit v2 to v4
    return now_ms - group.expiry_starts_ms(stored) >= group.settings.offsets_retention_ms


def topics_deleted(
    group: Group,
    now_ms: int,
    effects: Effects,
    *,
    topics: Collection[str],
    topic_ids: Collection[bytes],
) -> Steps:
    """Delete a group's offsets and other state of deleted topics; the group stays.

    `topics` are the deleted topics for which the group has offsets.
    """
    records: list[CoordinatorRecord] = []
    for topic in topics:
        for partition in group.offsets.partitions_of(topic):
            records.append(offset_tombstone(group.group_id, topic, partition))
            if not len(records) % STEP_ITEMS:
                yield
    if records:
        effects.event("offsets.deleted", group=group.group_id, partitions=len(records))
    records += group.forgetting_topics(topic_ids)
    for start in range(0, len(records), WRITE_RECORDS):
        effects.write(records[start : start + WRITE_RECORDS])
