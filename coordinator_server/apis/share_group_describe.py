"""ShareGroupDescribe: epochs, members and assignments of share groups (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.coordinator.fan_in import FanIn
from coordinator_server.core.groups.share.describe import DescribeShareGroup
from protocol.apis.share_group_describe import DescribedShareGroup, ShareGroupDescribeResponse

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.share_group_describe import ShareGroupDescribeRequest


def handle(broker: Broker, call: Call, request: ShareGroupDescribeRequest) -> Steps:
    """Describe each group; the response is sent when all groups have been described."""

    def finish(groups: list[DescribedShareGroup]) -> None:
        call.reply(ShareGroupDescribeResponse(groups=groups))

    fan_in = FanIn(call, len(request.group_ids), finish)
    for index, group_id in enumerate(request.group_ids):
        group = DescribeShareGroup(group_id, request.include_authorized_operations)
        broker.groups.submit(fan_in.part(index), group)
        yield  # a group may have hundreds of members
