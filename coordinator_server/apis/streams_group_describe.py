"""StreamsGroupDescribe: topology, epochs, members and tasks of streams groups (KIP-1071)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.coordinator.fan_in import FanIn
from coordinator_server.core.groups.streams.describe import DescribeStreamsGroup
from protocol.apis.streams_group_describe import (
    DescribedStreamsGroup,
    StreamsGroupDescribeResponse,
)

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.streams_group_describe import StreamsGroupDescribeRequest


def handle(broker: Broker, call: Call, request: StreamsGroupDescribeRequest) -> Steps:
    """Describe each group; the response is sent when all groups have been described."""

    def finish(groups: list[DescribedStreamsGroup]) -> None:
        call.reply(StreamsGroupDescribeResponse(groups=groups))

    fan_in = FanIn(call, len(request.group_ids), finish)
    for index, group_id in enumerate(request.group_ids):
        group = DescribeStreamsGroup(
            group_id, request.include_authorized_operations, request.include_topology_description
        )
        broker.groups.submit(fan_in.part(index), group)
        yield  # a group may have hundreds of members
