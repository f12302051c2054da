"""DescribeGroups: state, members and assignments of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis.described_groups import describe_all
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

    return describe_all(
        broker,
        call,
        request.groups,
        DescribeGroup,
        finish,
        with_operations=request.include_authorized_operations,
    )
