"""ListGroups: every group of this broker, filtered by state and type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.apis.list_groups import ListedGroup, ListGroupsResponse
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.list_groups import ListGroupsRequest

STEP_GROUPS = 200

_FILTER_NAMES = {"NotReady": "not_ready"}
"""States that a filter does not call by their name in lower case."""


def handle(broker: Broker, call: Call, request: ListGroupsRequest) -> Steps:
    """List the groups. While groups load the list would be incomplete, so that is an error.

    The case of a filter does not matter, nor blanks around a state; an empty one lets all groups
    pass (KIP-518, KIP-848).
    Kafka knows the state NotReady of streams groups by another name here.
    """
    if broker.groups.is_loading:
        call.reply(ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return
    states = frozenset(state.strip().lower() for state in request.states_filter)
    types = frozenset(name.lower() for name in request.types_filter)
    groups: list[ListedGroup] = []
    for number, group in enumerate(broker.groups.listed_groups(), start=1):
        state = _FILTER_NAMES.get(group.group_state, group.group_state.lower())
        if (not states or state in states) and (not types or group.group_type.lower() in types):
            groups.append(group)
        if not number % STEP_GROUPS:
            yield
    call.reply(ListGroupsResponse(groups=groups))
