"""LeaveGroup: members leave, or are removed by their instance id (KIP-345, KIP-571).

Source: GroupMetadataManager.classicGroupLeave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.groups.api import GroupApi
from coordinator_server.core.groups.classic.rebalance import members_lost, remove_member
from coordinator_server.core.groups.effects import STEP_ITEMS
from coordinator_server.core.groups.explain import Cause, Trigger, caused_by
from protocol.apis.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from protocol.coordinator_errors import client_error
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.classic.metadata import GroupMetadata
    from coordinator_server.core.groups.effects import Effects, Reply
    from coordinator_server.core.groups.settings import GroupSettings
    from coordinator_server.steps import Steps

MEMBERS_SINCE = 3


def validate(request: LeaveGroupRequest, _: Caller, __: GroupSettings) -> ErrorCode:
    """Return INVALID_GROUP_ID for an empty group id, or NONE."""
    return ErrorCode.NONE if request.group_id else ErrorCode.INVALID_GROUP_ID


def refuse(_: LeaveGroupRequest, __: Caller, error: ErrorCode) -> LeaveGroupResponse:
    """Return an error for the whole request."""
    return LeaveGroupResponse(error_code=error)


def missing(request: LeaveGroupRequest, caller: Caller) -> LeaveGroupResponse:
    """Return UNKNOWN_MEMBER_ID for every member of a missing group."""
    results = [
        result(identity, ErrorCode.UNKNOWN_MEMBER_ID)
        for identity in identities(request, caller.api_version)
    ]
    return response(results, caller.api_version)


def leave(
    group: GroupMetadata,
    request: LeaveGroupRequest,
    reply: Reply[LeaveGroupResponse],
    now_ms: int,
    effects: Effects,
) -> Steps:
    """Remove each named member; if the last member leaves, reply after the write."""
    caller = reply.caller
    results: list[MemberResponse] = []
    causes: list[Cause] = []
    for identity in identities(request, caller.api_version):
        error, left = _remove(group, identity, effects)
        results.append(result(identity, error))
        if left is not None:
            causes.append(left)
        if not len(results) % STEP_ITEMS:
            yield
    write = members_lost(group, causes, now_ms, effects) if causes else None
    answer = response(results, caller.api_version)
    if write is None:
        effects.reply(reply, answer)
        return

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if error is ErrorCode.NONE:
            effects.reply(reply, answer)
        else:
            effects.reply(reply, refuse(request, caller, client_error(error)))

    write.then(done)


def identities(request: LeaveGroupRequest, api_version: int) -> list[MemberIdentity]:
    """Return the members that leave: a list since v3, the single member of a v0 to v2 request."""
    if api_version >= MEMBERS_SINCE:
        return request.members
    return [MemberIdentity(member_id=request.member_id)]


def response(results: list[MemberResponse], api_version: int) -> LeaveGroupResponse:
    """Return the response: one result per member (v3+), or only an error code (v0 to v2)."""
    if api_version >= MEMBERS_SINCE:
        return LeaveGroupResponse(members=results)
    return LeaveGroupResponse(error_code=results[0].error_code)


def result(member: MemberIdentity, error: ErrorCode) -> MemberResponse:
    """Return the result of one member, with the ids of the request."""
    return MemberResponse(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        error_code=error,
    )


def _remove(
    group: GroupMetadata, identity: MemberIdentity, effects: Effects
) -> tuple[ErrorCode, Cause | None]:
    """Remove a member or a pending member id; return the error, and the cause of the rebalance."""
    membership = group.membership
    member_id = identity.member_id
    if not member_id:
        # An administrator may remove a static member by its instance id alone.
        instance_id = identity.group_instance_id
        member_id = membership.static_ids.get(instance_id, "") if instance_id is not None else ""
        if not member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID, None
    pending = membership.pending.pop(member_id, None)
    if pending is not None:
        group.purgatory.cancel(pending)
        return ErrorCode.NONE, Cause(Trigger.MEMBER_LEFT, member_id, reason=identity.reason or "")
    error = group.check_member(member_id, identity.group_instance_id)
    if error is not ErrorCode.NONE:
        return error, None
    member = membership.members[member_id]
    remove_member(group, member, effects)
    effects.event(
        "member.left", group=group.group_id, member=member_id, reason=identity.reason or ""
    )
    return ErrorCode.NONE, caused_by(Trigger.MEMBER_LEFT, member, identity.reason)


LEAVE_GROUP = GroupApi(
    request_type=LeaveGroupRequest,
    serve=leave,
    refuse=refuse,
    missing=missing,
    validate=validate,
)
