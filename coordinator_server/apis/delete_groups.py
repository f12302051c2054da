"""DeleteGroups: end groups that have no members, with their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.coordinator.fan_in import Gathering
from coordinator_server.group.admission import delete_unknown
from coordinator_server.group.classic.metadata import GroupMetadata
from protocol.apis.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.delete_groups import DeleteGroupsRequest


def handle(broker: Broker, call: Call, request: DeleteGroupsRequest) -> None:
    """To the task of each group, once per name."""
    coordinator = broker.groups
    names = list(dict.fromkeys(request.groups_names))

    def finish(results: Sequence[DeletableGroupResult]) -> None:
        call.reply(DeleteGroupsResponse(results=list(results)))

    gathering = Gathering(call, len(names), finish)
    for index, group_id in enumerate(names):
        task = coordinator.tasks.get(group_id)
        if task is not None:
            task.post(GroupMetadata.delete, (gathering.taker(index),), gathering.fail)
            continue
        error = coordinator.unavailable(group_id)
        if error is ErrorCode.NONE:
            gathering.take(index, delete_unknown(group_id))
        else:
            gathering.take(index, DeletableGroupResult(group_id=group_id, error_code=error))
