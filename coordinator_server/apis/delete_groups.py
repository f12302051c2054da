"""DeleteGroups: delete groups without members, including their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.coordinator.fan_in import FanIn
from coordinator_server.core.groups.delete_groups import DeleteGroup
from protocol.apis.delete_groups import DeletableGroupResult, DeleteGroupsResponse

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.delete_groups import DeleteGroupsRequest


def handle(broker: Broker, call: Call, request: DeleteGroupsRequest) -> Steps:
    """Delete each group, once per distinct name."""
    names = list(dict.fromkeys(request.groups_names))

    def finish(results: list[DeletableGroupResult]) -> None:
        call.reply(DeleteGroupsResponse(results=call.rights.after(results)))

    fan_in = FanIn(call, len(names), finish)
    for index, group_id in enumerate(names):
        broker.groups.submit(fan_in.part(index), DeleteGroup(group_id))
        yield
