"""Watches a group while it works: sessions, phases, timers, and every response as it is created.

The referee keeps its own books (the members and their session ends, the ids given out, the ends of
phases, the assignments of the leader) and compares them with the group after every call into the
coordinator code, not only after every step. Each response is compared with the result that `judge`
expects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.core.groups.classic.state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    GroupState,
)
from protocol.apis.heartbeat import HeartbeatRequest
from protocol.apis.join_group import JoinGroupRequest
from protocol.apis.leave_group import LeaveGroupRequest
from protocol.apis.offset_commit import OffsetCommitRequest
from protocol.apis.sync_group import SyncGroupRequest
from protocol.errors import ErrorCode
from protocol.offsets_log import GroupMetadataValue
from tests.harness.one_group import Answer, OneGroupBroker, Watcher, next_deadline_ms
from tests.sim import answers
from tests.sim.answers import Ask, Window
from tests.sim.judge import Facts, Wait, judge, judge_leave
from tests.sim.votes import elected, readable_topics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.classic.member import MemberMetadata
    from coordinator_server.core.groups.classic.metadata import GroupMetadata
    from coordinator_server.core.groups.records import CoordinatorRecord
    from protocol.schema import Message

E = ErrorCode
ALONE_MS = 100
"""The time in ms between checks of a join phase with only absent static members."""


class Seen(NamedTuple):
    """The state of a member after the last call into the coordinator code."""

    is_static: bool
    waits_for_join: bool
    waits_for_sync: bool
    is_new: bool

    @classmethod
    def of(cls, member: MemberMetadata) -> Seen:
        """Return a copy of the member's present state."""
        return cls(
            member.group_instance_id is not None,
            member.awaiting_join is not None,
            member.awaiting_sync is not None,
            member.is_new,
        )


class Initial:
    """The first join phase of an Empty group, as KIP-134 defines it."""

    def __init__(self, delay_ms: int, rebalance_ms: int) -> None:
        self.step_ms = delay_ms
        self.left_ms = max(rebalance_ms - delay_ms, 0)
        self.somebody_came = False

    def next_ms(self, delay_ms: int) -> int | None:
        """Return the next delay in ms; None when the phase is over."""
        if not self.somebody_came or self.left_ms == 0:
            return None
        self.somebody_came = False
        wait_ms = min(delay_ms, self.left_ms)
        self.left_ms = max(self.left_ms - self.step_ms, 0)
        self.step_ms = wait_ms
        return wait_ms


