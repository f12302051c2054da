"""Compare each response with the result that `judge` expects, and check its contents.

Responses are checked when they are created, while the group is still in the state that they
describe.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.core.groups.classic.state import (
    COMPLETING_REBALANCE,
    DEAD,
    STABLE,
    GroupState,
)
from protocol.apis.join_group import JoinGroupRequest
from protocol.apis.leave_group import LeaveGroupRequest
from protocol.apis.offset_commit import OffsetCommitRequest
from protocol.apis.sync_group import SyncGroupRequest
from protocol.errors import ErrorCode
from tests.harness.one_group import Answer, answer_of, partition_count
from tests.sim.judge import CLIENT_ERRORS, Facts, Verdict, Wait

E = ErrorCode
Replies = Sequence[tuple[Answer, Any]]
SKIP_ASSIGNMENT_SINCE = 9


class Ask:
    """The expected response to one request, and the facts about its group when it arrived."""

    def __init__(self, verdict: Verdict | None, facts: Facts, version: int) -> None:
        self.verdict = verdict
        self.version = version
        self.state = facts.state
        self.generation = facts.generation
        self.leader = facts.leader
        self.member_id: str | None = None
        """The id under which a JoinGroup is parked."""
        self.replaced: str | None = None
        self.session_ms: int | None = None
        self.leave_errors: list[ErrorCode] = []
        self.leaving: set[str] = set()


class Window:
    """One call into the coordinator code, with the request that the call has handled.

    `answer` is None for timers and for the end of a batch of queued requests.
    """

    def __init__(
        self,
        group: GroupMetadata | None,
        answer: Answer | None,
        moves: Sequence[tuple[GroupState, GroupState]],
        failures: set[ErrorCode],
        assignment_of: Callable[[int, str], bytes],
        *,
        may_be_too_large: bool = True,
    ) -> None:
        self.group = group
        self.answer = answer
        self.moves = moves
        self.shown = {CLIENT_ERRORS[error] for error in failures}
        self.assignment_of = assignment_of
        self.may_be_too_large = may_be_too_large


def member_id_of(answer: Answer, group: GroupMetadata, replies: Replies) -> str:
    """Return the member id of a request; for a JoinGroup, the id that the member was given."""
    request: Any = answer.request
    if not isinstance(request, JoinGroupRequest):
        return str(getattr(request, "member_id", ""))
    for member in group.membership.members.values():
        if member.awaiting_join is not None and answer_of(member.awaiting_join) is answer:
            answer.note.member_id = member.member_id
            return member.member_id
    return next((str(one.member_id) for reply, one in replies if reply is answer), "")


def stores(request: OffsetCommitRequest) -> bool:
    """Return whether a commit contains a partition that exists."""
    return any(
        0 <= one.partition_index < partition_count(topic.name)
        for topic in request.topics
        for one in topic.partitions
    )


def joined(replies: Replies) -> set[str]:
    """Return the ids of the members that learn the generation from these JoinGroup responses."""
    return {
        str(response.member_id)
        for reply, response in replies
        if isinstance(reply.request, JoinGroupRequest) and response.error_code == E.NONE
    }


def check_waiting(answer: Answer, replies: Replies) -> None:
    """Check that `judge` expects a request without an immediate response to wait."""
    verdict = answer.note.verdict
    if verdict is None or any(reply is answer for reply, _ in replies):
        return
    # LeaveGroup of the last member is answered only after the record of the Empty group is
    # written.
    is_leave = isinstance(answer.request, LeaveGroupRequest)
    may_wait = isinstance(verdict, Wait) or (is_leave and answer.note.leaving)
    assert may_wait, f"no answer to {answer.request!r}, {verdict} expected"


def check(answer: Answer, response: Any, window: Window) -> None:
    """Check that one response has the result that `judge` expects for its request."""
    request, ask = answer.request, answer.note
    at_once = answer is window.answer
    if isinstance(request, OffsetCommitRequest):
        _check_commit(request, response, ask, window, at_once=at_once)
        return
    if ask.verdict is None:
        return
    error = E(response.error_code)
    if isinstance(request, LeaveGroupRequest):
        _check_leave(response, ask, window, at_once=at_once)
        if not at_once and error is E.NONE:
            _check_recorded(ask, window)
    elif isinstance(ask.verdict, ErrorCode):
        assert at_once, f"late answer to {request!r}"
        assert error is ask.verdict, f"{error.name}, {ask.verdict.name} expected: {request!r}"
    elif error is not E.NONE:
        _check_late_error(answer, error, window)
    if error is E.NONE and isinstance(request, JoinGroupRequest):
        _check_joined(response, ask, window)
    if error is E.NONE and isinstance(request, SyncGroupRequest):
        _check_synced(request, response, window)


def is_repeated(answer: Answer, window: Window) -> bool:
    """Return whether the request being handled repeats a parked request of the same member."""
    now = window.answer
    if now is None or now is answer or type(now.request) is not type(answer.request):
        return False
    request: Any = now.request
    member_id = answer.note.member_id or getattr(answer.request, "member_id", "")
    return bool(request.member_id == member_id) and isinstance(now.note.verdict, Wait)


def _check_late_error(answer: Answer, error: ErrorCode, window: Window) -> None:
    """Check that an event explains the error of a request that was parked."""
    group, ask = window.group, answer.note
    assert group is not None
    if group.state is DEAD or error in window.shown:
        stays = ask.verdict is Wait.REPLACE and ask.member_id in group.membership.members
        assert not stays, "a member id that is not recorded"
        return
    member_id = ask.member_id or getattr(answer.request, "member_id", "")
    if error is E.UNKNOWN_MEMBER_ID:
        assert member_id not in group.membership.members, "a member is told that nobody knows it"
    elif error is E.FENCED_INSTANCE_ID:
        assert window.answer is not None
        assert window.answer.note.replaced == member_id, "fenced by nobody"
    elif error is E.REBALANCE_IN_PROGRESS:
        gave_up = any(source is COMPLETING_REBALANCE for source, _ in window.moves)
        is_sync = isinstance(answer.request, SyncGroupRequest)
        assert is_repeated(answer, window) or (is_sync and gave_up), "no rebalance is in progress"
    else:
        raise AssertionError(f"{error.name} for what was parked: {answer.request!r}")


def _check_joined(response: Any, ask: Ask, window: Window) -> None:
    """Check that the response has the current generation; only the leader sees the members."""
    group = window.group
    assert group is not None
    targets = [target for _, target in window.moves]
    if COMPLETING_REBALANCE in targets[:-1]:
        return  # the rebalance timeout is 0, so the generation has already ended
    membership, member_id = group.membership, response.member_id
    assert response.generation_id == group.generation_id, "another generation"
    assert response.protocol_name == group.protocol_name, "another protocol"
    assert response.protocol_type == group.protocol_type, "another protocol type"
    assert member_id in membership.members, "an answer for a stranger"
    leads = member_id == membership.leader_id
    restarted = ask.verdict is Wait.REPLACE and response.generation_id == ask.generation
    if ask.verdict is Wait.JOIN or (ask.verdict is Wait.REPLACE and not restarted):
        assert response.generation_id > ask.generation, "nobody else was waited for"
        shown = leads
    elif restarted:
        assert group.state is STABLE, "a member came back in the middle of a rebalance"
        shown = leads and ask.version >= SKIP_ASSIGNMENT_SINCE
    else:
        shown = leads and ask.state is COMPLETING_REBALANCE
    assert response.skip_assignment == (restarted and shown), "who is to assign"
    if restarted and ask.version < SKIP_ASSIGNMENT_SINCE:
        assert response.leader == ask.leader, "it might assign anew"
    else:
        assert response.leader == membership.leader_id, "another leader"
    listed = [(one.member_id, one.group_instance_id, one.metadata) for one in response.members]
    members = [
        (
            one.member_id,
            one.group_instance_id,
            next(metadata for name, metadata in one.protocols if name == group.protocol_name),
        )
        for one in membership.members.values()
    ]
    assert listed == (members if shown else []), "the members that the leader is shown"


def _check_synced(request: SyncGroupRequest, response: Any, window: Window) -> None:
    group = window.group
    assert group is not None
    assert group.state is STABLE, "an assignment that is not recorded"
    assert group.generation_id == request.generation_id, "an assignment of another generation"
    expected = window.assignment_of(request.generation_id, request.member_id)
    assert response.assignment == expected, f"assignment {response.assignment} {expected!r}"
    said = (response.protocol_type, response.protocol_name)
    assert said == (group.protocol_type, group.protocol_name), "another protocol"


def _check_leave(response: Any, ask: Ask, window: Window, *, at_once: bool) -> None:
    error = E(response.error_code)
    if ask.verdict is not E.NONE:
        assert error is ask.verdict, f"{error.name}, {ask.verdict} expected"
        return
    if not at_once and error is not E.NONE and error in window.shown:
        return
    told = [E(one.error_code) for one in response.members] if ask.version >= 3 else [error]
    assert told == ask.leave_errors, f"{told}, {ask.leave_errors} expected"


def _check_recorded(ask: Ask, window: Window) -> None:
    """Check that the Empty generation is in the log when the last member's leave is answered."""
    assert window.group is not None
    recorded = window.group.recorded
    if window.group.state is not DEAD:  # a DEAD group was deleted by the same batch
        assert recorded is not None
        assert recorded.generation > ask.generation, "a leave is told that is not recorded"


