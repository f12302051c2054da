"""ShareGroupDescribe: epochs, members and assignments of share groups (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis.described_groups import (
    DESCRIBES_HIDDEN_TOPICS,
    describe_all,
    reply_visible,
)
from coordinator_server.core.groups.share.describe import DescribeShareGroup
from protocol.apis.share_group_describe import DescribedShareGroup, ShareGroupDescribeResponse
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.share_group_describe import ShareGroupDescribeRequest


def handle(broker: Broker, call: Call, request: ShareGroupDescribeRequest) -> Steps:
    """Describe each group; the response is sent when all groups have been described."""

    def finish(groups: list[DescribedShareGroup]) -> None:
        reply_visible(call, groups, ShareGroupDescribeResponse, _topics, _hidden)

    return describe_all(
        broker,
        call,
        request.group_ids,
        DescribeShareGroup,
        finish,
        with_operations=request.include_authorized_operations,
    )


def _topics(group: DescribedShareGroup) -> Iterator[str]:
    """Yield the topics of all assignments."""
    for member in group.members:
        for one in member.assignment.topic_partitions:
            yield one.topic_name


def _hidden(group: DescribedShareGroup) -> DescribedShareGroup:
    return DescribedShareGroup(
        group_id=group.group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message=DESCRIBES_HIDDEN_TOPICS,
    )
