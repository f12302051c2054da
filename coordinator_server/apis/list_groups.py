"""ListGroups: every group of this broker, filtered by state and type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.apis.list_groups import ListedGroup, ListGroupsResponse
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.clock.step_runner import Steps
    from coordinator_server.net.call import Call
    from protocol.apis.list_groups import ListGroupsRequest

STEP_GROUPS = 200


def handle(broker: Broker, call: Call, request: ListGroupsRequest) -> Steps:
    """List the groups. While groups load the list would be incomplete, so that is an error.

    The case of a filter does not matter; an empty one lets all groups pass (KIP-518, KIP-848).
    """
    if broker.groups.is_loading:
        call.reply(ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return
    states = frozenset(state.lower() for state in request.states_filter)
    types = frozenset(name.lower() for name in request.types_filter)
    groups: list[ListedGroup] = []
    for number, group in enumerate(broker.groups.listed_groups(), start=1):
        if (not states or group.group_state.lower() in states) and (
            not types or group.group_type.lower() in types
        ):
            groups.append(group)
        if not number % STEP_GROUPS:
            yield
    call.reply(ListGroupsResponse(groups=groups))
