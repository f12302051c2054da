"""JoinGroup: a member joins, rejoins, or takes over the instance id of a static member.

Source: GroupMetadataManager.classicGroupJoin…, KIP-345 (static members), KIP-394 (member id
required), KIP-814 (static leader and skipAssignment).
"""

from __future__ import annotations

from collections.abc import Generator
from sys import intern
from typing import TYPE_CHECKING

from coordinator_server.core.groups.api import GroupApi
from coordinator_server.core.groups.classic.member import (
    DelayedHeartbeat,
    MemberMetadata,
    Protocols,
    shared_protocols,
)
from coordinator_server.core.groups.classic.rebalance import InitialDelayedJoin, prepare_or_complete
from coordinator_server.core.groups.classic.responses import (
    join_error,
    join_response,
    members_for_leader,
    refuse_parked,
)
from coordinator_server.core.groups.classic.state import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from coordinator_server.core.groups.effects import STEP_ITEMS
from coordinator_server.core.groups.explain import Absence, Dropped, Trigger, caused_by
from protocol.apis.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.coordinator_errors import client_error
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.classic.metadata import GroupMetadata
    from coordinator_server.core.groups.effects import Effects, Reply
    from coordinator_server.core.groups.settings import GroupSettings
    from coordinator_server.steps import Steps

MEMBER_ID_REQUIRED_SINCE = 4
SKIP_ASSIGNMENT_SINCE = 9


def validate(request: JoinGroupRequest, _: Caller, settings: GroupSettings) -> ErrorCode:
    """Refuse an empty group id, or a session timeout outside the (inclusive) bounds."""
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    least_ms, most_ms = settings.min_session_timeout_ms, settings.max_session_timeout_ms
    if not least_ms <= request.session_timeout_ms <= most_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return ErrorCode.NONE


def refuse(request: JoinGroupRequest, caller: Caller, error: ErrorCode) -> JoinGroupResponse:
    """Return a JoinGroup response with `error` and the member id of the request."""
    return join_error(request.member_id, error, caller.api_version)


def missing(request: JoinGroupRequest, caller: Caller) -> JoinGroupResponse:
    """Return UNKNOWN_MEMBER_ID for a missing group."""
    return refuse(request, caller, ErrorCode.UNKNOWN_MEMBER_ID)


def wrong_kind(_: JoinGroupRequest, caller: Caller) -> JoinGroupResponse:
    """Return INCONSISTENT_GROUP_PROTOCOL for a group that classic members cannot join."""
    return join_error("", ErrorCode.INCONSISTENT_GROUP_PROTOCOL, caller.api_version)


def creates_group(request: JoinGroupRequest) -> bool:
    """Return whether the request creates a missing group: requests without a member id do."""
    return not request.member_id


class Join:
    """A JoinGroup in progress: the request, its reply, and its protocols."""

    __slots__ = ("api_version", "caller", "protocols", "reply", "request")

    def __init__(
        self,
        request: JoinGroupRequest,
        reply: Reply[JoinGroupResponse],
        protocols: Protocols,
    ) -> None:
        self.request = request
        self.reply = reply
        self.protocols = protocols
        self.caller = reply.caller
        self.api_version = reply.caller.api_version

    @property
    def rebalance_timeout_ms(self) -> int:
        """The rebalance timeout in ms; v0 has no such field and uses the session timeout."""
        if self.api_version == 0:
            return self.request.session_timeout_ms
        return self.request.rebalance_timeout_ms


def join(
    group: GroupMetadata,
    request: JoinGroupRequest,
    reply: Reply[JoinGroupResponse],
    now_ms: int,
    effects: Effects,
) -> Steps:
    """Handle a JoinGroup that passed `validate`; the request is answered now or parked."""
    serve(group, Join(request, reply, (yield from listed_protocols(request))), now_ms, effects)


def listed_protocols(request: JoinGroupRequest) -> Generator[None, None, Protocols]:
    """Return the protocols of a request, read in steps."""
    listed: list[tuple[str, bytes]] = []
    for number, protocol in enumerate(request.protocols, start=1):
        listed.append((protocol.name, bytes(protocol.metadata)))
        if not number % STEP_ITEMS:
            yield
    return shared_protocols(tuple(listed))


def serve(group: GroupMetadata, one_join: Join, now_ms: int, effects: Effects) -> None:
    """Handle a JoinGroup to a classic group."""
    request, reply = one_join.request, one_join.reply
    if group.is_new:
        _record_new_group(group, effects)
    error = _check(group, one_join)
    if error is not ErrorCode.NONE:
        echoed = "" if error is ErrorCode.GROUP_MAX_SIZE_REACHED else request.member_id
        effects.reply(reply, join_error(echoed, error, one_join.api_version))
        return
    member_id = request.member_id
    if not member_id:
        _join_unknown(group, one_join, now_ms, effects)
    elif member_id in group.membership.pending:
        if request.group_instance_id is not None:
            # Kafka throws here: only dynamic members first get a member id and then join with it.
            error = ErrorCode.UNKNOWN_SERVER_ERROR
            effects.reply(reply, join_error("", error, one_join.api_version))
            return
        _add(group, member_id, one_join, now_ms, effects)
    else:
        _join_known(group, one_join, now_ms, effects)


