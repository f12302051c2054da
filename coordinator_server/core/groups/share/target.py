"""The target assignment of a share group.

The `simple` assignor computes the target from the initialized partitions when the group epoch has
risen, at most once per `group.share.assignment.interval.ms`. Source: maybeUpdateTargetAssignment of
GroupMetadataManager, and TargetAssignmentBuilder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.effects import Pace
from coordinator_server.core.groups.modern.assignor_spec import GroupSpec, MemberSpec
from coordinator_server.core.groups.share.assignors.simple import simple
from coordinator_server.core.groups.share.partitions import NO_STATES
from coordinator_server.core.groups.share.records import target_epoch_record, target_record
from coordinator_server.core.groups.share.timers import ASSIGNMENT_INTERVAL

if TYPE_CHECKING:
    from coordinator_server.core.groups.modern.assignor_spec import Partitions
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.core.groups.share.member import ShareMember
    from coordinator_server.core.groups.share.share_group import ShareGroup
    from coordinator_server.steps import Computation


class ShareTarget(NamedTuple):
    """The epoch of the target assignment, and one member's partitions in it."""

    epoch: int
    partitions: Partitions


def target_of_member(
    group: ShareGroup,
    epoch: int,
    member: ShareMember,
    now_ms: int,
    records: list[CoordinatorRecord],
) -> Computation[ShareTarget]:
    """Return the target of `member` at group epoch `epoch`; compute a new assignment if due.

    `member` is the member after the current heartbeat, which the group state does not contain yet.
    """
    member_id = member.member_id
    if epoch <= group.assignment_epoch or not group.may_assign(ASSIGNMENT_INTERVAL, now_ms):
        return ShareTarget(group.assignment_epoch, group.targets.get(member_id, {}))
    members = group.members | {member_id: member}
    spec = yield from _group_spec(group, members)
    targets = yield from simple(spec)
    pace = Pace()
    for other in members:
        target = targets.get(other, {})
        if target != group.targets.get(other):
            records.append(target_record(group.group_id, other, target))
        if pace.is_due(1 + len(target)):
            yield
    records.append(target_epoch_record(group.group_id, epoch, now_ms))
    return ShareTarget(epoch, targets.get(member_id, {}))


def _group_spec(group: ShareGroup, members: dict[str, ShareMember]) -> Computation[GroupSpec]:
    """Return the assignor's input; members with equal subscriptions share a set of topics."""
    counts: dict[bytes, int] = {}
    shared: dict[tuple[str, ...], frozenset[bytes]] = {}
    specs: dict[str, MemberSpec] = {}
    pace = Pace()
    for member_id, member in members.items():
        topic_ids = shared.get(member.topics)
        if topic_ids is None:
            known = group.existing(member.topics)
            topic_ids = shared[member.topics] = frozenset(topic.topic_id for topic in known)
            counts |= {topic.topic_id: len(topic.partitions) for topic in known}
            if pace.is_due(len(member.topics)):
                yield
        specs[member_id] = MemberSpec(topic_ids, group.targets.get(member_id, {}))
    initialized = (group.states or NO_STATES).initialized
    return GroupSpec(
        specs,
        counts,
        is_homogeneous=len(shared) == 1,
        assignable={topic_id: topic.partitions for topic_id, topic in initialized.items()},
    )
