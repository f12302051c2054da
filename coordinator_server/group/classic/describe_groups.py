"""DescribeGroups and ListGroups: what a group shows of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.group.api import GroupApi
from coordinator_server.group.classic.state import DEAD, STABLE
from coordinator_server.group.effects import STEP_ITEMS
from protocol.apis.describe_groups import DescribedGroup, DescribedGroupMember
from protocol.apis.list_groups import ListedGroup
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.group.classic.metadata import GroupMetadata
    from coordinator_server.group.effects import Caller, Effects, Reply, Steps

GROUP_TYPE = "classic"
NOT_FOUND_SINCE = 6

_ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
"""Without an authorizer everything that can be done to a group is allowed, as bits of Kafka's
AclOperation: READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS."""
_NOT_REQUESTED = -(2**31)


class DescribeGroup(NamedTuple):
    """One group of a DescribeGroups request."""

    group_id: str
    include_authorized_operations: bool = False


def refuse(request: DescribeGroup, _: Caller, error: ErrorCode) -> DescribedGroup:
    """A group that cannot be described now."""
    return DescribedGroup(group_id=request.group_id, error_code=error)


def missing(request: DescribeGroup, caller: Caller) -> DescribedGroup:
    """A group that does not exist is Dead; since v6 that is an error with a message (KIP-1043)."""
    if caller.api_version < NOT_FOUND_SINCE:
        return DescribedGroup(
            group_id=request.group_id,
            group_state=DEAD.value,
            authorized_operations=_authorized_operations(request),
        )
    return DescribedGroup(
        group_id=request.group_id,
        group_state=DEAD.value,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {request.group_id} not found.",
    )


def describe(
    group: GroupMetadata,
    request: DescribeGroup,
    reply: Reply[DescribedGroup],
    now_ms: int,
    effects: Effects,
) -> Steps:
    """Answer with a DescribedGroup.

    Protocol and metadata show in Stable only; the last assignments show in every state.
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
        authorized_operations=_authorized_operations(request),
    )
    effects.reply(reply, response)


def _authorized_operations(request: DescribeGroup) -> int:
    """The field of authorized operations (KIP-430)."""
    return _ALL_OPERATIONS if request.include_authorized_operations else _NOT_REQUESTED


def list_entry(group: GroupMetadata) -> ListedGroup:
    """The group's entry in ListGroups; it changes nothing, so it may be called at any time."""
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type=GROUP_TYPE,
    )


DESCRIBE_GROUPS = GroupApi(
    request_type=DescribeGroup,
    serve=describe,
    refuse=refuse,
    missing=missing,
    read_only=True,
)
