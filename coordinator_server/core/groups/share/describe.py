"""ShareGroupDescribe: the description of a share group.

Source: ShareGroup.asDescribedGroup, ShareGroupMember.asShareGroupDescribeMember.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.api import NOT_REQUESTED, describe_api
from coordinator_server.core.groups.effects import Pace
from coordinator_server.core.groups.settings import GroupKind
from protocol.apis.share_group_describe import (
    DescribedShareAssignment,
    DescribedShareGroup,
    DescribedShareMember,
    DescribedShareTopicPartitions,
)
from protocol.error_messages import MESSAGES
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.effects import Effects, Reply
    from coordinator_server.core.groups.share.member import ShareMember
    from coordinator_server.core.groups.share.share_group import ShareGroup
    from coordinator_server.steps import Steps

ASSIGNOR = "simple"


class DescribeShareGroup(NamedTuple):
    """One group of a ShareGroupDescribe request."""

    group_id: str
    authorized_operations: int = NOT_REQUESTED


def refuse(request: DescribeShareGroup, _: Caller, error: ErrorCode) -> DescribedShareGroup:
    """Return the error for a group that cannot be described now."""
    return DescribedShareGroup(
        group_id=request.group_id,
        error_code=error,
        error_message=None if error is ErrorCode.INVALID_GROUP_ID else MESSAGES[error],
    )


def describe(
    group: ShareGroup,
    request: DescribeShareGroup,
    reply: Reply[DescribedShareGroup],
    now_ms: int,
    effects: Effects,
) -> Steps:
    """Reply with a DescribedShareGroup."""
    members: list[DescribedShareMember] = []
    pace = Pace()
    for member in group.members.values():
        members.append(_described(group, member))
        if pace.is_due(1 + len(member.topics)):
            yield
    response = DescribedShareGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=members,
        authorized_operations=request.authorized_operations,
    )
    effects.reply(reply, response)


def _described(group: ShareGroup, member: ShareMember) -> DescribedShareMember:
    """Return the description of a member; deleted topics are left out of its assignment."""
    current = group.current(member.member_id)
    topics = group.environment.topics
    return DescribedShareMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=current.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        assignment=DescribedShareAssignment(
            topic_partitions=[
                DescribedShareTopicPartitions(
                    topic_id=topic_id, topic_name=topic.name, partitions=sorted(partitions)
                )
                for topic_id, partitions in current.assigned.items()
                if (topic := topics.topic_by_id(topic_id)) is not None
            ]
        ),
    )


SHARE_GROUP_DESCRIBE = describe_api(
    GroupKind.SHARE, DescribeShareGroup, DescribedShareGroup, describe, refuse=refuse
)
