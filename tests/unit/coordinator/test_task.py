"""A group's task: waiting for a sync, steps, and the end of the group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.core.groups.consumer.member import ConsumerMember as ConsumerMember
from coordinator_server.core.groups.consumer.records import member_record
from coordinator_server.core.groups.effects import STEP_ITEMS
from protocol.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.apis.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.apis.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.apis.sync_group import SyncGroupRequestAssignment
from protocol.codec import decoder, encoder
from protocol.errors import ErrorCode
from protocol.schema import Message, ReceivedColumns
from storage.errors import StorageError
from tests.harness.one_group import GROUP, Answer, OneGroupBroker
from tests.unit.core.groups.consumer.context import ConsumerContext
from tests.unit.core.groups.context import GroupContext, Member, commit, commit_answer, offsets

E = ErrorCode
MANY = 1_600
TOPICS = {"wide": MANY, "one": 1, "two": MANY}


def syncing() -> tuple[GroupContext, Member]:
    """Return a member of a Stable group whose appends must be synced from now on."""
    context = GroupContext()
    (a,) = context.stable("A")
    context.broker.flushes = True
    return context, a


def codes(answer: Answer) -> set[ErrorCode]:
    """Return the errors of a commit."""
    topics: list[Any] = answer.response.topics
    return {ErrorCode(one.error_code) for topic in topics for one in topic.partitions}


def test_a_failed_sync_changes_no_answer_but_its_own() -> None:
    """If a sync fails, the commit is refused, but a heartbeat handled with it succeeds.

    Heartbeats share their response object, which must not be changed in place.
    """
    context, a = syncing()
    with context.broker.one_drain():
        commit_of_a = commit_answer(
            context.broker, ("one", 0, 1), member_id=a.id, generation_id_or_member_epoch=1
        )
        heartbeat = a.send_heartbeat()
    assert heartbeat.error is E.NONE
    assert commit_of_a.parked
    context.broker.flush(StorageError("the disk is gone"))
    assert codes(commit_of_a) == {E.NOT_COORDINATOR}
    assert a.heartbeat() is E.NONE
    other = GroupContext()
    (b,) = other.stable("B")
    assert b.heartbeat() is E.NONE


def test_answers_wait_for_the_sync_of_their_own_records_only() -> None:
    """Only requests that wrote records wait for a sync; a later heartbeat does not wait."""
    context, a = syncing()
    waiting = commit_answer(context.broker, ("one", 0, 7))
    # The refused commit wrote no record, so its response does not wait.
    assert codes(waiting) == {E.UNKNOWN_MEMBER_ID}
    waiting = commit_answer(
        context.broker, ("one", 0, 7), member_id=a.id, generation_id_or_member_epoch=1
    )
    assert waiting.parked
    assert a.heartbeat() is E.NONE
    assert offsets(context.broker) == {("one", 0): (7, "")}
    context.broker.flush()
    assert codes(waiting) == {E.NONE}


def test_a_failed_sync_refuses_an_assignment() -> None:
    """After a failed sync leader and followers learn that the assignment may be lost."""
    context = GroupContext()
    a, b = context.completing("A", "B")
    context.broker.flushes = True
    syncs = [b.sync(), a.sync({a.id: b"a", b.id: b"b"})]
    assert [sync.parked for sync in syncs] == [True, True]
    context.broker.flush(StorageError("the disk is gone"))
    assert [sync.error for sync in syncs] == [E.NOT_COORDINATOR] * 2


def test_shared_answers_cannot_be_changed() -> None:
    """Setting a field of a heartbeat's shared response raises an error."""
    context = GroupContext()
    (a,) = context.stable("A")
    response = a.send_heartbeat().response
    with pytest.raises(AttributeError, match=r"HeartbeatResponse\.error_code"):
        response.error_code = E.NOT_COORDINATOR
    assert a.heartbeat() is E.NONE


# --- large requests


def large(broker: OneGroupBroker, request: Message, version: int) -> tuple[Answer, int]:
    """Send a large request and run the event loop; return the response and the iterations."""
    with broker.one_drain():
        answer = broker.send(request, version, is_large=True)
        turns = 0
        while not answer.answered and broker.clock.soon:
            turns += 1
            broker.clock.soon.popleft()()
    return answer, turns


def partitions_of(topic: str, count: int) -> OffsetCommitRequestTopic:
    """Return offset 5 for each partition."""
    return OffsetCommitRequestTopic(
        name=topic,
        partitions=[
            OffsetCommitRequestPartition(partition_index=index, committed_offset=5)
            for index in range(count)
        ],
    )


