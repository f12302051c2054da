"""ConsumerGroupDescribe: epochs, members and assignments of consumer groups (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.coordinator.fan_in import FanIn
from coordinator_server.core.groups.consumer.describe import DescribeConsumerGroup
from protocol.apis.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
)

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.consumer_group_describe import ConsumerGroupDescribeRequest


def handle(broker: Broker, call: Call, request: ConsumerGroupDescribeRequest) -> Steps:
    """Describe each group; the response is sent when all groups have been described."""

    def finish(groups: list[DescribedConsumerGroup]) -> None:
        call.reply(ConsumerGroupDescribeResponse(groups=groups))

    fan_in = FanIn(call, len(request.group_ids), finish)
    for index, group_id in enumerate(request.group_ids):
        group = DescribeConsumerGroup(group_id, request.include_authorized_operations)
        broker.groups.submit(fan_in.part(index), group)
        yield  # a group may have hundreds of members
