"""DescribeGroups: state, members and assignments of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis.described_groups import authorized_operations
from coordinator_server.coordinator.fan_in import FanIn
from coordinator_server.core.groups.classic.describe_groups import DescribeGroup
from protocol.apis.describe_groups import DescribedGroup, DescribeGroupsResponse

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.describe_groups import DescribeGroupsRequest


def handle(broker: Broker, call: Call, request: DescribeGroupsRequest) -> Steps:
    """Describe each group; the response is sent when all groups have been described."""

    def finish(groups: list[DescribedGroup]) -> None:
        call.reply(DescribeGroupsResponse(groups=call.rights.before(groups)))

    fan_in = FanIn(call, len(request.groups), finish)
    for index, group_id in enumerate(request.groups):
        operations = authorized_operations(
            call, group_id, are_requested=request.include_authorized_operations
        )
        broker.groups.submit(fan_in.part(index), DescribeGroup(group_id, operations))
        yield  # a group may have hundreds of members
