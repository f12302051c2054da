"""SyncGroup in every state, and the write after it."""

from typing import Any

import pytest

from coordinator_server.core.groups.classic.state import GroupState
from protocol.errors import ErrorCode
from tests.unit.core.groups.context import GroupContext

E = ErrorCode
V5: dict[str, Any] = {"version": 5, "protocol_type": "consumer", "protocol_name": "range"}


@pytest.mark.parametrize("version", range(6))
def test_a_sole_leader_gets_what_it_assigned(version: int) -> None:
    """The leader's SyncGroup is answered after the write; a repeated SyncGroup at once."""
    context = GroupContext()
    (a,) = context.completing("A")
    changes = V5 if version == 5 else {"version": version}
    answer = a.sync({a.id: b"mine"}, **changes)
    assert (answer.error, answer.response.assignment) == (E.NONE, b"mine")
    assert context.state == GroupState.STABLE
    assert a.sync(**changes).response.assignment == b"mine"
    assert answer.response.protocol_name == "range"
    context.broker.check_replay_law()


def test_followers_wait_for_the_leader() -> None:
    """SyncGroups of followers are parked until the assignment is written in one record."""
    context = GroupContext()
    a, b, c = context.completing("A", "B", "C")
    parked = [b.sync(), c.sync()]
    assert all(answer.parked for answer in parked)
    before = len(context.broker.log)
    a.sync({a.id: b"a", b.id: b"b", "stranger": b"x"})
    assert [answer.response.assignment for answer in parked] == [b"b", b""]
    assert len(context.broker.log) == before + 1
    context.broker.check_replay_law()


def test_a_late_follower_gets_its_assignment_at_once() -> None:
    """In Stable a SyncGroup is answered with the stored assignment."""
    context = GroupContext()
    a, b = context.completing("A", "B")
    a.sync({b.id: b"b"})
    assert b.sync().response.assignment == b"b"


@pytest.mark.parametrize("prepare", ["empty", "preparing", "completing", "stable"])
def test_strangers_are_unknown_in_every_state(prepare: str) -> None:
    """SyncGroup with an unknown or empty member id gets UNKNOWN_MEMBER_ID in every state."""
    context = GroupContext()
    getattr(context, prepare)(*(() if prepare == "empty" else ("A",)))
    stranger = context.member("X")
    for member_id in ("ghost", ""):
        answer = stranger.sync(member_id=member_id, generation_id=1)
        assert (answer.error, answer.response.assignment) == (E.UNKNOWN_MEMBER_ID, b"")


def test_an_unknown_group_has_no_members() -> None:
    """SyncGroup of an unknown group gets UNKNOWN_MEMBER_ID and does not create the group.

    An empty group id is invalid.
    """
    context = GroupContext()
    stranger = context.member("X")
    assert stranger.sync(member_id="ghost").error is E.UNKNOWN_MEMBER_ID
    assert stranger.sync(group_id="").error is E.INVALID_GROUP_ID
    assert context.broker.group is None


def test_preparing_asks_to_join_again() -> None:
    """In the join phase a SyncGroup of the last generation gets REBALANCE_IN_PROGRESS.

    Older generations get ILLEGAL_GENERATION.
    """
    context = GroupContext()
    (a,), _, _ = context.preparing("A")
    assert a.sync().error is E.REBALANCE_IN_PROGRESS
    assert a.sync(**V5).error is E.REBALANCE_IN_PROGRESS
    assert a.sync(generation_id=0).error is E.ILLEGAL_GENERATION


@pytest.mark.parametrize(
    ("protocol_type", "protocol_name"),
    [(None, "range"), ("consumer", None), (None, None), ("connect", "range"), ("consumer", "x")],
)
def test_v5_must_name_the_protocol(protocol_type: str | None, protocol_name: str | None) -> None:
    """Since v5 a SyncGroup with another or no protocol gets INCONSISTENT_GROUP_PROTOCOL."""
    context = GroupContext()
    (a,) = context.completing("A")
    answer = a.sync(version=5, protocol_type=protocol_type, protocol_name=protocol_name)
    assert answer.error is E.INCONSISTENT_GROUP_PROTOCOL
    assert answer.response.protocol_type is answer.response.protocol_name is None


def test_the_wrong_generation_is_illegal() -> None:
    """A SyncGroup with a wrong generation is refused before and after the assignment."""
    context = GroupContext()
    (a,) = context.completing("A")
    assert a.sync(generation_id=2).error is E.ILLEGAL_GENERATION
    context.sync_all([a])
    assert a.sync(generation_id=0).error is E.ILLEGAL_GENERATION


def test_a_second_sync_of_the_same_member_ends_the_first() -> None:
    """A second SyncGroup of a member answers the first; both requests get a response."""
    context = GroupContext()
    a, b = context.completing("A", "B")
    first, second = b.sync(), b.sync()
    assert first.error is E.REBALANCE_IN_PROGRESS
    a.sync({b.id: b"b"})
    assert second.response.assignment == b"b"


