"""ConsumerGroupDescribe: the description of a consumer group.

Source: ConsumerGroup.asDescribedGroup, ConsumerGroupMember.asConsumerGroupDescribeMember.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.api import NOT_REQUESTED, describe_api
from coordinator_server.core.groups.effects import Pace
from coordinator_server.core.groups.settings import GroupKind
from protocol.apis.consumer_group_describe import (
    CLASSIC_MEMBER,
    CONSUMER_MEMBER,
    AssignedTopicPartitions,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    MemberAssignment,
)

if TYPE_CHECKING:
    from coordinator_server.core.groups.consumer.consumer_group import ConsumerGroup
    from coordinator_server.core.groups.consumer.member import ConsumerMember
    from coordinator_server.core.groups.effects import Effects, Reply
    from coordinator_server.core.groups.settings import TopicsView
    from coordinator_server.steps import Computation, Steps


class DescribeConsumerGroup(NamedTuple):
    """One group of a ConsumerGroupDescribe request."""

    group_id: str
    authorized_operations: int = NOT_REQUESTED


def describe(
    group: ConsumerGroup,
    request: DescribeConsumerGroup,
    reply: Reply[DescribedConsumerGroup],
    now_ms: int,
    effects: Effects,
) -> Steps:
    """Reply with a DescribedConsumerGroup."""
    members: list[DescribedConsumerMember] = []
    pace = Pace()
    for member in group.members.values():
        members.append((yield from _described(group, member, pace)))
        if pace.is_due():
            yield
    response = DescribedConsumerGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(group.members),
        members=members,
        authorized_operations=request.authorized_operations,
    )
    effects.reply(reply, response)


def _described(
    group: ConsumerGroup, member: ConsumerMember, pace: Pace
) -> Computation[DescribedConsumerMember]:
    """Return the description of a member; partitions that it still has to revoke are included."""
    current = group.current(member.member_id)
    topics = group.environment.topics
    is_classic = member.classic is not None
    owned: dict[bytes, list[int]] = {}
    for topic_id, partition in current.held():
        owned.setdefault(topic_id, []).append(partition)
    assignment = yield from _assignment(owned, topics, pace)
    target = yield from _assignment(group.targets.get(member.member_id, {}), topics, pace)
    return DescribedConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=current.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=assignment,
        target_assignment=target,
        member_type=CLASSIC_MEMBER if is_classic else CONSUMER_MEMBER,
    )


def _assignment(
    assigned: Mapping[bytes, Iterable[int]], topics: TopicsView, pace: Pace
) -> Computation[MemberAssignment]:
    """Return `assigned` in the form of the response, without deleted topics."""
    listed: list[AssignedTopicPartitions] = []
    for topic_id, partitions in assigned.items():
        topic = topics.topic_by_id(topic_id)
        if topic is not None:
            listed.append(
                AssignedTopicPartitions(
                    topic_id=topic_id, topic_name=topic.name, partitions=sorted(partitions)
                )
            )
        if pace.is_due():
            yield
    return MemberAssignment(topic_partitions=listed)


CONSUMER_GROUP_DESCRIBE = describe_api(
    GroupKind.CONSUMER,
    DescribeConsumerGroup,
    DescribedConsumerGroup,
    describe,
    protocol=GroupKind.CONSUMER,
)
