"""The phases of a rebalance, and the delayed operations that drive them.

In PreparingRebalance all members are asked to rejoin. The join phase ends when all members have
joined or its timer expires; then a new generation starts, and all members sync. A function that
writes a record returns the Write, so that a request can wait for the write. Source:
GroupMetadataManager (classic part), KIP-134, KIP-394.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.groups.classic.responses import (
    join_error,
    join_response,
    members_for_leader,
    sync_error,
)
from coordinator_server.core.groups.classic.state import (
    ASSIGNED,
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    REBALANCEABLE,
)
from coordinator_server.core.groups.explain import (
    Absence,
    Cause,
    Dropped,
    Rebalance,
    RebalanceOutcome,
    Trigger,
    caused_by,
)
from coordinator_server.core.groups.purgatory import DelayedOperation
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coordinator_server.core.groups.classic.member import MemberMetadata
    from coordinator_server.core.groups.classic.metadata import GroupMetadata
    from coordinator_server.core.groups.effects import Effects, Write
    from protocol.apis.sync_group import SyncGroupResponse

POSTPONE_FLOOR_MS = 100
"""The shortest extension of a join phase without joined members, in ms."""


class DelayedJoin(DelayedOperation["GroupMetadata"]):
    """The join phase, which ends when all members have joined, or at the rebalance timeout."""

    __slots__ = ()

    def try_complete(self, group: GroupMetadata, now_ms: int, effects: Effects) -> Write | None:
        """End the join phase if all members have joined."""
        if group.membership.all_joined:
            return complete_join(group, now_ms, effects)
        return None

    def on_expiration(self, group: GroupMetadata, now_ms: int, effects: Effects) -> None:
        """End the join phase without the missing members."""
        complete_join(group, now_ms, effects)


class InitialDelayedJoin(DelayedJoin):
    """The first join phase of an Empty group, which waits for more members (KIP-134).

    The phase lasts one initial rebalance delay, extended by another delay as long as new members
    join, up to the rebalance timeout of the first member. Neither joins nor leaves end the phase
    early.
    """

    __slots__ = ("delay_ms", "member_added", "remaining_ms")

    def __init__(self, delay_ms: int, remaining_ms: int) -> None:
        super().__init__()
        self.delay_ms = delay_ms
        self.remaining_ms = remaining_ms
        self.member_added = False

    def try_complete(self, group: GroupMetadata, now_ms: int, effects: Effects) -> Write | None:
        """Return None: the initial delay never ends early."""
        return None

    def on_expiration(self, group: GroupMetadata, now_ms: int, effects: Effects) -> None:
        """Extend the phase if a new member has joined, else end it."""
        if not self.member_added or not self.remaining_ms:
            complete_join(group, now_ms, effects)
            return
        self.member_added = False
        delay_ms = min(group.settings.initial_rebalance_delay_ms, self.remaining_ms)
        self.remaining_ms = max(self.remaining_ms - self.delay_ms, 0)
        self.delay_ms = delay_ms
        group.purgatory.schedule(self, now_ms + delay_ms)


class DelayedSync(DelayedOperation["GroupMetadata"]):
    """Removes members that do not sync within the rebalance timeout."""

    __slots__ = ()

    def on_expiration(self, group: GroupMetadata, now_ms: int, effects: Effects) -> None:
        """Remove the members that have not synced, and rebalance."""
        assert group.state in ASSIGNED
        timeout_ms = group.membership.rebalance_timeout_ms
        assert group.awaited_syncs is not None
        missing = [group.membership.members[member_id] for member_id in sorted(group.awaited_syncs)]
        for member in missing:
            remove_member(group, member, effects)
            effects.event(
                "member.dropped",
                group=group.group_id,
                member=member.member_id,
                reason=Absence.NEVER_SYNCED.value,
            )
        cause = caused_by(Trigger.MEMBER_NEVER_SYNCED, missing[0], timeout_ms=timeout_ms)
        dropped = [Dropped.of(Absence.NEVER_SYNCED, member) for member in missing]
        prepare_rebalance(group, cause, now_ms, effects, dropped=dropped)


def prepare_or_complete(
    group: GroupMetadata, cause: Cause, now_ms: int, effects: Effects
) -> Write | None:
    """Start a rebalance; if one is running, end its join phase once all members have joined."""
    if group.state in REBALANCEABLE:
        return prepare_rebalance(group, cause, now_ms, effects)
    assert group.rebalance is not None
    group.rebalance.member_joined(cause, now_ms)
    return try_complete_join(group, now_ms, effects)


def prepare_rebalance(
    group: GroupMetadata,
    cause: Cause,
    now_ms: int,
    effects: Effects,
    *,
    also: Sequence[Cause] = (),
    dropped: Sequence[Dropped] = (),
) -> Write | None:
    """Ask all members to rejoin because of `cause` and the simultaneous causes in `also`."""
    if group.state is COMPLETING_REBALANCE:
        drop_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms, effects)
    group.purgatory.cancel(group.sync_operation)
    rebalance = _open_account(group, cause, now_ms, effects)
    rebalance.members_lost(also, now_ms)
    rebalance.dropped.extend(dropped)
    effects.event(
        "group.rebalancing",
        group=group.group_id,
        generation=group.generation_id,
        state=group.state,
        trigger=cause.trigger.value,
        member=cause.member_id,
        reason=cause.reason,
    )
    timeout_ms = group.membership.rebalance_timeout_ms
    was_empty = group.state is EMPTY
    group.transition_to(PREPARING_REBALANCE, now_ms)
    if was_empty:
        delay_ms = group.settings.initial_rebalance_delay_ms
        initial = InitialDelayedJoin(delay_ms, max(timeout_ms - delay_ms, 0))
        _set_join_operation(group, initial, now_ms + delay_ms)
        return None
    _set_join_operation(group, DelayedJoin(), now_ms + timeout_ms)
    return try_complete_join(group, now_ms, effects)


def _open_account(group: GroupMetadata, cause: Cause, now_ms: int, effects: Effects) -> Rebalance:
    """Start the report of a rebalance; close the report of a superseded rebalance."""
    overtaken = group.rebalance
    recorded = group.recorded if group.state is not EMPTY else None
    # A superseded rebalance never sent its assignment, so its `before` is the last assignment that
    # members received.
    before = recorded if overtaken is None else overtaken.before
    if overtaken is not None:
        effects.explain(overtaken.end(RebalanceOutcome.SUPERSEDED, group.protocol_type, now_ms))
    group.rebalance = Rebalance(cause, group.generation_id, before, now_ms)
    return group.rebalance


def try_complete_join(group: GroupMetadata, now_ms: int, effects: Effects) -> Write | None:
    """End the join phase if its operation is complete."""
    operation = group.join_operation
    assert operation is not None
    return operation.try_complete(group, now_ms, effects)


def complete_join(group: GroupMetadata, now_ms: int, effects: Effects) -> Write | None:
    """End the join phase: start a generation, become Empty, or extend the wait.

    The wait is extended while only static members are left and none of them has joined.
    """
    membership, rebalance = group.membership, group.rebalance
    assert rebalance is not None
    if isinstance(group.join_operation, InitialDelayedJoin):
        rebalance.delay_ended_ms = now_ms
    _drop_stragglers(group, rebalance, effects)
    if membership.members and not membership.elect_joined_leader():
        # Only static members are left, and none has rejoined: they stay until their sessions
        # expire.
        delay_ms = max(membership.rebalance_timeout_ms, POSTPONE_FLOOR_MS)
        _set_join_operation(group, DelayedJoin(), now_ms + delay_ms)
        return None
    _set_join_operation(group, None, now_ms)
    group.generation_id += 1
    group.awaited_syncs = None
    if not membership.members:
        return _become_empty(group, rebalance, now_ms, effects)
    group.protocol_name = membership.selected_protocol()
    group.refresh_subscriptions()
    group.transition_to(COMPLETING_REBALANCE, now_ms)
    rebalance.join_phase_ended(
        group.generation_id,
        len(membership.members),
        membership.leader_id,
        group.protocol_name,
        now_ms,
    )
    effects.event(
        "generation.started",
        group=group.group_id,
        generation=group.generation_id,
        members=len(membership.members),
        leader=membership.leader_id,
    )
    _answer_joins(group, now_ms, effects)
    group.awaited_syncs = set(membership.members)
    group.purgatory.schedule(group.sync_operation, now_ms + membership.rebalance_timeout_ms)
    return None


def drop_assignment(group: GroupMetadata, error: ErrorCode, now_ms: int, effects: Effects) -> None:
    """Clear all assignments, and answer the parked SyncGroups with `error`."""
    for member in group.membership.members.values():
        member.assignment = b""
        answer_sync(group, member, sync_error(error), now_ms, effects)


def answer_sync(
    group: GroupMetadata,
    member: MemberMetadata,
    response: SyncGroupResponse,
    now_ms: int,
    effects: Effects,
) -> None:
    """Answer a member's parked SyncGroup, if there is one, and renew the member's session."""
    reply = member.awaiting_sync
    if reply is not None:
        member.awaiting_sync = None
        effects.reply(reply, response)
        group.renew_session(member, now_ms)


def remove_member(group: GroupMetadata, member: MemberMetadata, effects: Effects) -> None:
    """Remove a member; its parked requests are answered with UNKNOWN_MEMBER_ID.

    Kafka leaves a parked SyncGroup unanswered in this case; this broker answers
    (docs/coordinator.md).
    """
    joining = group.membership.take_join(member)
    if joining is not None:
        error = join_error("", ErrorCode.UNKNOWN_MEMBER_ID, joining.caller.api_version)
        effects.reply(joining, error)
    if member.awaiting_sync is not None:
        effects.reply(member.awaiting_sync, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        member.awaiting_sync = None
    group.purgatory.cancel(member.session)
    group.await_no_sync(member.member_id)
    group.membership.remove(member)


def members_lost(
    group: GroupMetadata, causes: Sequence[Cause], now_ms: int, effects: Effects
) -> Write | None:
    """Start a rebalance after members have left, or end the join phase if it is complete."""
    if group.state in ASSIGNED:
        return prepare_rebalance(group, causes[0], now_ms, effects, also=causes[1:])
    if group.state is PREPARING_REBALANCE:
        assert group.rebalance is not None
        group.rebalance.members_lost(causes, now_ms)
        return try_complete_join(group, now_ms, effects)
    return None


def session_expired(group: GroupMetadata, member_id: str, now_ms: int, effects: Effects) -> None:
    """Handle the expiry of a member's session or of a pending member id."""
    assert group.state is not DEAD
    membership = group.membership
    if membership.pending.pop(member_id, None) is not None:
        effects.event("member_id.expired", group=group.group_id, member=member_id)
        if group.state is PREPARING_REBALANCE:
            assert group.rebalance is not None
            group.rebalance.dropped.append(Dropped(Absence.ID_NEVER_USED, member_id))
    else:
        member = membership.members[member_id]
        if member.cannot_expire:
            return
        effects.event(
            "member.expired",
            group=group.group_id,
            member=member_id,
            client_host=member.client_host,
            session_timeout_ms=member.session_timeout_ms,
        )
        remove_member(group, member, effects)
        timeout_ms = member.session_timeout_ms
        if member.is_new:
            timeout_ms = group.settings.new_member_join_timeout_ms
        cause = caused_by(Trigger.MEMBER_EXPIRED, member, timeout_ms=timeout_ms)
        if group.state in ASSIGNED:
            prepare_rebalance(group, cause, now_ms, effects)
            return
        assert group.rebalance is not None
        group.rebalance.members_lost((cause,), now_ms)
        group.rebalance.dropped.append(Dropped.of(Absence.SESSION_EXPIRED, member))
    # After an expiry, the join phase ends at once if all members have joined, even during the
    # initial rebalance delay. A LeaveGroup does not end this delay.
    if group.state is PREPARING_REBALANCE and membership.all_joined:
        complete_join(group, now_ms, effects)