def test_the_leader_assigns_once() -> None:
    """A repeated SyncGroup of the leader before the write changes nothing."""
    context = GroupContext()
    (a,) = context.completing("A")
    with context.broker.one_drain():
        first, second = a.sync({a.id: b"one"}), a.sync({a.id: b"two"})
    assert first.error is E.REBALANCE_IN_PROGRESS
    assert second.response.assignment == b"one"
    context.broker.check_replay_law()


def test_requests_before_the_write_see_completing() -> None:
    """Between the leader's SyncGroup and its record the group is CompletingRebalance."""
    context = GroupContext()
    a, b = context.completing("A", "B")
    with context.broker.one_drain():
        a.sync({b.id: b"b"})
        assert context.broker.group is not None
        assert context.broker.group.state is GroupState.COMPLETING_REBALANCE
        late = b.sync()
    assert late.response.assignment == b"b"


def test_an_assignment_that_cannot_be_recorded() -> None:
    """If the assignment cannot be recorded, all SyncGroups get the matching coordinator error.

    A rebalance follows.
    """
    context = GroupContext()
    a, b = context.completing("A", "B")
    parked = b.sync()
    context.broker.append_error = lambda: E.NOT_LEADER_OR_FOLLOWER
    answer = a.sync({a.id: b"a"})
    assert answer.error is parked.error is E.NOT_COORDINATOR
    assert context.state == GroupState.PREPARING_REBALANCE
    assert all(not one.member_assignment for one in context.broker.describe().members)
    context.broker.append_error = lambda: E.NONE
    a.join()
    b.join()
    a.learn()
    b.learn()
    assert a.generation == 2
    context.sync_all([a, b])


def test_a_join_overtakes_the_write() -> None:
    """If a member joins before the record is written, the syncs get REBALANCE_IN_PROGRESS."""
    context = GroupContext()
    a, b = context.completing("A", "B")
    with context.broker.one_drain():
        answers = [b.sync(), a.sync({a.id: b"a"})]
        newcomer = context.member("N").join()
    assert [answer.error for answer in answers] == [E.REBALANCE_IN_PROGRESS] * 2
    assert newcomer.parked
    assert context.state == GroupState.PREPARING_REBALANCE


def test_two_generations_in_flight() -> None:
    """If a rebalance happens between a SyncGroup and its write, the later generation wins."""
    context = GroupContext()
    (a,) = context.completing("A")
    with context.broker.one_drain():
        old = a.sync({a.id: b"old"})
        a.protocols = [("range", b"new")]
        a.join()
        new = a.sync({a.id: b"new"}, generation_id=2)
    assert old.error is E.REBALANCE_IN_PROGRESS
    assert new.response.assignment == b"new"
    context.broker.check_replay_law()


def test_a_parked_sync_of_a_member_that_leaves_is_answered() -> None:
    """The parked sync of a leaving member gets UNKNOWN_MEMBER_ID; Kafka never answers it."""
    context = GroupContext()
    _, b = context.completing("A", "B")
    parked = b.sync()
    assert b.leave() is E.NONE
    assert parked.error is E.UNKNOWN_MEMBER_ID


def test_the_leader_leaves_while_others_wait_for_it() -> None:
    """If the leader leaves, parked syncs get REBALANCE_IN_PROGRESS, and the next joiner leads."""
    context = GroupContext()
    a, b = context.completing("A", "B")
    parked = b.sync()
    a.leave()
    assert parked.error is E.REBALANCE_IN_PROGRESS
    response = b.join().response
    assert (response.generation_id, response.leader) == (2, b.id)


def test_members_that_never_sync_are_dropped() -> None:
    """Members that do not sync are dropped at the rebalance timeout, even in Stable.

    Heartbeats do not prevent this.
    """
    context = GroupContext()
    a, b = context.completing("A", "B")
    a.sync({b.id: b"b"})
    for _ in range(5):
        assert context.state == GroupState.STABLE
        a.heartbeat()
        b.heartbeat()
        context.broker.advance(6_000)
    assert b.heartbeat() is E.UNKNOWN_MEMBER_ID
    assert a.heartbeat() is E.REBALANCE_IN_PROGRESS


def test_nobody_syncs() -> None:
    """If no member syncs, all are dropped, and the group is Empty at a new generation."""
    context = GroupContext()
    context.completing("A", "B", session_ms=60_000)
    context.broker.advance(30_000)
    described = context.broker.describe()
    assert (described.group_state, described.members) == ("Empty", [])
    assert context.broker.recorded is not None
    assert context.broker.recorded.generation == 2


def test_once_all_have_synced_nobody_is_dropped() -> None:
    """The sync timer ends when the last member has synced."""
    context = GroupContext()
    context.stable("A", "B", session_ms=600_000)
    context.broker.advance(599_999)
    assert context.state == GroupState.STABLE
