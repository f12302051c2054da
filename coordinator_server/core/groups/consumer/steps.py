"""The steps of joining and heartbeat requests that both protocols share.

The steps identify the member, advance the group epoch, and reconcile the assignment; each step adds
records. Source: the parts that consumerGroupHeartbeat and classicGroupJoinToConsumerGroup of
GroupMetadataManager share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.groups.consumer.reconcile import (
    PartitionReconciliation,
    UnknownStateError,
)
from coordinator_server.core.groups.consumer.records import (
    current_record,
    epoch_record,
    legacy_tombstone,
    member_record,
    member_tombstones,
    target_record,
)
from coordinator_server.core.groups.effects import Pace
from coordinator_server.core.groups.modern.members import JOINING_EPOCH, RefusedError
from coordinator_server.core.groups.modern.metadata_hash import metadata_hash
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.groups.consumer.consumer_group import ConsumerGroup
    from coordinator_server.core.groups.consumer.member import ConsumerMember, CurrentAssignment
    from coordinator_server.core.groups.consumer.reconcile import Listed, PartitionTarget
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.steps import Computation


def replace_static(
    group: ConsumerGroup, owner: ConsumerMember, member_id: str, records: list[CoordinatorRecord]
) -> tuple[ConsumerMember, CurrentAssignment]:
    """Replace a static member by its new incarnation, which keeps the assignment.

    The member id can change. Adds the records; returns the new member and its current assignment.
    """
    group_id = group.group_id
    member = owner._replace(member_id=member_id)
    current = group.current(owner.member_id)._replace(
        epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH
    )
    target = group.targets.get(owner.member_id, {})
    records += member_tombstones(group_id, owner.member_id)
    records.append(member_record(group_id, member))
    records.append(target_record(group_id, member_id, target))
    records.append(current_record(group_id, member_id, current))
    return member, current


def next_epoch(
    group: ConsumerGroup,
    before: ConsumerMember,
    after: ConsumerMember,
    records: list[CoordinatorRecord],
    *,
    bumps: bool,
) -> Computation[tuple[int, int | None]]:
    """Return the group epoch, and the topics revision if the metadata hash was computed.

    The epoch rises by one if `bumps` is set or the subscribed topics have changed.
    """
    revision = group.environment.topics.revision
    if not bumps and revision == group.hashed_revision:
        return group.epoch, None
    names = group.subscribed_topics(came=(after,), gone=(before,))
    hashed = yield from metadata_hash(names, group.environment.topics)
    epoch = group.epoch
    if bumps or hashed != group.metadata_hash:
        epoch += 1
        records.append(epoch_record(group.group_id, epoch, hashed))
    if group.has_legacy_record:
        records.append(legacy_tombstone(group.group_id))
    return epoch, revision


def reconciled(
    group: ConsumerGroup,
    member: ConsumerMember,
    current: CurrentAssignment,
    target: PartitionTarget,
    listed: Listed | None,
    *,
    has_new_subscription: bool,
) -> Computation[CurrentAssignment]:
    """Return the current assignment one step closer to the target.

    `listed` are the partitions that the member reports as owned. Raises RefusedError if the
    member's recorded state is unknown.
    """
    if not has_new_subscription and current.is_reconciled_to(target.epoch):
        return current
    topics = group.environment.topics
    subscribed: set[bytes] = set()
    pace = Pace()
    for name in group.topics_of(member):
        known = topics.topic(name)
        if known is not None:
            subscribed.add(known.topic_id)
        if pace.is_due():
            yield
    step = PartitionReconciliation(
        current,
        target,
        subscribed,
        group.is_owned,
        listed,
        has_new_subscription,
    )
    try:
        return (yield from step.next())
    except UnknownStateError:
        message = (
            f"Member {member.member_id} is in a state that this broker does not know: "
            "it must abandon all its partitions and rejoin."
        )
        raise RefusedError(ErrorCode.FENCED_MEMBER_EPOCH, message) from None
