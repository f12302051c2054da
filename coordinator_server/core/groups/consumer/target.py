"""The target assignment of a consumer group.

An assignor computes the target when the group epoch has risen, at most once per
`group.consumer.assignment.interval.ms`. Source: maybeUpdateTargetAssignment of
GroupMetadataManager, and TargetAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final

from coordinator_server.core.groups.consumer.assignors.range import assign as assign_ranges
from coordinator_server.core.groups.consumer.assignors.uniform import assign as assign_uniformly
from coordinator_server.core.groups.consumer.reconcile import PartitionTarget
from coordinator_server.core.groups.consumer.records import target_epoch_record, target_record
from coordinator_server.core.groups.consumer.timers import ASSIGNMENT_INTERVAL
from coordinator_server.core.groups.effects import Pace
from coordinator_server.core.groups.modern.assignor_spec import Assignment, GroupSpec, MemberSpec

if TYPE_CHECKING:
    from coordinator_server.core.groups.consumer.consumer_group import ConsumerGroup
    from coordinator_server.core.groups.consumer.member import ConsumerMember
    from coordinator_server.core.groups.modern.assignor_spec import Partitions
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.steps import Computation

Assignor = Callable[[GroupSpec], "Computation[Assignment]"]
"""An assignor runs in steps, because a group can be very large."""

ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}
"""The assignors by name, as in `group.consumer.assignors` and in heartbeats."""


def target_of_member(
    group: ConsumerGroup,
    epoch: int,
    member: ConsumerMember,
    now_ms: int,
    records: list[CoordinatorRecord],
) -> Computation[PartitionTarget]:
    """Return the target of `member` at group epoch `epoch`; compute a new assignment if due.

    `member` is the member after the current heartbeat, which the group state does not contain yet.
    """
    if epoch <= group.assignment_epoch or not group.may_assign(ASSIGNMENT_INTERVAL, now_ms):
        return current_target(group, member)
    members = group.members_with(member)
    spec = yield from _group_spec(group, members)
    targets = yield from ASSIGNORS[group.preferred_assignor(members)](spec)
    pace = Pace()
    for member_id, remaining in members.items():
        target = targets.get(member_id, {})
        # Compare with both: `replace_static` may have written the predecessor's target for this
        # member in the same batch.
        if target != group.targets.get(member_id) or target != last_target(group, remaining):
            records.append(target_record(group.group_id, member_id, target))
        if pace.is_due(1 + len(target)):
            yield
    records.append(target_epoch_record(group.group_id, epoch, now_ms))
    return PartitionTarget(epoch, targets.get(member.member_id, {}))


def current_target(group: ConsumerGroup, member: ConsumerMember) -> PartitionTarget:
    """Return the member's target while no new assignment is computed.

    As in Kafka (ModernGroup.targetAssignment), a member whose instance id is new to the group has
    no target partitions until the next assignment.
    """
    is_new_instance = member.instance_id is not None and member.instance_id not in group.static_ids
    target = {} if is_new_instance else last_target(group, member)
    return PartitionTarget(group.assignment_epoch, target)


def last_target(group: ConsumerGroup, member: ConsumerMember) -> Partitions:
    """Return the member's last target; a static member inherits its predecessor's target."""
    owner = group.static_ids.get(member.instance_id or "", member.member_id)
    return group.targets.get(owner, {})


def _group_spec(
    group: ConsumerGroup, members: Mapping[str, ConsumerMember]
) -> Computation[GroupSpec]:
    """Return the assignor's input; members with equal subscriptions share a set of topics."""
    topics = group.environment.topics
    counts: dict[bytes, int] = {}
    shared: dict[object, frozenset[bytes]] = {}
    subscriptions: set[tuple[frozenset[str], str | None]] = set()
    specs: dict[str, MemberSpec] = {}
    pace = Pace()
    for member_id, member in members.items():
        subscription = member.topics, member.regex
        topic_ids = shared.get(subscription)
        if topic_ids is None:
            known: set[bytes] = set()
            for name in group.topics_of(member):
                topic = topics.topic(name)
                if topic is not None:
                    known.add(topic.topic_id)
                    counts[topic.topic_id] = len(topic.partitions)
                if pace.is_due():
                    yield
            topic_ids = shared[subscription] = frozenset(known)
            subscriptions.add((frozenset(member.topics), member.regex or None))
        specs[member_id] = MemberSpec(topic_ids, last_target(group, member), member.instance_id)
    return GroupSpec(specs, counts, is_homogeneous=_is_homogeneous(subscriptions))


def _is_homogeneous(subscriptions: Collection[tuple[frozenset[str], str | None]]) -> bool:
    """Return whether all members have the same subscription: either topic names or one regex.

    Source: ConsumerGroup.subscriptionType.
    """
    return len(subscriptions) == 1 and not any(names and regex for names, regex in subscriptions)
