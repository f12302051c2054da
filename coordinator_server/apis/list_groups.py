"""ListGroups: every group of this broker, filtered by state and type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.group.classic.describe_groups import is_listed
from protocol.apis.list_groups import ListGroupsResponse
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.list_groups import ListGroupsRequest


def handle(broker: Broker, call: Call, request: ListGroupsRequest) -> None:
    """Reads one line per group. A list that would be short because groups load is an error."""
    coordinator = broker.groups
    if coordinator.is_loading:
        call.reply(ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return
    entries = [task.group.list_entry() for task in coordinator.tasks.values()]
    states, types = request.states_filter, request.types_filter
    groups = [one for one in entries if is_listed(one, states, types)]
    call.reply(ListGroupsResponse(groups=groups))