def commit_request(*topics: OffsetCommitRequestTopic) -> OffsetCommitRequest:
    """Return a commit of a standalone consumer."""
    return OffsetCommitRequest(group_id="g", topics=list(topics))


@pytest.fixture(autouse=True)
def no_time_for_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """End every slice after one step, so that each step is a turn of the loop."""
    monkeypatch.setattr("coordinator_server.clock.step_runner.SLICE_MS", 0)


def test_large_requests_run_in_steps() -> None:
    """Large commits and deletions run in several turns, with the same responses."""
    broker = OneGroupBroker(topics=TOPICS)
    answer, turns = large(broker, commit_request(partitions_of("wide", MANY)), 8)
    assert (codes(answer), turns > MANY // 500) == ({E.NONE}, True)
    assert len(broker.offsets["wide"]) == MANY
    named = [OffsetDeleteRequestPartition(partition_index=index) for index in range(MANY)]
    request = OffsetDeleteRequest(
        group_id="g", topics=[OffsetDeleteRequestTopic(name="wide", partitions=named)]
    )
    answer, turns = large(broker, request, 0)
    assert (codes(answer), turns > MANY // 500) == ({E.NONE}, True)
    assert broker.offsets == {}


def test_requests_after_a_large_one_wait_for_it_and_no_other_group_does() -> None:
    """Later requests of a group wait for a large request; other groups do not wait."""
    many = 10 * MANY
    broker = OneGroupBroker(topics={**TOPICS, "wide": many})
    other = Member(broker, "O")
    with broker.one_drain():
        first = broker.send(commit_request(partitions_of("wide", many)), 8, is_large=True)
        second = broker.send(commit_request(partitions_of("one", 1)), 8)
        for _ in range(3):
            broker.clock.soon.popleft()()
        assert not first.answered
        joined = other.join(group_id="other")
        while not joined.answered:
            assert not second.answered
            broker.clock.soon.popleft()()
        assert not first.answered
    assert (codes(first), codes(second)) == ({E.NONE}, {E.NONE})
    # A record of the other group, the large commit, and the small commit.
    assert broker.batches == [1, many, 1]


def test_what_came_before_a_large_request_does_not_wait_for_it() -> None:
    """Requests before a large request are written and answered before the large request runs."""
    broker = OneGroupBroker(topics=TOPICS)
    with broker.one_drain():
        before = broker.send(commit_request(partitions_of("one", 1)), 8)
        after = broker.send(commit_request(partitions_of("wide", MANY)), 8, is_large=True)
        broker.clock.soon.popleft()()
        assert (before.answered, after.answered) == (True, False)


def test_members_of_large_requests() -> None:
    """Large JoinGroup, SyncGroup and LeaveGroup requests run in steps."""
    context = GroupContext(max_size=MANY)
    protocols = [JoinGroupRequestProtocol(name=f"p{number}") for number in range(MANY)]
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=protocols,
    )
    joined, turns = large(context.broker, request, 3)
    assert (joined.error, joined.response.protocol_name, turns > 3) == (E.NONE, "p0", True)
    member = context.member("A")
    member.id, member.generation = joined.response.member_id, 1
    assignments = {f"nobody-{number}": b"" for number in range(MANY)} | {member.id: b"mine"}
    sync = member.sync_request(assignments)
    assert all(isinstance(one, SyncGroupRequestAssignment) for one in sync.assignments)
    synced, turns = large(context.broker, sync, 3)
    assert (synced.response.assignment, turns > 3) == (b"mine", True)
    members = [MemberIdentity(member_id=f"nobody-{number}") for number in range(MANY)]
    leaving = LeaveGroupRequest(
        group_id="g", members=[*members, MemberIdentity(member_id=member.id)]
    )
    left, turns = large(context.broker, leaving, 5)
    errors = [one.error_code for one in left.response.members]
    assert errors == [*[E.UNKNOWN_MEMBER_ID] * MANY, E.NONE]
    assert turns > 3


def test_a_large_group_is_described_expired_and_deleted_in_steps() -> None:
    """Describing, expiring and deleting a large group runs in steps, even for a small request."""
    broker = OneGroupBroker(topics=TOPICS)
    both = (partitions_of("wide", MANY), partitions_of("two", MANY))
    large(broker, commit_request(*both), 8)
    broker.delete_topics("two")
    assert list(broker.offsets) == ["wide"]
    large(broker, commit_request(*both), 8)
    broker.advance(broker.settings.offsets_retention_ms - 1)
    broker.expire_offsets()
    assert len(broker.offsets) == 2
    broker.advance(1)
    with broker.one_drain():
        broker.expire_offsets()
        turns = 0
        while broker.group is not None:
            turns += 1
            broker.clock.soon.popleft()()
    assert turns > 2 * MANY // 500
    large(broker, commit_request(*both), 8)
    with broker.one_drain():
        deleted = broker.delete()
        turns = 0
        while not deleted.answered:
            turns += 1
            broker.clock.soon.popleft()()
    assert (deleted.error, turns > 2 * MANY // 500, broker.group) == (E.NONE, True, None)


def test_unloading_refuses_large_requests() -> None:
    """Unloading answers running and queued large requests with NOT_COORDINATOR, without a write."""
    broker = OneGroupBroker(topics=TOPICS)
    with broker.one_drain():
        under_way = broker.send(commit_request(partitions_of("wide", MANY)), 8, is_large=True)
        for _ in range(3):
            broker.clock.soon.popleft()()
        small = broker.send(commit_request(partitions_of("one", 1)), 8)
        waiting = broker.send(commit_request(partitions_of("wide", MANY)), 8, is_large=True)
        broker.unload()
    assert codes(under_way) == codes(waiting) == {E.NOT_COORDINATOR}
    assert codes(small) == {E.NONE}
    assert broker.batches == [1]


def test_what_was_meant_for_a_deleted_group_goes_through_the_door_again() -> None:
    """Requests queued behind a deletion are routed again, to a new group if one exists."""
    context = GroupContext()
    broker = context.broker
    commit(broker, ("one", 0, 1))
    with broker.one_drain():
        deleted = broker.delete()
        again = broker.delete()
        heartbeat = context.member("A").send_heartbeat()
        commit_later = commit_answer(broker, ("one", 0, 2))
        broker.expire_offsets()
    assert (deleted.error, again.error) == (E.NONE, E.GROUP_ID_NOT_FOUND)
    assert heartbeat.error is E.UNKNOWN_MEMBER_ID
    assert codes(commit_later) == {E.NONE}
    assert offsets(broker) == {("one", 0): (2, "")}


# --- bugs


def raising(*_: object, **__: object) -> None:
    """Raise an error, as a bug would."""
    raise RuntimeError("a bug")


BUG = "the member that meets a bug"


def raising_for_one(member_id: str) -> Callable[..., ErrorCode]:
    """Return a `GroupMetadata.check_member` that raises for one member."""
    check = GroupMetadata.check_member

    def buggy(group: GroupMetadata, caller: str, instance_id: str | None) -> ErrorCode:
        if caller == member_id:
            raise RuntimeError("a bug")
        return check(group, caller, instance_id)

    return buggy


@pytest.fixture
def context() -> GroupContext:
    """Return the context of a broker whose group may raise."""
    made = GroupContext()
    made.broker.survives_bugs = True
    return made


def test_a_bug_costs_one_request(context: GroupContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug fails one request; requests before it keep their effect, and the group is reloaded."""
    (a,) = context.stable("A")
    with context.broker.one_drain():
        before = commit_answer(
            context.broker, ("one", 0, 4), member_id=a.id, generation_id_or_member_epoch=1
        )
        failed = a.send_heartbeat(member_id=BUG)
        monkeypatch.setattr(GroupMetadata, "check_member", raising_for_one(BUG))
    assert codes(before) == {E.NONE}
    assert failed.failed
    assert "group.failed" in context.broker.event_names()
    assert a.heartbeat() is E.NONE
    assert offsets(context.broker) == {("one", 0): (4, "")}


def test_a_bug_in_a_large_request(context: GroupContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in a large request fails only that request."""
    (a,) = context.stable("A")
    monkeypatch.setattr(GroupMetadata, "check_commit", raising)
    request = commit_request(partitions_of("many", 100))
    failed, _ = large(context.broker, request, 8)
    assert failed.failed
    assert a.heartbeat() is E.NONE


def test_a_bug_beside_what_has_begun_its_steps() -> None:
    """A bug also fails a request whose steps have started on the group before its reload."""
    context = ConsumerContext()
    context.broker.survives_bugs = True
    context.joined(context.member("a", "three"))
    for number in range(STEP_ITEMS):
        context.group.replay(member_record(GROUP, ConsumerMember(str(number))))
    with context.broker.one_drain():
        committed = commit_answer(context.broker, ("one", 0, 4), member_id="x", version=9)
        committed.on_answer = raising
        described = context.broker.send(ConsumerGroupDescribeRequest(group_ids=[GROUP]), 1)
    assert (committed.failed, described.failed) == (True, True)
    assert len(context.describe().members) == 1


def test_a_second_bug_breaks_the_group(
    context: GroupContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the group cannot be reloaded, every request to it fails at once."""
    (a,) = context.stable("A")
    monkeypatch.setattr("coordinator_server.coordinator.task.load_finished", raising)
    monkeypatch.setattr(GroupMetadata, "check_commit", raising)
    with context.broker.one_drain():
        failed = [commit_answer(context.broker, ("one", 0, 4)), a.send_heartbeat()]
    failed.append(a.send_heartbeat())
    assert [answer.failed for answer in failed] == [True] * 3
    assert context.broker.event_names().count("group.failed") == 2


# --- turns ----------------------------------------------------------------------------------------


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit a turn of the loop to three operations and two responses of a group."""
    monkeypatch.setattr("coordinator_server.coordinator.task.OPERATIONS_PER_TURN", 3)
    monkeypatch.setattr("coordinator_server.coordinator.task.ANSWERS_PER_TURN", 2)


def answered_by_turn(context: GroupContext, answers: list[Answer]) -> list[int]:
    """Return the total number of answered calls after each loop callback, until none is left."""
    counts = []
    while context.broker.clock.soon:
        context.broker.clock.soon.popleft()()
        counts.append(sum(one.answered for one in answers))
    return counts


@pytest.mark.usefixtures("short_turns")
def test_a_rebalance_of_many_members_takes_turns() -> None:
    """A rebalance of many members takes several turns, and all members get one generation."""
    context = GroupContext(max_size=10)
    members = context.stable(*"ABCDE")
    with context.broker.one_drain():
        answers = [one.join() for one in members]
        # The four turns are: three joins; two joins and two responses; two responses; one response.
        assert answered_by_turn(context, answers) == [0, 2, 4, 5]
    assert {one.response.generation_id for one in answers} == {2}


@pytest.mark.usefixtures("short_turns")
def test_answers_left_for_later_turns_go_out_before_the_group_is_unloaded() -> None:
    """Responses left for later turns are sent before the group is unloaded."""
    context = GroupContext(max_size=10)
    members = context.stable(*"ABCDE")
    with context.broker.one_drain():
        answers = [one.join() for one in members]
        for _ in range(2):
            context.broker.clock.soon.popleft()()
        context.broker.unload()
        assert [one.error for one in answers] == [E.NONE] * 5
        context.broker.clock.turn()


@pytest.mark.usefixtures("short_turns")
def test_an_answer_that_cannot_be_sent_fails_alone(context: GroupContext) -> None:
    """A response that cannot be sent in a later turn fails alone, as in the first turn."""
    members = context.stable(*"ABCD")
    with context.broker.one_drain():
        answers = [one.join() for one in members]
        for _ in range(2):
            context.broker.clock.soon.popleft()()
        waiting = [one for one in answers if not one.answered]
        assert len(waiting) == 2
        waiting[0].on_answer = raising
    assert [one.failed for one in waiting] == [True, False]
    assert "group.failed" in context.broker.event_names()
    assert waiting[1].error is E.NONE


@pytest.mark.usefixtures("short_turns")
def test_a_group_that_has_ended_still_sends_its_answers() -> None:
    """A group that has ended still sends all of its responses."""
    context = GroupContext()
    with context.broker.one_drain():
        context.broker.append_error = lambda: E.KAFKA_STORAGE_ERROR
        answers = [commit_answer(context.broker, ("one", 0, 1)) for _ in range(3)]
        context.broker.clock.soon.popleft()()
        assert context.broker.group is None
        assert [one.answered for one in answers] == [True, True, False]
    assert [codes(one) for one in answers] == [{E.NOT_COORDINATOR}] * 3


# --- decoded commits ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 6, 8, 9])
@pytest.mark.parametrize("note", ["", None])
@pytest.mark.parametrize("is_twice", [False, True])
def test_a_commit_decoded_by_columns_is_that_of_its_elements(
    version: int, note: str | None, is_twice: bool
) -> None:
    """A commit decoded by columns gives the same records and responses as by elements.

    A partition may be named twice.
    """
    indexes = [*range(20), 3] if is_twice else [*range(20)]
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=number << 33, committed_metadata=note
        )
        for number, index in enumerate(indexes)
    ]
    request = OffsetCommitRequest(
        group_id=GROUP, topics=[OffsetCommitRequestTopic(name="wide", partitions=partitions)]
    )
    data = encoder(OffsetCommitRequest, version)(request)
    decoded, _ = decoder(OffsetCommitRequest, version)(data, 0)
    decoded_partitions: object = decoded.topics[0].partitions
    assert isinstance(decoded_partitions, ReceivedColumns)
    plain, by_columns = OneGroupBroker(topics=TOPICS), OneGroupBroker(topics=TOPICS)
    assert plain.send(request, version).response == by_columns.send(decoded, version).response
    assert plain.log == by_columns.log
    assert len(offsets(by_columns)) == 20