class Referee(Watcher):
    """Records the expected state of one broker's group, and compares it with the group."""

    def __init__(self, broker: OneGroupBroker) -> None:
        self.broker = broker
        broker.watcher = self
        self.forget()

    def forget(self) -> None:
        """Forget the expected state: the next group is another group, or there is none."""
        self.group: GroupMetadata | None = None
        self.generation = 0
        self.sessions: dict[str, int] = {}
        """Member id -> end of its session, unless a parked request keeps the session alive."""
        self.pending: dict[str, int] = {}
        """Member id given out -> end of its validity."""
        self.awaited: set[str] = set()
        self.members: dict[str, Seen] = {}
        self.former: dict[str, str] = {}
        """New id of a static member -> its old one."""
        self.leader: str | None = None
        self.leaving: set[str] = set()
        self.join_ends_ms = 0
        self.initial: Initial | None = None
        self.sync_ends_ms = 0
        self.may_be_complete = False
        self.assigned: dict[int, dict[str, bytes]] = {}
        """Generation -> the assignments sent by its leader."""
        self.moves: list[tuple[GroupState, GroupState]] = []
        self.failures: set[ErrorCode] = set()
        self.looked_at = 0
        self.join_time_is_up = False
        self.were_awaited: set[str] = set()
        self.somebody_expired = False

    # Broker callbacks

    def asked(self, answer: Answer, caller: Caller) -> None:
        """Judge a request before the group sees it."""
        group = self.broker.group
        if group is not None and group.is_new and group is not self.group:
            group = None  # this request recreated the group; the previous group no longer exists
        if group is not self.group:
            assert group is None
            self.forget()
        facts = Facts.of(group)
        request: Any = answer.request
        version = caller.api_version
        ask = Ask(judge(facts, request, version, self.broker.settings), facts, version)
        if isinstance(request, LeaveGroupRequest) and ask.verdict is E.NONE:
            ask.leave_errors, ask.leaving = judge_leave(facts, request, version)
        if ask.verdict is Wait.REPLACE:
            ask.replaced = facts.owner(request.group_instance_id)
            assert ask.replaced is not None
            ask.session_ms = facts.members[ask.replaced].session_timeout_ms
        answer.note = ask

    def refused(self, answer: Answer, response: Message) -> None:
        """Check a response that the coordinator sent without passing the request to the group."""
        answers.check(answer, response, Window(None, answer, [], set(), self.assignment_of))

    def handled(self, answer: Answer) -> None:
        """Compare the group with the expected state after the group has handled a request."""
        self.group = self.broker.group
        self._look(answer)

    def timers_ran(self) -> None:
        """Compare the group with the expected state after timers have run."""
        self._look(None, timers=True)
        group, now_ms = self.broker.group, self.broker.now_ms
        assert group is not None
        assert (next_deadline_ms(group.purgatory) or now_ms + 1) > now_ms, "a timer does not run"

    def settled(self) -> None:
        """Compare the group with the expected state after a batch of queued requests."""
        self._look(None)
        self.failures = set()
        self.looked_at = 0  # the broker now sends the responses of this batch

    def appended(self, records: Sequence[CoordinatorRecord], error: ErrorCode) -> None:
        """Check that the assignments in the log are those that the generation's leader sent."""
        if error is not E.NONE:
            self.failures.add(error)
            return
        for _, value in records:
            if isinstance(value, GroupMetadataValue):
                for one in value.members:
                    expected = self.assignment_of(value.generation, one.member_id)
                    assert one.assignment == expected, "an assignment that nobody made is recorded"

    def moved(self, group: GroupMetadata, source: GroupState, target: GroupState) -> None:
        """Check that a generation begins exactly when a join phase ends."""
        ended = source is PREPARING_REBALANCE and target in (COMPLETING_REBALANCE, EMPTY)
        self.generation += ended
        assert group.generation_id == self.generation, f"{source} -> {target}: generation"
        self.moves.append((source, target))
        members, settings = group.membership.members.values(), self.broker.settings
        wait_ms = max((one.rebalance_timeout_ms for one in members), default=0)
        if target is COMPLETING_REBALANCE:
            self.sync_ends_ms = self.broker.now_ms + wait_ms
            self.were_awaited |= group.membership.members.keys()
        elif target is PREPARING_REBALANCE:
            self.initial = None
            if source is EMPTY:
                self.initial = Initial(settings.initial_rebalance_delay_ms, wait_ms)
                wait_ms = settings.initial_rebalance_delay_ms
            self.join_ends_ms = self.broker.now_ms + wait_ms

    def loading(self, group: GroupMetadata) -> None:
        """Forget the expected state before the group is loaded from its log."""
        self.forget()
        self.group = group
        recorded = group.recorded
        if recorded is not None:
            self.generation = recorded.generation
            given = {one.member_id: one.assignment for one in recorded.members}
            self.assigned[recorded.generation] = given

    def loaded(self) -> None:
        """Start a whole session for every member of the loaded group."""
        group, now_ms = self.broker.group, self.broker.now_ms
        assert group is not None
        for member in group.membership.members.values():
            self.sessions[member.member_id] = now_ms + member.session_timeout_ms
        self._look(None)

    def assignment_of(self, generation: int, member_id: str) -> bytes:
        """Return a member's assignment from its leader, also if the member had another id then."""
        given = self.assigned.get(generation, {})
        while member_id not in given and member_id in self.former:
            member_id = self.former[member_id]
        return given.get(member_id, b"")

    # Bookkeeping

    def _look(self, answer: Answer | None, *, timers: bool = False) -> None:
        """Update the expected state after a call into the coordinator code, and compare."""
        group, broker = self.broker.group, self.broker
        self.join_time_is_up = timers and self.join_ends_ms <= broker.now_ms
        assert group is not None
        assert broker.task is not None
        made = broker.task.effects.made
        replies = made[self.looked_at :]
        self.looked_at = len(made)
        self.leaving = set()
        if answer is not None:
            self._take_in(group, answer, answers.member_id_of(answer, group, replies))
        self._follow_moves(group)
        window = Window(
            group,
            answer,
            self.moves,
            self.failures,
            self.assignment_of,
            # With a batch limit, no single commit is too large.
            may_be_too_large=broker.batch_limit is None,
        )
        for reply, response in replies:
            answers.check(reply, response, window)
            self._renew_synced(group, reply, window)
        if answer is not None:
            answers.check_waiting(answer, replies)
        joined = answers.joined(replies)
        self._compare_members(group, joined)
        self._compare_join_phase(group, answer, joined)
        self._compare_timers(group)
        self.members = {one: Seen.of(member) for one, member in group.membership.members.items()}
        self.moves = []
        self.were_awaited = set(self.awaited)

    def _take_in(self, group: GroupMetadata, answer: Answer, member_id: str) -> None:
        """Update the expected state with the direct effects of a request."""
        request, ask, now_ms = answer.request, answer.note, self.broker.now_ms
        member = group.membership.members.get(member_id)
        match request:
            case JoinGroupRequest():
                self._take_in_join(request, ask, member_id)
            case HeartbeatRequest() if ask.verdict in (E.NONE, E.REBALANCE_IN_PROGRESS):
                assert member is not None
                self.sessions[member_id] = now_ms + member.session_timeout_ms
            case OffsetCommitRequest() if ask.verdict is Wait.WRITE and answers.stores(request):
                if ask.state in (STABLE, PREPARING_REBALANCE):
                    assert member is not None
                    self.sessions[member_id] = now_ms + member.session_timeout_ms
            case SyncGroupRequest() if ask.verdict in (E.NONE, Wait.SYNC):
                self.awaited.discard(member_id)
                if ask.verdict is Wait.SYNC and ask.leader == member_id:
                    given = {one.member_id: bytes(one.assignment) for one in request.assignments}
                    self.assigned.setdefault(request.generation_id, given)
            case LeaveGroupRequest():
                self.leaving = ask.leaving
                for one in ask.leaving:
                    self.pending.pop(one, None)

    def _take_in_join(self, request: JoinGroupRequest, ask: Ask, member_id: str) -> None:
        now_ms = self.broker.now_ms
        if ask.verdict is E.MEMBER_ID_REQUIRED:
            self.pending[member_id] = now_ms + request.session_timeout_ms
        elif ask.verdict is E.GROUP_MAX_SIZE_REACHED:
            self.pending.pop(request.member_id, None)
            self.leaving = {request.member_id}
            self.may_be_complete = True  # as in Kafka, the refusal does not complete the join phase
        elif ask.verdict is Wait.JOIN:
            self.pending.pop(request.member_id, None)
            if member_id not in self.sessions:
                wait_ms = self.broker.settings.new_member_join_timeout_ms
                self.sessions[member_id] = now_ms + wait_ms
                if self.initial is not None and ask.state is PREPARING_REBALANCE:
                    self.initial.somebody_came = True
        elif ask.verdict is Wait.REPLACE:
            old_id = ask.replaced
            assert old_id is not None
            assert ask.session_ms is not None
            self.former[member_id] = old_id
            self.sessions.pop(old_id)
            self.sessions[member_id] = now_ms + ask.session_ms
            self.members[member_id] = self.members.pop(old_id)._replace(waits_for_join=True)
            if old_id in self.awaited:
                self.awaited = self.awaited - {old_id} | {member_id}
            if self.leader == old_id:
                self.leader = member_id

    def _follow_moves(self, group: GroupMetadata) -> None:
        now_ms = self.broker.now_ms
        for _, target in self.moves:
            if target is COMPLETING_REBALANCE:
                for member in group.membership.members.values():
                    self.sessions[member.member_id] = now_ms + member.session_timeout_ms
                self.awaited = set(group.membership.members)
            elif target is EMPTY:
                self.awaited = set()
            elif target is DEAD:
                self.pending = {}
        if self.moves and self.moves[-1][1] is COMPLETING_REBALANCE:
            members = group.membership.members.values()
            assert group.protocol_name in elected(one.protocols for one in members), "the vote"
            if group.protocol_type == "consumer":
                said = [dict(reversed(one.protocols))[group.protocol_name] for one in members]
                assert group.subscribed_topics == readable_topics(said), "subscriptions"

    def _renew_synced(self, group: GroupMetadata, reply: Answer, window: Window) -> None:
        """Restart the session when a parked SyncGroup is answered, unless it was repeated."""
        request = reply.request
        if not isinstance(request, SyncGroupRequest) or reply is window.answer:
            return
        member = group.membership.members.get(request.member_id)
        if reply.note.verdict is not Wait.SYNC or answers.is_repeated(reply, window):
            return
        if member is not None:
            self.sessions[member.member_id] = self.broker.now_ms + member.session_timeout_ms

    # Comparison

    def _compare_members(self, group: GroupMetadata, joined: set[str]) -> None:
        membership, now_ms = group.membership, self.broker.now_ms
        gone = self.sessions.keys() - membership.members.keys()
        self.somebody_expired = bool(gone)
        for member_id in gone:
            assert self._may_go(group, member_id), f"{member_id} is gone for no reason"
        for member_id in membership.members.keys() - self.sessions.keys():
            # If the new id of a static member was not written, the member gets its old id back.
            new_id = next((new for new in gone if self.former.get(new) == member_id), "")
            assert self.failures, f"{member_id} has come out of nowhere"
            assert new_id, f"{member_id} has come out of nowhere"
            member = membership.members[member_id]
            self.sessions[member_id] = now_ms + member.session_timeout_ms
            if self.leader == new_id:
                self.leader = member_id
            if new_id in self.awaited:
                self.awaited = self.awaited - {new_id} | {member_id}
        for member_id in gone:
            del self.sessions[member_id]
        self.awaited &= membership.members.keys()
        if membership.leader_id != self.leader:
            self._compare_leader(group, joined)
        self.leader = membership.leader_id

    def _may_go(self, group: GroupMetadata, member_id: str) -> bool:
        """Return whether there is a reason for the removal of a member."""
        now_ms = self.broker.now_ms
        if member_id in self.leaving or group.state is DEAD:
            return True
        seen = self.members.get(member_id)
        if seen is None:  # one call added and removed the member
            return False
        waits = seen.waits_for_join or seen.waits_for_sync
        if self.sessions[member_id] <= now_ms and (seen.is_new or not waits):
            return True
        if self.join_time_is_up and not seen.is_static and not seen.waits_for_join:
            return True
        if self.failures and member_id in self.former:
            return True
        return member_id in self.were_awaited and self.sync_ends_ms <= now_ms

    @property
    def _ended(self) -> bool:
        return any(source is PREPARING_REBALANCE for source, _ in self.moves)

    def _compare_leader(self, group: GroupMetadata, joined: set[str]) -> None:
        """Check that the leader stays as long as possible, and who succeeds the leader.

        The longest-standing member must succeed a leader that has left.
        """
        members, leader = group.membership.members, group.membership.leader_id
        if self.leader in members:
            assert self._ended, "the leader changes in the middle of a generation"
            assert self.leader not in joined, "the leader had rejoined"
            assert leader in joined, "the new leader has not joined"
        elif self.leader is not None and not self._ended:
            assert leader == next(iter(members), None), "not the one who is there longest"

    def _compare_join_phase(
        self, group: GroupMetadata, answer: Answer | None, joined: set[str]
    ) -> None:
        now_ms, membership = self.broker.now_ms, group.membership
        pending = {one: ends for one, ends in self.pending.items() if ends > now_ms}
        if self.pending != pending:
            self.somebody_expired = True
            self.pending = pending
        if self.moves:
            self.may_be_complete = False
        if self._ended and group.state is not DEAD:
            if not self.join_time_is_up:
                assert not self.pending, "an id given out was not waited for"
                assert self.initial is None or answer is None, "an initial delay cut off"
            elif self.initial is not None and not self.somebody_expired:
                delay_ms = self.broker.settings.initial_rebalance_delay_ms
                assert not self.initial.next_ms(delay_ms), "somebody came: wait once more"
            if self.moves[-1][1] is COMPLETING_REBALANCE:
                assert membership.leader_id in joined, "the leader does not know"
                late = [one.member_id for one in membership.members.values() if not one.is_static]
                assert joined.issuperset(late), "a member that has not joined stays"
        if group.state is not PREPARING_REBALANCE:
            self.initial = None
            return
        if self.join_time_is_up:
            delay_ms = self.broker.settings.initial_rebalance_delay_ms
            wait_ms = None if self.initial is None else self.initial.next_ms(delay_ms)
            if wait_ms is None:
                members = membership.members.values()
                assert not any(one.awaiting_join for one in members), "the join phase goes on"
                longest_ms = max((one.rebalance_timeout_ms for one in members), default=0)
                self.initial, wait_ms = None, max(longest_ms, ALONE_MS)
            self.join_ends_ms = now_ms + wait_ms
            if self.somebody_expired and group.join_operation is not None:
                # The deadline may still include the rebalance timeout of a member that has expired
                # since.
                ends_ms = group.join_operation.deadline_ms or 0
                self.join_ends_ms = max(self.join_ends_ms, ends_ms)
        complete = not membership.pending and all(
            one.awaiting_join for one in membership.members.values()
        )
        assert not complete or self.initial or self.may_be_complete, "the join phase does not end"

    def _compare_timers(self, group: GroupMetadata) -> None:
        now_ms, membership, state = self.broker.now_ms, group.membership, group.state
        for member in membership.members.values():
            ends_ms, actual_ms = self.sessions[member.member_id], member.session.deadline_ms
            if actual_ms != ends_ms:
                assert ends_ms <= now_ms, f"session of {member.member_id} {actual_ms} {ends_ms}"
                assert actual_ms is None, f"session of {member.member_id} is not over"
                waits = member.awaiting_join is not None or member.awaiting_sync is not None
                assert waits, f"{member.member_id} should have expired"
                assert not member.is_new, f"{member.member_id} should have given up"
        given_out = {one: operation.deadline_ms for one, operation in membership.pending.items()}
        assert given_out == self.pending, f"ids given out {given_out} {self.pending}"
        joins, syncs = group.join_operation, group.sync_operation
        if state is PREPARING_REBALANCE:
            assert joins is not None, "a join phase without an operation"
            assert joins.deadline_ms == self.join_ends_ms, "the end of the join phase"
        else:
            assert joins is None, "an operation without a join phase"
        if state in (COMPLETING_REBALANCE, STABLE):
            assert (group.awaited_syncs or set()) == self.awaited, "who has not synced"
            expected_ms = self.sync_ends_ms if self.awaited else None
            assert syncs.deadline_ms == expected_ms, "the end of the sync phase"
        else:
            assert syncs.deadline_ms is None, "a sync timer without a sync phase"
        timers = [joins, syncs, *membership.pending.values()]
        timers += [member.session for member in membership.members.values()]
        deadlines = [one.deadline_ms for one in timers if one is not None and one.deadline_ms]
        deadline_ms = min(deadlines, default=None)
        assert next_deadline_ms(group.purgatory) == deadline_ms, "a timer is lost"
        look_ms = group.next_look_ms()
        if deadline_ms is None:
            assert look_ms is None, "a timer for nothing"
        else:
            assert look_ms is not None, "no timer"
            assert look_ms <= deadline_ms, "a timer is late"