def _check_commit(
    request: OffsetCommitRequest, response: Any, ask: Ask, window: Window, *, at_once: bool
) -> None:
    told = {
        (topic.name, one.partition_index): E(one.error_code)
        for topic in response.topics
        for one in topic.partitions
    }
    for topic in request.topics:
        for one in topic.partitions:
            exists = 0 <= one.partition_index < partition_count(topic.name)
            if not exists and window.group is not None:
                continue  # the group never had this partition; `check_unknown` checks the response
            error = told.pop((topic.name, one.partition_index))
            if not exists:
                assert error is E.UNKNOWN_TOPIC_OR_PARTITION, error.name
            elif ask.verdict is Wait.WRITE:
                assert not at_once, "answered before the append"
                assert error is E.NONE or error in window.shown, error.name
                assert error is not E.UNKNOWN_SERVER_ERROR or window.may_be_too_large, error.name
            else:
                assert error is ask.verdict, f"{error.name}, {ask.verdict} expected"
    assert not told, "answers that nobody asked for"


def check_unknown(request: OffsetCommitRequest, response: Any) -> None:
    """Check that nonexistent partitions have their own error, independent of other partitions."""
    told = {
        (topic.name, one.partition_index): E(one.error_code)
        for topic in response.topics
        for one in topic.partitions
    }
    for topic in request.topics:
        for one in topic.partitions:
            error = told.pop((topic.name, one.partition_index))
            exists = 0 <= one.partition_index < partition_count(topic.name)
            assert exists != (error is E.UNKNOWN_TOPIC_OR_PARTITION), error.name
    assert not told, "answers that no request asked for"
