"""DescribeGroups: state, members and assignments of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.coordinator.fan_in import Gathering
from coordinator_server.group.admission import describe_unknown
from coordinator_server.group.classic.metadata import GroupMetadata
from protocol.apis.describe_groups import DescribedGroup, DescribeGroupsResponse
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.describe_groups import DescribeGroupsRequest

_ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
"""Without an authorizer everything that can be done to a group is allowed, as bits of Kafka's
AclOperation: READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS."""


def handle(broker: Broker, call: Call, request: DescribeGroupsRequest) -> None:
    """To the task of each group; the answer goes out when all of them have told."""
    coordinator = broker.groups

    def finish(groups: Sequence[DescribedGroup]) -> None:
        if request.include_authorized_operations:
            for group in groups:
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = _ALL_OPERATIONS
        call.reply(DescribeGroupsResponse(groups=list(groups)))

    gathering = Gathering(call, len(request.groups), finish)
    for index, group_id in enumerate(request.groups):
        task = coordinator.tasks.get(group_id)
        if task is not None:
            task.post(GroupMetadata.describe, (gathering.taker(index),), gathering.fail)
            continue
        error = coordinator.unavailable(group_id)
        if error is ErrorCode.NONE:
            gathering.take(index, describe_unknown(group_id, call.api_version))
        else:
            gathering.take(index, DescribedGroup(group_id=group_id, error_code=error))