def _record_new_group(group: GroupMetadata, effects: Effects) -> None:
    """Record a new group at once, even if the join is then refused."""
    group.is_new = False
    effects.event("group.created", group=group.group_id)
    effects.write([group.record()])


def _check(group: GroupMetadata, join: Join) -> ErrorCode:
    """Return the error of the request, or NONE; a member beyond `group.max.size` is removed."""
    request = join.request
    member_id = request.member_id
    if not _has_room(group, member_id):
        # As in Kafka, the removal does not complete the join phase, even if all remaining members
        # have joined.
        _forget(group, member_id)
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if not _fits(group, join):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if member_id and member_id not in group.membership.pending:
        return group.check_member(member_id, request.group_instance_id)
    return ErrorCode.NONE


def _has_room(group: GroupMetadata, member_id: str) -> bool:
    """Return whether `group.max.size` admits the member.

    In PreparingRebalance only the members that have rejoined count, so a group above the limit
    loses the last members to rejoin.
    """
    membership = group.membership
    if group.state is EMPTY:
        return True
    member = membership.members.get(member_id)
    if group.state is PREPARING_REBALANCE:
        already_waits = member is not None and member.awaiting_join is not None
        return already_waits or membership.awaiting_join < group.settings.max_size
    return member is not None or len(membership.members) < group.settings.max_size


def _forget(group: GroupMetadata, member_id: str) -> None:
    """Remove the pending member id or member that `_has_room` refused.

    A member is refused only in PreparingRebalance, and has no parked requests.
    """
    pending = group.membership.pending.pop(member_id, None)
    if pending is not None:
        group.purgatory.cancel(pending)
    member = group.membership.members.get(member_id)
    if member is not None:
        assert group.rebalance is not None
        group.rebalance.dropped.append(Dropped.of(Absence.NO_ROOM, member))
        group.purgatory.cancel(member.session)
        group.membership.remove(member)


def _fits(group: GroupMetadata, join: Join) -> bool:
    """Return whether protocol type and at least one listed protocol suit all members."""
    protocol_type = join.request.protocol_type
    if group.state is EMPTY:
        return bool(protocol_type) and bool(join.protocols)
    if protocol_type != group.protocol_type or not join.protocols:
        return False
    membership = group.membership
    return not membership.members or membership.supports_any(name for name, _ in join.protocols)


def requires_known_id(request: JoinGroupRequest, api_version: int) -> bool:
    """Return whether a new member must first get a member id (KIP-394); False if static."""
    return (
        not request.member_id
        and request.group_instance_id is None
        and api_version >= MEMBER_ID_REQUIRED_SINCE
    )


def _join_unknown(group: GroupMetadata, join: Join, now_ms: int, effects: Effects) -> None:
    """Handle a join without a member id, by a static member or a new member (KIP-394)."""
    request, caller = join.request, join.caller
    instance_id = request.group_instance_id
    prefix = (caller.client_id or "") if instance_id is None else instance_id
    new_member_id = group.new_member_id(prefix)
    if instance_id is not None:
        existing = group.membership.static_ids.get(instance_id)
        if existing is not None:
            member = group.membership.members[existing]
            _replace_static(group, member, new_member_id, join, now_ms, effects)
            return
    elif requires_known_id(request, caller.api_version):
        pending = group.membership.pending[new_member_id] = DelayedHeartbeat(new_member_id)
        group.purgatory.schedule(pending, now_ms + request.session_timeout_ms)
        error = ErrorCode.MEMBER_ID_REQUIRED
        effects.reply(join.reply, join_error(new_member_id, error, caller.api_version))
        return
    _add(group, new_member_id, join, now_ms, effects)


def _add(group: GroupMetadata, member_id: str, join: Join, now_ms: int, effects: Effects) -> None:
    """Add a new member, whose request stays parked until the join phase ends."""
    request, caller, membership = join.request, join.caller, group.membership
    pending = membership.pending.pop(member_id, None)
    if pending is not None:
        group.purgatory.cancel(pending)
    member = MemberMetadata(
        member_id,
        group_instance_id=request.group_instance_id,
        client_id=intern(caller.client_id or ""),
        client_host=intern(caller.client_host),
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=join.protocols,
    )
    member.is_new = True
    if isinstance(group.join_operation, InitialDelayedJoin):
        group.join_operation.member_added = True
    if not membership.members:
        group.protocol_type = intern(request.protocol_type)
    membership.add(member)
    membership.park_join(member, join.reply)
    # A new member cannot send heartbeats, because it learns its id only from the JoinGroup
    # response. Until then, this timeout replaces its session timeout.
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


