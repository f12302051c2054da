"""SyncGroup: the leader hands in the assignment, everybody takes theirs.

Source: GroupMetadataManager.classicGroupSync, KIP-559 (protocol type and name).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.group.classic.explain import Outcome, Trigger, caused_by
from coordinator_server.group.classic.member import MemberMetadata, Parked
from coordinator_server.group.classic.rebalance import (
    answer_sync,
    drop_assignment,
    prepare_rebalance,
    sync_answer,
)
from coordinator_server.group.classic.state import COMPLETING_REBALANCE, DEAD, STABLE, SYNC_ANSWER
from coordinator_server.group.responses import sync_error
from coordinator_server.group.storage_errors import client_error
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinator_server.group.classic.metadata import GroupMetadata
    from coordinator_server.group.effects import Caller, Effects, Reply
    from protocol.apis.sync_group import SyncGroupRequest


def sync(
    group: GroupMetadata,
    request: SyncGroupRequest,
    caller: Caller,
    reply: Reply,
    now_ms: int,
    effects: Effects,
) -> None:
    """Handle a SyncGroup that `admission.refuse_sync` let pass; answered now or parked."""
    error = _check(group, request)
    if error is not None and error is not ErrorCode.NONE:
        effects.reply(reply, sync_error(error))
        return
    member = group.roster.members[request.member_id]
    _has_synced(group, member)
    if error is ErrorCode.NONE:
        effects.reply(reply, sync_answer(group, member))
        return
    if member.awaiting_sync is not None:
        # The same member asks again on another connection: the older request ends here.
        effects.reply(member.awaiting_sync.reply, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    member.awaiting_sync = Parked(reply, caller.api_version)
    is_leader = group.roster.leader_id == member.member_id
    if is_leader and group.assignment_in_flight != group.generation_id:
        _write_assignment(group, request, effects)


def _check(group: GroupMetadata, request: SyncGroupRequest) -> ErrorCode | None:
    """The error; NONE: the assignment is there; None: it is to be waited for."""
    if group.state is DEAD:
        return SYNC_ANSWER[DEAD]
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


def _differs(asked: str | None, actual: str | None) -> bool:
    return asked is not None and actual is not None and asked != actual


def _has_synced(group: GroupMetadata, member: MemberMetadata) -> None:
    """Nobody is dropped for not syncing once all have."""
    group.awaited_syncs.discard(member.member_id)
    if not group.awaited_syncs:
        group.purgatory.cancel(group.sync_operation)


def _write_assignment(group: GroupMetadata, request: SyncGroupRequest, effects: Effects) -> None:
    """Record the leader's assignment; members it does not name get an empty one."""
    generation_id = group.generation_id
    assignments = {one.member_id: bytes(one.assignment) for one in request.assignments}
    group.assignment_in_flight = generation_id

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if group.assignment_in_flight == generation_id:
            group.assignment_in_flight = None
        if group.state is not COMPLETING_REBALANCE or group.generation_id != generation_id:
            return  # somebody joined or left meanwhile; their SyncGroups are answered already
        if error is ErrorCode.NONE:
            _stabilise(group, assignments, now_ms, effects)
        else:
            _give_up(group, client_error(error), now_ms, effects)

    effects.write([group.record(assignments)], done)


def _stabilise(
    group: GroupMetadata, assignments: Mapping[str, bytes], now_ms: int, effects: Effects
) -> None:
    group.transition_to(STABLE, now_ms)
    for member in group.roster.members.values():
        member.assignment = assignments.get(member.member_id, b"")
        answer_sync(group, member, sync_answer(group, member), now_ms, effects)
    assert group.rebalance is not None
    effects.explain(
        group.rebalance.end(Outcome.STABLE, group.protocol_type, now_ms, after=group.image.group)
    )
    group.rebalance = None


def _give_up(group: GroupMetadata, error: ErrorCode, now_ms: int, effects: Effects) -> None:
    """The assignment is not in the log: nobody gets it, and everybody starts over."""
    leader_id = group.roster.leader_id
    assert leader_id is not None
    drop_assignment(group, error, now_ms, effects)
    leader = group.roster.members[leader_id]
    cause = caused_by(Trigger.ASSIGNMENT_NOT_WRITTEN, leader, error=error.name)
    prepare_rebalance(group, cause, now_ms, effects)