def _set_join_operation(
    group: GroupMetadata, operation: DelayedJoin | None, deadline_ms: int
) -> None:
    if group.join_operation is not None:
        group.purgatory.cancel(group.join_operation)
    group.join_operation = operation
    if operation is not None:
        group.purgatory.schedule(operation, deadline_ms)


def _drop_stragglers(group: GroupMetadata, rebalance: Rebalance, effects: Effects) -> None:
    """Remove dynamic members that have not rejoined; static members stay until they expire."""
    stragglers = [
        member
        for member in group.membership.members.values()
        if member.awaiting_join is None and not member.is_static
    ]
    for member in stragglers:
        remove_member(group, member, effects)
        rebalance.dropped.append(Dropped.of(Absence.NOT_REJOINED, member))
        effects.event(
            "member.dropped",
            group=group.group_id,
            member=member.member_id,
            reason=Absence.NOT_REJOINED.value,
        )


def _become_empty(
    group: GroupMetadata, rebalance: Rebalance, now_ms: int, effects: Effects
) -> Write:
    """Record the empty generation after the last member has left."""
    group.protocol_name = None
    group.refresh_subscriptions()
    group.transition_to(EMPTY, now_ms)
    group.rebalance = None
    effects.explain(
        rebalance.end(
            RebalanceOutcome.EMPTY, group.protocol_type, now_ms, generation=group.generation_id
        )
    )
    return effects.write([group.record()])


def _answer_joins(group: GroupMetadata, now_ms: int, effects: Effects) -> None:
    """Answer the parked JoinGroups with the new generation, and renew all sessions."""
    membership = group.membership
    for member in membership.members.values():
        reply = membership.take_join(member)
        if reply is not None:
            is_leader = member.member_id == membership.leader_id
            members = members_for_leader(group) if is_leader else []
            effects.reply(reply, join_response(group, member, members))
        group.renew_session(member, now_ms)
        member.is_new = False
