"""ListGroups: list the groups of this broker, filtered by state and type."""

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
"""States whose filter name is not their lower-case name."""


def handle(broker: Broker, call: Call, request: ListGroupsRequest) -> Steps:
    """List the groups; while groups are loading, respond COORDINATOR_LOAD_IN_PROGRESS.

    Filters ignore case, and state filters ignore surrounding blanks; an empty filter matches all
    groups (KIP-518, KIP-848). As in Kafka, the filter name of state NotReady is not_ready.
    """
    if broker.groups.is_loading:
        call.reply(ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return
    states = frozenset(state.strip().lower() for state in request.states_filter)
    types = frozenset(name.lower() for name in request.types_filter)
    rights = call.rights
    groups: list[ListedGroup] = []
    for number, group in enumerate(broker.groups.listed_groups(), start=1):
        state = _FILTER_NAMES.get(group.group_state, group.group_state.lower())
        if (
            (not states or state in states)
            and (not types or group.group_type.lower() in types)
            and rights.allows(group.group_id)
        ):
            groups.append(group)
        if not number % STEP_GROUPS:
            yield
    call.reply(ListGroupsResponse(groups=groups))
