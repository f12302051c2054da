"""ConsumerGroupDescribe: epochs, members and assignments of consumer groups (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis.described_groups import (
    DESCRIBES_HIDDEN_TOPICS,
    describe_all,
    reply_visible,
)
from coordinator_server.core.groups.consumer.describe import DescribeConsumerGroup
from protocol.apis.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.consumer_group_describe import ConsumerGroupDescribeRequest


def handle(broker: Broker, call: Call, request: ConsumerGroupDescribeRequest) -> Steps:
    """Describe each group; the response is sent when all groups have been described."""

    def finish(groups: list[DescribedConsumerGroup]) -> None:
        reply_visible(call, groups, ConsumerGroupDescribeResponse, _topics, _hidden)

    return describe_all(
        broker,
        call,
        request.group_ids,
        DescribeConsumerGroup,
        finish,
        with_operations=request.include_authorized_operations,
    )


def _topics(group: DescribedConsumerGroup) -> Iterator[str]:
    """Yield the topics of all assignments and target assignments."""
    for member in group.members:
        for one in member.assignment.topic_partitions:
            yield one.topic_name
    for member in group.members:
        for one in member.target_assignment.topic_partitions:
            yield one.topic_name


def _hidden(group: DescribedConsumerGroup) -> DescribedConsumerGroup:
    return DescribedConsumerGroup(
        group_id=group.group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message=DESCRIBES_HIDDEN_TOPICS,
    )
