"""Removal of members from a consumer group: they leave, leave temporarily, or are fenced.

Source: GroupMetadataManager.consumerGroupLeave and consumerGroupFenceMembers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.consumer import downgrade
from coordinator_server.core.groups.consumer.consumer_group import count
from coordinator_server.core.groups.consumer.records import (
    current_record,
    epoch_record,
    member_tombstones,
    regex_tombstone,
    target_epoch_record,
)
from coordinator_server.core.groups.modern.account import cause_of
from coordinator_server.core.groups.modern.members import STATIC_LEAVING_EPOCH
from coordinator_server.core.groups.modern.metadata_hash import metadata_hash
from coordinator_server.core.groups.modern.modern_group import NEVER_ASSIGNED_MS
from coordinator_server.core.groups.modern.timers import retried
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.groups.consumer.consumer_group import ConsumerGroup
    from coordinator_server.core.groups.consumer.downgrade import Downgrade
    from coordinator_server.core.groups.consumer.member import ConsumerMember
    from coordinator_server.core.groups.effects import Effects
    from coordinator_server.core.groups.explain import Trigger
    from coordinator_server.core.groups.purgatory import DelayedOperation
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.steps import Computation, Steps


class Removal(NamedTuple):
    """The records that remove members, and the resulting downgrade, if any."""

    records: list[CoordinatorRecord]
    downgrade: Downgrade | None = None


def removal(
    group: ConsumerGroup, members: Sequence[ConsumerMember], now_ms: int
) -> Computation[Removal]:
    """Return the records that remove members: the group epoch rises, or the group is downgraded.

    If the last member is removed, the assignment epoch rises too, without a timestamp, so that the
    next member gets its assignment in its first heartbeat.
    """
    back = yield from downgrade.without(group, members, now_ms)
    if back is not None:
        return Removal(back.records, back)
    group_id = group.group_id
    records: list[CoordinatorRecord] = []
    expressions: dict[str, int] = {}
    for member in members:
        records += member_tombstones(group_id, member.member_id)
        if member.regex:
            count(expressions, member.regex, 1)
    for regex, gone in expressions.items():
        if group.regex_members.get(regex) == gone:
            records.append(regex_tombstone(group_id, regex))
    names = group.subscribed_topics(gone=members)
    hashed = yield from metadata_hash(names, group.environment.topics)
    epoch = group.epoch + 1
    records.append(epoch_record(group_id, epoch, hashed))
    if len(members) == group.member_count:
        records.append(target_epoch_record(group_id, epoch, NEVER_ASSIGNED_MS))
    return Removal(records)


def fence(
    group: ConsumerGroup,
    member_id: str,
    timer: DelayedOperation[ConsumerGroup],
    trigger: Trigger,
    timeout_ms: int,
    now_ms: int,
    effects: Effects,
) -> Steps:
    """Remove a member whose `timer` has expired; the member's next request gets an error.

    If the log refuses the records, `timer` fires again later.
    """
    member = group.members.get(member_id)
    if member is None:
        return
    records, back = yield from removal(group, (member,), now_ms)

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if back is not None and error is ErrorCode.NONE:
            back.finish(effects.group, now_ms, effects)

    write = effects.write(records, retried(group, timer))
    write.causes = [cause_of(trigger, member, timeout_ms=timeout_ms)]
    write.then(done)


def leave_for_a_while(group: ConsumerGroup, member: ConsumerMember) -> list[CoordinatorRecord]:
    """Return the record of a static member that leaves temporarily.

    The member keeps its partitions until it returns or its session expires.
    """
    current = group.current(member.member_id)
    away = current._replace(
        epoch=STATIC_LEAVING_EPOCH,
        revoking={},
        assigned={topic: dict.fromkeys(owned, 0) for topic, owned in current.assigned.items()},
    )
    return [current_record(group.group_id, member.member_id, away)]
