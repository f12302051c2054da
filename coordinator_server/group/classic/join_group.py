"""JoinGroup: a member comes, comes back, or takes the place of its former self.

Source: GroupMetadataManager.classicGroupJoin…, KIP-345 (static members), KIP-394 (member id
required), KIP-814 (static leader and skipAssignment).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.group.classic.explain import Absence, Dropped, Trigger, caused_by
from coordinator_server.group.classic.member import (
    DelayedHeartbeat,
    MemberMetadata,
    Parked,
    Protocols,
)
from coordinator_server.group.classic.rebalance import (
    InitialDelayedJoin,
    join_answer,
    members_for_leader,
    prepare_or_complete,
)
from coordinator_server.group.classic.state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from coordinator_server.group.responses import join_error
from coordinator_server.group.storage_errors import client_error
from protocol.apis.sync_group import SyncGroupResponse
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.group.classic.metadata import GroupMetadata
    from coordinator_server.group.effects import Caller, Effects, Reply
    from protocol.apis.join_group import JoinGroupRequest

MEMBER_ID_REQUIRED_SINCE = 4
SKIP_ASSIGNMENT_SINCE = 9


def join(
    group: GroupMetadata,
    request: JoinGroupRequest,
    caller: Caller,
    reply: Reply,
    now_ms: int,
    effects: Effects,
) -> None:
    """Handle a JoinGroup that `admission.refuse_join` let pass; answered now or parked."""
    if group.is_new:
        _record_new_group(group, effects)
    error = _check(group, request)
    if error is not ErrorCode.NONE:
        echoed = "" if error is ErrorCode.GROUP_MAX_SIZE_REACHED else request.member_id
        effects.reply(reply, join_error(echoed, error, caller.api_version))
        return
    parked = Parked(reply, caller.api_version)
    member_id = request.member_id
    if not member_id:
        _join_unknown(group, request, caller, parked, now_ms, effects)
    elif member_id in group.roster.pending:
        if request.group_instance_id is not None:
            # A static member is never given an id to come back with. Kafka throws here.
            error = ErrorCode.UNKNOWN_SERVER_ERROR
            effects.reply(reply, join_error("", error, caller.api_version))
            return
        _add(group, member_id, request, caller, parked, now_ms, effects)
    else:
        _join_known(group, request, parked, now_ms, effects)


def _record_new_group(group: GroupMetadata, effects: Effects) -> None:
    """A group that nobody knew is recorded at once, even if the join is then refused."""
    group.is_new = False
    effects.event("group.created", group=group.group_id)
    effects.write([group.record()])


def _check(group: GroupMetadata, request: JoinGroupRequest) -> ErrorCode:
    """The checks that come before anything is changed (but for the one who is too many)."""
    member_id = request.member_id
    if not _has_room(group, member_id):
        # Kafka forgets the member, and does not look whether the others are now complete.
        _forget(group, member_id)
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if group.state is DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if not _fits(group, request):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if member_id and member_id not in group.roster.pending:
        return group.check_member(member_id, request.group_instance_id)
    return ErrorCode.NONE


def _has_room(group: GroupMetadata, member_id: str) -> bool:
    """Whether `group.max.size` lets the member in.

    In PreparingRebalance those who wait count, not those who are known, so that a group that is
    over its size loses the last ones to rejoin.
    """
    roster = group.roster
    if group.state is EMPTY or group.state is DEAD:
        return True
    member = roster.members.get(member_id)
    if group.state is PREPARING_REBALANCE:
        already_waits = member is not None and member.awaiting_join is not None
        return already_waits or roster.awaiting_join < group.settings.max_size
    return member is not None or len(roster.members) < group.settings.max_size


def _forget(group: GroupMetadata, member_id: str) -> None:
    """Drop a member, or an id given out, that has nothing parked.

    It can be a member only in PreparingRebalance: else those who are known have their room.
    """
    pending = group.roster.pending.pop(member_id, None)
    if pending is not None:
        group.purgatory.cancel(pending)
    member = group.roster.members.get(member_id)
    if member is not None:
        assert group.rebalance is not None
        group.rebalance.dropped.append(Dropped.of(Absence.NO_ROOM, member))
        group.purgatory.cancel(member.session)
        group.roster.remove(member)


def _fits(group: GroupMetadata, request: JoinGroupRequest) -> bool:
    """Whether the protocols of the request go together with those of the members."""
    if group.state is EMPTY:
        return bool(request.protocol_type) and bool(request.protocols)
    if request.protocol_type != group.protocol_type:
        return False
    names = [one.name for one in request.protocols]
    return bool(names) and (not group.roster.members or group.roster.supports_any(names))


def _join_unknown(
    group: GroupMetadata,
    request: JoinGroupRequest,
    caller: Caller,
    parked: Parked,
    now_ms: int,
    effects: Effects,
) -> None:
    """Someone without a member id: a static member, or one to be given an id (KIP-394)."""
    instance_id = request.group_instance_id
    prefix = (caller.client_id or "") if instance_id is None else instance_id
    new_member_id = group.new_member_id(prefix)
    if instance_id is not None:
        existing = group.roster.static_ids.get(instance_id)
        if existing is not None:
            member = group.roster.members[existing]
            _replace_static(group, member, new_member_id, request, parked, now_ms, effects)
            return
    elif caller.api_version >= MEMBER_ID_REQUIRED_SINCE:
        pending = group.roster.pending[new_member_id] = DelayedHeartbeat(new_member_id)
        group.purgatory.schedule(pending, now_ms + request.session_timeout_ms)
        error = ErrorCode.MEMBER_ID_REQUIRED
        effects.reply(parked.reply, join_error(new_member_id, error, caller.api_version))
        return
    _add(group, new_member_id, request, caller, parked, now_ms, effects)


def _add(
    group: GroupMetadata,
    member_id: str,
    request: JoinGroupRequest,
    caller: Caller,
    parked: Parked,
    now_ms: int,
    effects: Effects,
) -> None:
    """A new member: it stays parked until the join phase ends."""
    roster = group.roster
    pending = roster.pending.pop(member_id, None)
    if pending is not None:
        group.purgatory.cancel(pending)
    member = MemberMetadata(
        member_id,
        group_instance_id=request.group_instance_id,
        client_id=caller.client_id or "",
        client_host=caller.client_host,
        rebalance_timeout_ms=rebalance_timeout_ms(request, parked.api_version),
        session_timeout_ms=request.session_timeout_ms,
        protocols=_protocols(request),
    )
    member.is_new = True
    if isinstance(group.join_operation, InitialDelayedJoin):
        group.join_operation.member_added = True
    if not roster.members:
        group.protocol_type = request.protocol_type
    roster.add(member)
    roster.park_join(member, parked)
    # It does not know its id yet and cannot send heartbeats: this bounds how long it waits.
    timeout_ms = group.settings.new_member_join_timeout_ms
    group.purgatory.schedule(member.session, now_ms + timeout_ms)
    effects.event(
        "member.joined",
        group=group.group_id,
        member=member_id,
        client_host=member.client_host,
        reason=request.reason or "",
    )
    cause = caused_by(Trigger.MEMBER_JOINED, member, request.reason)
    prepare_or_complete(group, cause, now_ms, effects)


def _join_known(
    group: GroupMetadata, request: JoinGroupRequest, parked: Parked, now_ms: int, effects: Effects
) -> None:
    """A member joins again: because of a rebalance, with new metadata, or without need."""
    member = group.roster.members[request.member_id]
    is_leader = group.roster.leader_id == member.member_id
    changed = member.protocols != _protocols(request)
    state = group.state
    if state is STABLE and is_leader:
        trigger = Trigger.LEADER_REJOINED
    elif changed or state is PREPARING_REBALANCE:
        trigger = Trigger.METADATA_CHANGED
    else:
        # It may have missed the answer: tell it the present generation once more.
        show_members = is_leader and state is COMPLETING_REBALANCE
        members = members_for_leader(group) if show_members else []
        effects.reply(parked.reply, join_answer(group, member, members))
        return
    _update(group, member, request, parked, effects)
    prepare_or_complete(group, caused_by(trigger, member, request.reason), now_ms, effects)


def _replace_static(
    group: GroupMetadata,
    member: MemberMetadata,
    new_member_id: str,
    request: JoinGroupRequest,
    parked: Parked,
    now_ms: int,
    effects: Effects,
) -> None:
    """A static member came back without its member id: it gets a new one, the old one is fenced."""
    old_member_id, old_leader_id = member.member_id, group.roster.leader_id
    before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
    _fence(group, member, effects)
    _rename(group, member, new_member_id)
    # As in Kafka, the session timeout that the request brings counts from the next renewal on.
    group.renew_session(member, now_ms)
    _update(group, member, request, parked, effects)
    effects.event(
        "member.replaced",
        group=group.group_id,
        member=new_member_id,
        replaced=old_member_id,
        instance=member.group_instance_id,
    )
    if group.state is not STABLE or group.roster.selected_protocol() != group.protocol_name:
        # In Completing the leader may be assigning to the old id already.
        cause = caused_by(Trigger.MEMBER_REPLACED, member, request.reason)
        prepare_or_complete(group, cause, now_ms, effects)
        return

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if group.state is not STABLE or member.awaiting_join is not parked:
            return  # a rebalance has begun meanwhile: it answers, and records the member anew
        group.roster.take_join(member)
        if error is ErrorCode.NONE:
            _answer_replaced(group, member, parked, old_leader_id, effects)
            return
        _rename(group, member, old_member_id)
        group.roster.set_protocols(member, before[0])
        member.rebalance_timeout_ms, member.session_timeout_ms = before[1:]
        group.renew_session(member, now_ms)
        refused = join_error("", client_error(error), parked.api_version)
        effects.reply(parked.reply, refused)

    effects.write([group.record()], done)


def _answer_replaced(
    group: GroupMetadata,
    member: MemberMetadata,
    parked: Parked,
    old_leader_id: str | None,
    effects: Effects,
) -> None:
    """Answer a static member that took its old place in a Stable group.

    A leader must not assign anew. From v9 on it is told so; before, it is shown its old id as the
    leader, so that it takes itself for a follower and only syncs (KIP-814).
    """
    is_leader = group.roster.leader_id == member.member_id
    if parked.api_version >= SKIP_ASSIGNMENT_SINCE:
        members = members_for_leader(group) if is_leader else []
        answer = join_answer(group, member, members)
        answer.skip_assignment = is_leader
    else:
        answer = join_answer(group, member, [])
        answer.leader = old_leader_id or ""
    effects.reply(parked.reply, answer)


def _fence(group: GroupMetadata, member: MemberMetadata, effects: Effects) -> None:
    """Answer what the former self of a static member has parked."""
    error = ErrorCode.FENCED_INSTANCE_ID
    parked = group.roster.take_join(member)
    if parked is not None:
        refused = join_error(member.member_id, error, parked.api_version)
        effects.reply(parked.reply, refused)
    if member.awaiting_sync is not None:
        effects.reply(member.awaiting_sync.reply, SyncGroupResponse(error_code=error))
        member.awaiting_sync = None


def _rename(group: GroupMetadata, member: MemberMetadata, member_id: str) -> None:
    """Move a static member to another member id, with a session of its own to be started."""
    group.purgatory.cancel(member.session)
    if member.member_id in group.awaited_syncs:
        group.awaited_syncs.remove(member.member_id)
        group.awaited_syncs.add(member_id)
    group.roster.rename(member, member_id)
    member.session = DelayedHeartbeat(member_id)


def _update(
    group: GroupMetadata,
    member: MemberMetadata,
    request: JoinGroupRequest,
    parked: Parked,
    effects: Effects,
) -> None:
    """Take over what the request says about the member, and park it."""
    protocols = _protocols(request)
    if member.protocols != protocols:
        group.roster.set_protocols(member, protocols)
    member.rebalance_timeout_ms = rebalance_timeout_ms(request, parked.api_version)
    member.session_timeout_ms = request.session_timeout_ms
    replaced = group.roster.park_join(member, parked)
    if replaced is not None:
        # The same member asks again on another connection: the older request ends here.
        error = ErrorCode.REBALANCE_IN_PROGRESS
        effects.reply(replaced.reply, join_error(member.member_id, error, replaced.api_version))


def rebalance_timeout_ms(request: JoinGroupRequest, api_version: int) -> int:
    """The rebalance timeout of a JoinGroup; v0 has none and uses the session timeout."""
    return request.session_timeout_ms if api_version == 0 else request.rebalance_timeout_ms


def _protocols(request: JoinGroupRequest) -> Protocols:
    return tuple((one.name, bytes(one.metadata)) for one in request.protocols)