def _join_known(group: GroupMetadata, join: Join, now_ms: int, effects: Effects) -> None:
    """Handle the join of a known member; start a rebalance only if the join requires one."""
    request = join.request
    member = group.membership.members[request.member_id]
    is_leader = group.membership.leader_id == member.member_id
    changed = member.protocols != join.protocols
    state = group.state
    if state is STABLE and is_leader:
        trigger = Trigger.LEADER_REJOINED
    elif changed or state is PREPARING_REBALANCE:
        trigger = Trigger.METADATA_CHANGED
    else:
        # The member may have missed the response, so send the current generation again.
        show_members = is_leader and state is COMPLETING_REBALANCE
        members = members_for_leader(group) if show_members else []
        effects.reply(join.reply, join_response(group, member, members))
        return
    _update(group, member, join, effects)
    prepare_or_complete(group, caused_by(trigger, member, request.reason), now_ms, effects)


def _replace_static(
    group: GroupMetadata,
    member: MemberMetadata,
    new_member_id: str,
    join: Join,
    now_ms: int,
    effects: Effects,
) -> None:
    """Replace a restarted static member: it gets a new member id, and the old id is fenced."""
    old_member_id, old_leader_id = member.member_id, group.membership.leader_id
    before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
    refuse_parked(group, member, ErrorCode.FENCED_INSTANCE_ID, effects)
    _rename(group, member, new_member_id)
    # As in Kafka, the session timeout of the request applies from the next renewal on.
    group.renew_session(member, now_ms)
    _update(group, member, join, effects)
    effects.event(
        "member.replaced",
        group=group.group_id,
        member=new_member_id,
        replaced=old_member_id,
        instance=member.group_instance_id,
    )
    if group.state is not STABLE or group.membership.selected_protocol() != group.protocol_name:
        # In CompletingRebalance the leader may already be computing an assignment for the old
        # member id.
        cause = caused_by(Trigger.MEMBER_REPLACED, member, join.request.reason)
        prepare_or_complete(group, cause, now_ms, effects)
        return

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if group.state is not STABLE or member.awaiting_join is not join.reply:
            # A newer rebalance has started, which answers the request and records the new id.
            return
        group.membership.take_join(member)
        if error is ErrorCode.NONE:
            _answer_replaced(group, member, join, old_leader_id, effects)
            return
        _rename(group, member, old_member_id)
        group.membership.set_protocols(member, before[0])
        member.rebalance_timeout_ms, member.session_timeout_ms = before[1:]
        group.renew_session(member, now_ms)
        effects.reply(join.reply, join_error("", client_error(error), join.api_version))

    effects.write([group.record()], done)


def _answer_replaced(
    group: GroupMetadata,
    member: MemberMetadata,
    join: Join,
    old_leader_id: str | None,
    effects: Effects,
) -> None:
    """Answer a static member that was replaced in a Stable group.

    The member must not compute assignments again if it is the leader. Since v9 the response has
    skip_assignment; before v9, the response names the old id as the leader, so that the member
    acts as a follower and only syncs (KIP-814).
    """
    is_leader = group.membership.leader_id == member.member_id
    if join.api_version >= SKIP_ASSIGNMENT_SINCE:
        members = members_for_leader(group) if is_leader else []
        response = join_response(group, member, members, skip_assignment=is_leader)
    else:
        response = join_response(group, member, [], leader_id=old_leader_id)
    effects.reply(join.reply, response)


def _rename(group: GroupMetadata, member: MemberMetadata, member_id: str) -> None:
    """Change the member id of a static member; the caller has to restart the session."""
    group.purgatory.cancel(member.session)
    if group.awaited_syncs is not None and member.member_id in group.awaited_syncs:
        group.awaited_syncs.remove(member.member_id)
        group.awaited_syncs.add(member_id)
    group.membership.rename(member, member_id)
    member.session = DelayedHeartbeat(member_id)


def _update(group: GroupMetadata, member: MemberMetadata, join: Join, effects: Effects) -> None:
    """Update the member from the request, and park the request."""
    if member.protocols != join.protocols:
        group.membership.set_protocols(member, join.protocols)
    member.rebalance_timeout_ms = join.rebalance_timeout_ms
    member.session_timeout_ms = join.request.session_timeout_ms
    replaced = group.membership.park_join(member, join.reply)
    if replaced is not None:
        # The member has sent a newer JoinGroup on another connection: answer the older one.
        error = ErrorCode.REBALANCE_IN_PROGRESS
        effects.reply(replaced, join_error(member.member_id, error, replaced.caller.api_version))


JOIN_GROUP = GroupApi(
    request_type=JoinGroupRequest,
    serve=join,
    refuse=refuse,
    missing=missing,
    wrong_kind=wrong_kind,
    validate=validate,
    creates_group=creates_group,
)
