"""DescribeGroups: the description of a classic group."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.api import NOT_REQUESTED, GroupApi
from coordinator_server.core.groups.classic.state import DEAD, STABLE
from coordinator_server.core.groups.effects import STEP_ITEMS
from protocol.apis.describe_groups import DescribedGroup, DescribedGroupMember
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.classic.metadata import GroupMetadata
    from coordinator_server.core.groups.effects import Effects, Reply
    from coordinator_server.steps import Steps

NOT_FOUND_SINCE = 6


class DescribeGroup(NamedTuple):
    """One group of a DescribeGroups request."""

    group_id: str
    authorized_operations: int = NOT_REQUESTED


def refuse(request: DescribeGroup, _: Caller, error: ErrorCode) -> DescribedGroup:
    """Return the error for a group that cannot be described now."""
    return DescribedGroup(group_id=request.group_id, error_code=error)


def missing(request: DescribeGroup, caller: Caller) -> DescribedGroup:
    """Describe a missing group as Dead; since v6 with an error and a message (KIP-1043)."""
    return _dead(request, caller, f"Group {request.group_id} not found.")


def _dead(request: DescribeGroup, caller: Caller, message: str) -> DescribedGroup:
    if caller.api_version < NOT_FOUND_SINCE:
        return DescribedGroup(
            group_id=request.group_id,
            group_state=DEAD.value,
            authorized_operations=request.authorized_operations,
        )
    return DescribedGroup(
        group_id=request.group_id,
        group_state=DEAD.value,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=message,
    )


def wrong_kind(request: DescribeGroup, caller: Caller) -> DescribedGroup:
    """Describe a group of another kind as Dead, like a missing group."""
    return _dead(request, caller, f"Group {request.group_id} is not a classic group.")


def describe(
    group: GroupMetadata,
    request: DescribeGroup,
    reply: Reply[DescribedGroup],
    now_ms: int,
    effects: Effects,
) -> Steps:
    """Reply with a DescribedGroup.

    Protocol and metadata are included only in state Stable, the last assignments in every state.
    """
    is_stable = group.state is STABLE
    members: list[DescribedGroupMember] = []
    for member in group.membership.members.values():
        members.append(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata_for(group.protocol_name) if is_stable else b"",
                member_assignment=member.assignment,
            )
        )
        if not len(members) % STEP_ITEMS:
            yield
    response = DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=members,
        authorized_operations=request.authorized_operations,
    )
    effects.reply(reply, response)


DESCRIBE_GROUPS = GroupApi(
    request_type=DescribeGroup,
    serve=describe,
    refuse=refuse,
    missing=missing,
    wrong_kind=wrong_kind,
    at_once=True,
    sees_deadlines=True,
)
