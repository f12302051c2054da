"""SyncGroup: the leader sends the assignments, and every member receives its own.

Source: GroupMetadataManager.classicGroupSync, KIP-559 (protocol type and name).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.groups.api import GroupApi
from coordinator_server.core.groups.classic.rebalance import (
    answer_sync,
    drop_assignment,
    prepare_rebalance,
)
from coordinator_server.core.groups.classic.responses import sync_error, sync_response
from coordinator_server.core.groups.classic.state import (
    COMPLETING_REBALANCE,
    STABLE,
    SYNC_ANSWER,
)
from coordinator_server.core.groups.effects import STEP_ITEMS
from coordinator_server.core.groups.explain import RebalanceOutcome, Trigger, caused_by
from protocol.apis.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.coordinator_errors import client_error
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.classic.member import MemberMetadata
    from coordinator_server.core.groups.classic.metadata import GroupMetadata
    from coordinator_server.core.groups.effects import Effects, Reply
    from coordinator_server.core.groups.settings import GroupSettings
    from coordinator_server.steps import Steps

PROTOCOL_MANDATORY_SINCE = 5


def validate(request: SyncGroupRequest, caller: Caller, _: GroupSettings) -> ErrorCode:
    """Return the error for a missing protocol type or name (v5+, KIP-559) or group id, or NONE."""
    if caller.api_version >= PROTOCOL_MANDATORY_SINCE and (
        request.protocol_type is None or request.protocol_name is None
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE if request.group_id else ErrorCode.INVALID_GROUP_ID


def refuse(_: SyncGroupRequest, __: Caller, error: ErrorCode) -> SyncGroupResponse:
    """Return a SyncGroup response with `error`."""
    return sync_error(error)


def missing(_: SyncGroupRequest, __: Caller) -> SyncGroupResponse:
    """Return UNKNOWN_MEMBER_ID for a missing group."""
    return sync_error(ErrorCode.UNKNOWN_MEMBER_ID)


def sync(
    group: GroupMetadata,
    request: SyncGroupRequest,
    reply: Reply[SyncGroupResponse],
    now_ms: int,
    effects: Effects,
) -> Steps:
    """Handle a SyncGroup that passed `validate`; the request is answered now or parked."""
    error = _check(group, request)
    if error is not None and error is not ErrorCode.NONE:
        effects.reply(reply, sync_error(error))
        return
    member = group.membership.members[request.member_id]
    _member_synced(group, member)
    if error is ErrorCode.NONE:
        effects.reply(reply, sync_response(group, member))
        return
    if member.awaiting_sync is not None:
        # The member has sent a newer SyncGroup on another connection: answer the older one.
        effects.reply(member.awaiting_sync, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    member.awaiting_sync = reply
    is_leader = group.membership.leader_id == member.member_id
    if is_leader and group.assignment_in_flight != group.generation_id:
        assignments: dict[str, bytes] = {}
        for number, assignment in enumerate(request.assignments, start=1):
            assignments[assignment.member_id] = bytes(assignment.assignment)
            if not number % STEP_ITEMS:
                yield
        _write_assignment(group, assignments, effects)


def _check(group: GroupMetadata, request: SyncGroupRequest) -> ErrorCode | None:
    """Return an error, NONE if the assignment is known, or None if the request has to wait."""
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type) or _differs(
        request.protocol_name, group.protocol_name
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return SYNC_ANSWER[group.state]


def _differs(requested: str | None, actual: str | None) -> bool:
    return requested is not None and actual is not None and requested != actual


def _member_synced(group: GroupMetadata, member: MemberMetadata) -> None:
    """Record that a member has synced; cancel the sync timer once all members have synced."""
    group.await_no_sync(member.member_id)
    if group.awaited_syncs is None:
        group.purgatory.cancel(group.sync_operation)


def _write_assignment(
    group: GroupMetadata, assignments: Mapping[str, bytes], effects: Effects
) -> None:
    """Record the leader's assignments; members that the leader omits get an empty assignment."""
    generation_id = group.generation_id
    group.assignment_in_flight = generation_id

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if group.assignment_in_flight == generation_id:
            group.assignment_in_flight = None
        if group.state is not COMPLETING_REBALANCE or group.generation_id != generation_id:
            return  # a newer rebalance has started and has already answered the SyncGroups
        if error is ErrorCode.NONE:
            _stabilise(group, assignments, now_ms, effects)
        else:
            _give_up(group, client_error(error), now_ms, effects)

    effects.write([group.record(assignments)], done)


def _stabilise(
    group: GroupMetadata, assignments: Mapping[str, bytes], now_ms: int, effects: Effects
) -> None:
    group.transition_to(STABLE, now_ms)
    for member in group.membership.members.values():
        member.assignment = assignments.get(member.member_id, b"")
        answer_sync(group, member, sync_response(group, member), now_ms, effects)
    assert group.rebalance is not None
    effects.explain(
        group.rebalance.end(
            RebalanceOutcome.STABLE, group.protocol_type, now_ms, after=group.recorded
        )
    )
    group.rebalance = None


def _give_up(group: GroupMetadata, error: ErrorCode, now_ms: int, effects: Effects) -> None:
    """Drop the assignment that could not be written, and start a rebalance."""
    leader_id = group.membership.leader_id
    assert leader_id is not None
    drop_assignment(group, error, now_ms, effects)
    leader = group.membership.members[leader_id]
    cause = caused_by(Trigger.ASSIGNMENT_NOT_WRITTEN, leader, error=error.name)
    prepare_rebalance(group, cause, now_ms, effects)


SYNC_GROUP = GroupApi(
    request_type=SyncGroupRequest,
    serve=sync,
    refuse=refuse,
    missing=missing,
    validate=validate,
)
