"""DeleteGroups: the groups that can be deleted, and their records."""

import pytest

from coordinator_server.core.groups.classic.state import GroupState
from protocol.errors import ErrorCode
from tests.unit.core.groups.consumer.context import ConsumerContext
from tests.unit.core.groups.context import SESSION_MS, GroupContext, commit, commit_answer, offsets

E = ErrorCode


def test_delete_an_empty_group() -> None:
    """Deletion writes tombstones of all offsets and the group in one batch."""
    context = GroupContext()
    (z,) = context.stable("Z")
    z.commit(("three", 0, 1), ("three", 1, 2), ("one", 0, 3))
    z.leave()
    assert context.broker.delete().error is E.NONE
    assert context.broker.batches[-1] == 4
    assert all(value is None for _, value in context.broker.log[-4:])
    assert context.broker.replayed().is_blank
    assert context.state == GroupState.DEAD
    assert offsets(context.broker) == {}
    assert context.broker.delete().error is E.GROUP_ID_NOT_FOUND
    assert z.heartbeat() is E.UNKNOWN_MEMBER_ID


def test_generations_start_over_after_a_delete() -> None:
    """A deleted group that is created again starts at the first generation."""
    context = GroupContext()
    context.empty()
    context.broker.delete()
    (b,) = context.completing("B")
    assert b.generation == 1


def test_delete_with_only_an_id_given_out() -> None:
    """A group with only a pending member id can be deleted, and the id is void."""
    context = GroupContext()
    a = context.member("A", version=5)
    a.join()
    assert context.broker.delete().error is E.NONE
    assert a.join().error is E.UNKNOWN_MEMBER_ID


def test_delete_of_a_group_whose_members_are_overdue() -> None:
    """A group can be deleted as soon as its members' sessions are over, before a timer fires.

    The event loop runs timers some milliseconds late: librdkafka's tests delete a group 6.001 s
    after the last request of a member with a session of 6 s.
    """
    context = GroupContext()
    context.stable("A", "B")
    context.broker.clock.time_ms += SESSION_MS - 1
    assert context.broker.delete().error is E.NON_EMPTY_GROUP
    context.broker.clock.time_ms += 1
    assert context.broker.delete().error is E.NONE


def test_requests_of_one_drain_see_that_members_are_overdue() -> None:
    """Once members are overdue, a commit and a deletion that are handled together succeed."""
    context = GroupContext()
    context.stable("A", "B")
    context.broker.clock.time_ms += SESSION_MS
    with context.broker.one_drain():
        committed = commit_answer(context.broker, ("three", 0, 1))
        deleted = context.broker.delete()
    assert committed.response.topics[0].partitions[0].error_code == E.NONE
    assert deleted.error is E.NONE
    assert offsets(context.broker) == {}


@pytest.mark.parametrize("goes", [-2, None])
def test_delete_of_a_consumer_group_whose_members_are_overdue(goes: int | None) -> None:
    """Overdue consumer members expire one by one before the deletion."""
    context = ConsumerContext()
    members = [context.member(name, "three", instance_id=f"i-{name}") for name in "abc"]
    context.joined(*members)
    if goes is not None:
        assert [one.leave(goes) for one in members] == [E.NONE] * 3
    context.broker.clock.time_ms += 45_000
    assert context.describe().group_state == "Empty"
    assert context.broker.delete().error is E.NONE


def test_a_late_heartbeat_of_the_member_itself_is_accepted() -> None:
    """Due timers do not run before a member's request, which the event loop may have delayed."""
    context = GroupContext()
    (a,) = context.stable("A")
    context.broker.clock.time_ms += SESSION_MS
    assert a.heartbeat() is E.NONE
    assert context.broker.delete().error is E.NON_EMPTY_GROUP


@pytest.mark.parametrize("state", ["preparing", "completing", "stable"])
def test_delete_of_a_group_with_members(state: str) -> None:
    """A group with members gets NON_EMPTY_GROUP and stays."""
    context = GroupContext()
    getattr(context, state)("A")
    before = context.state
    assert context.broker.delete().error is E.NON_EMPTY_GROUP
    assert context.state == before


def test_delete_that_cannot_be_written() -> None:
    """If a deletion cannot be written, the coordinator error is returned and the group stays."""
    context = GroupContext()
    commit(context.broker, ("one", 0, 1))
    context.broker.append_error = lambda: E.NOT_LEADER_OR_FOLLOWER
    assert context.broker.delete().error is E.NOT_COORDINATOR
    assert offsets(context.broker) == {("one", 0): (1, "")}


def test_delete_misses_no_commit_of_its_drain() -> None:
    """A deletion includes the commits queued before it; a second deletion finds no group."""
    context = GroupContext()
    with context.broker.one_drain():
        answer = commit_answer(context.broker, ("one", 0, 1))
        deletes = [context.broker.delete(), context.broker.delete()]
    assert answer.response is not None
    assert [delete.error for delete in deletes] == [E.NONE, E.GROUP_ID_NOT_FOUND]
    assert context.broker.replayed().is_blank


@pytest.mark.parametrize("deletes_first", [False, True])
def test_a_join_and_a_delete_of_one_drain(deletes_first: bool) -> None:
    """A join and a deletion that are handled together take effect in their order."""
    context = GroupContext()
    context.empty()
    generation = context.generation
    with context.broker.one_drain():
        if deletes_first:
            delete = context.broker.delete()
        joined = context.member("A").join()
        if not deletes_first:
            delete = context.broker.delete()
    assert delete.error is (E.NONE if deletes_first else E.NON_EMPTY_GROUP)
    assert joined.error is E.NONE
    assert joined.response.generation_id == (1 if deletes_first else generation + 1)
