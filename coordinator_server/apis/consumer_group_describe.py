"""ConsumerGroupDescribe: epochs, members and assignments of consumer groups (KIP-848)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.apis.described_groups import DESCRIBES_HIDDEN_TOPICS, describe_visible
from coordinator_server.core.groups.consumer.describe import DescribeConsumerGroup
from protocol.apis.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.consumer_group_describe import ConsumerGroupDescribeRequest


def handle(broker: Broker, call: Call, request: ConsumerGroupDescribeRequest) -> Steps:
    """Describe each group; the response is sent when all groups have been described."""
    hidden = partial(DescribedConsumerGroup, error_message=DESCRIBES_HIDDEN_TOPICS)
    return describe_visible(
        broker, call, request, DescribeConsumerGroup, ConsumerGroupDescribeResponse, _topics, hidden
    )


def _topics(group: DescribedConsumerGroup) -> Iterator[str]:
    """Yield the topics of all assignments and target assignments."""
    for member in group.members:
        for topic in member.assignment.topic_partitions:
            yield topic.topic_name
    for member in group.members:
        for topic in member.target_assignment.topic_partitions:
            yield topic.topic_name
