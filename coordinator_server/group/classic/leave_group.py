"""LeaveGroup: members go, or are sent away by their instance id (KIP-345, KIP-571).

Source: GroupMetadataManager.classicGroupLeave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.group.classic.explain import Cause, Trigger, caused_by
from coordinator_server.group.classic.rebalance import members_lost, remove_member
from coordinator_server.group.classic.state import DEAD
from coordinator_server.group.responses import leave_answer, leave_error, leave_result
from coordinator_server.group.storage_errors import client_error
from protocol.apis.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.group.classic.metadata import GroupMetadata
    from coordinator_server.group.effects import Caller, Effects, Reply

MEMBERS_SINCE = 3


def leave(
    group: GroupMetadata,
    request: LeaveGroupRequest,
    caller: Caller,
    reply: Reply,
    now_ms: int,
    effects: Effects,
) -> None:
    """Remove each member named; when the last one goes, answered after the write."""
    if group.state is DEAD:
        effects.reply(reply, leave_error(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    results = []
    causes: list[Cause] = []
    for identity in identities(request, caller.api_version):
        error, left = _remove(group, identity, effects)
        results.append(leave_result(identity, error))
        if left is not None:
            causes.append(left)
    write = members_lost(group, causes, now_ms, effects) if causes else None
    answer = leave_answer(results, caller.api_version)
    if write is None:
        effects.reply(reply, answer)
        return

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        failed = error is not ErrorCode.NONE
        effects.reply(reply, leave_error(client_error(error)) if failed else answer)

    write.then(done)


def identities(request: LeaveGroupRequest, api_version: int) -> list[MemberIdentity]:
    """Who is to leave: a list since v3, before that one member id."""
    if api_version >= MEMBERS_SINCE:
        return request.members
    return [MemberIdentity(member_id=request.member_id)]


def _remove(
    group: GroupMetadata, identity: MemberIdentity, effects: Effects
) -> tuple[ErrorCode, Cause | None]:
    """Remove one member or an id given out; the cause of a rebalance when somebody is gone."""
    roster = group.roster
    member_id = identity.member_id
    if not member_id:
        # An administrator names a static member by its instance id alone.
        instance_id = identity.group_instance_id
        member_id = roster.static_ids.get(instance_id, "") if instance_id is not None else ""
        if not member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID, None
    pending = roster.pending.pop(member_id, None)
    if pending is not None:
        group.purgatory.cancel(pending)
        return ErrorCode.NONE, Cause(Trigger.MEMBER_LEFT, member_id, reason=identity.reason or "")
    error = group.check_member(member_id, identity.group_instance_id)
    if error is not ErrorCode.NONE:
        return error, None
    member = roster.members[member_id]
    remove_member(group, member, effects)
    effects.event(
        "member.left", group=group.group_id, member=member_id, reason=identity.reason or ""
    )
    return ErrorCode.NONE, caused_by(Trigger.MEMBER_LEFT, member, identity.reason)
