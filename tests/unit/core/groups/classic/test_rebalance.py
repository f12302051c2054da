"""The phases of a rebalance and their timers."""

import pytest

from coordinator_server.core.groups.classic.state import GroupState
from protocol.errors import ErrorCode
from tests.unit.core.groups.context import GroupContext, leave

E = ErrorCode


def test_the_initial_delay_gathers_members() -> None:
    """The first join phase of an Empty group is extended while new members join."""
    context = GroupContext(initial_rebalance_delay_ms=1_000)
    broker = context.broker
    first = context.member("A").join()
    broker.advance(999)
    second = context.member("B").join()
    broker.advance(1)
    assert first.parked
    broker.advance(999)
    assert first.parked
    broker.advance(1)
    assert first.response.generation_id == second.response.generation_id == 1
    assert len(first.response.members) == 2


def test_the_initial_delay_ends_with_the_rebalance_timeout() -> None:
    """The first member's rebalance timeout limits the initial delay."""
    context = GroupContext(initial_rebalance_delay_ms=1_000, max_size=100)
    broker = context.broker
    first = context.member("A", rebalance_ms=2_500).join()
    for number in range(5):
        assert first.parked
        context.member(f"B{number}", rebalance_ms=2_500).join()
        broker.advance(500)
    assert not first.parked
    assert broker.now_ms == 1_002_500


def test_a_rebalance_timeout_below_the_delay() -> None:
    """A rebalance timeout below the initial delay prevents an extension."""
    context = GroupContext(initial_rebalance_delay_ms=1_000)
    first = context.member("A", rebalance_ms=500).join()
    context.member("B", rebalance_ms=500).join()
    context.broker.advance(1_000)
    assert first.response.generation_id == 1


def test_only_the_first_rebalance_waits() -> None:
    """The initial delay applies only to an Empty group, also to one that has become Empty."""
    context = GroupContext(initial_rebalance_delay_ms=1_000)
    (a,) = context.stable("A")
    context.member("B").join()
    assert a.join().response.generation_id == 2
    for member in context.broker.describe().members:
        leave(context.broker, (member.member_id, None))
    assert context.state == GroupState.EMPTY
    assert context.member("C").join().parked


def test_a_joiner_leaves_within_the_initial_delay() -> None:
    """A member that leaves in the initial delay is answered, and the phase continues."""
    context = GroupContext(initial_rebalance_delay_ms=1_000)
    a = context.member("A", version=5)
    a.join()
    parked = a.join()
    assert a.leave() is E.NONE
    assert (parked.error, parked.response.member_id) == (E.UNKNOWN_MEMBER_ID, "")
    described = context.broker.describe()
    assert (described.group_state, described.members) == ("PreparingRebalance", [])
    context.broker.advance(1_000)
    assert context.state == GroupState.EMPTY


def test_a_lost_id_ends_the_initial_delay() -> None:
    """When the last pending id expires, the initial delay ends for the waiting members."""
    context = GroupContext(initial_rebalance_delay_ms=20_000)
    parked = context.member("A").join()
    context.member("B", version=5).join()
    context.broker.advance(10_000)
    assert parked.response.generation_id == 1


def test_a_pending_id_holds_the_join_phase_up() -> None:
    """A pending id delays the join phase until it is used or its session timeout expires."""
    context = GroupContext()
    (a,), _, parked = context.preparing("A")
    context.member("X", version=5).join()
    rejoined = a.join()
    context.broker.advance(9_999)
    assert parked.parked
    context.broker.advance(1)
    assert len(rejoined.response.members) == 2
    assert parked.error is E.NONE
    assert "member_id.expired" in context.broker.event_names()


def test_those_who_do_not_rejoin_are_dropped() -> None:
    """Dynamic members that have not rejoined at the longest rebalance timeout are dropped."""
    context = GroupContext()
    a = context.member("A", rebalance_ms=20_000, session_ms=60_000)
    b = context.member("B", rebalance_ms=40_000, session_ms=60_000)
    context.stable(a, b)
    parked = a.join()
    context.broker.advance(39_999)
    assert parked.parked
    context.broker.advance(1)
    assert [one.member_id for one in parked.response.members] == [a.id]
    assert b.heartbeat() is E.UNKNOWN_MEMBER_ID
    a.learn()
    context.sync_all([a])
    rebalance = context.broker.explained[-1]
    assert [one.member_id for one in rebalance.dropped] == [b.id]
    assert rebalance.joined_ms == rebalance.started_ms + 40_000


def test_v0_waits_for_the_session_timeout() -> None:
    """JoinGroup v0 has no rebalance timeout, so the session timeout is used instead."""
    context = GroupContext()
    a = context.member("A", version=0, rebalance_ms=-1)
    b = context.member("B", version=0, rebalance_ms=-1, session_ms=9_000)
    context.stable(a, b)
    parked = a.join()
    context.broker.advance(8_000)
    b.heartbeat()
    context.broker.advance(1_999)
    assert parked.parked
    context.broker.advance(1)
    assert len(parked.response.members) == 1


@pytest.mark.parametrize("rebalance_ms", [0, -1])
def test_without_a_rebalance_timeout_nobody_has_time_to_sync(rebalance_ms: int) -> None:
    """With a rebalance timeout of 0 a member gets its generation and is dropped at once."""
    context = GroupContext()
    a = context.member("A", rebalance_ms=rebalance_ms)
    answer = a.join()
    context.broker.advance(0)
    a.learn()
    assert answer.response.generation_id == 1
    assert a.sync().error is E.UNKNOWN_MEMBER_ID
    assert context.state == GroupState.EMPTY


def test_a_new_member_may_wait_beyond_its_session() -> None:
    """A new member stays parked beyond its session timeout, for at most five minutes.

    A parked member cannot send heartbeats.
    """
    context = GroupContext()
    (a,) = context.stable("A", session_ms=600_000, rebalance_ms=600_000)
    parked = context.member("N").join()
    context.broker.advance(299_999)
    assert parked.parked
    context.broker.advance(1)
    assert (parked.error, parked.response.member_id) == (E.UNKNOWN_MEMBER_ID, "")
    assert a.join().response.generation_id == 2


def test_sessions_begin_with_the_generation() -> None:
    """A member's session starts with the response that has its generation."""
    context = GroupContext()
    (a,) = context.completing("A")
    context.broker.advance(9_999)
    assert context.state == GroupState.COMPLETING_REBALANCE
    context.broker.advance(1)
    assert context.state == GroupState.EMPTY
    assert a.heartbeat() is E.UNKNOWN_MEMBER_ID


def test_a_parked_join_speaks_for_an_old_member() -> None:
    """A member that waits in JoinGroup or SyncGroup does not expire."""
    context = GroupContext()
    a, b = context.stable("A", "B", rebalance_ms=60_000)
    b.session_ms = 60_000
    parked = a.join()
    b.heartbeat()
    for _ in range(4):
        context.broker.advance(9_000)
        b.heartbeat()
    b.join()
    a.learn()
    assert parked.error is E.NONE
    sync = b.sync()
    context.broker.advance(9_999)
    a.heartbeat()
    context.broker.advance(9_999)
    assert sync.parked
    assert a.sync({b.id: b"b"}).error is E.NONE
    context.broker.advance(9_999)
    assert b.heartbeat() is E.NONE


def test_a_follower_expires_before_its_sync() -> None:
    """A follower that expires in the sync phase starts a rebalance; the assignments are dropped."""
    context = GroupContext()
    a, b = context.stable("A", "B")
    b.protocols = [("range", b"new")]
    b.join()
    a.join()
    context.broker.advance(5_000)
    assert a.heartbeat(generation_id=2) is E.NONE
    context.broker.advance(5_000)
    described = context.broker.describe()
    assert described.group_state == "PreparingRebalance"
    assert [one.member_assignment for one in described.members] == [b""]
    fields = dict(context.broker.events)["group.rebalancing"]
    assert (fields["trigger"], fields["member"]) == ("member expired", b.id)


def test_a_member_expires_while_preparing() -> None:
    """A member that expires in the join phase ends the phase if all other members have joined."""
    context = GroupContext()
    a, b, c = context.stable("A", "B", "C", rebalance_ms=60_000)
    parked = a.join()
    context.broker.advance(5_000)
    c.heartbeat()
    context.broker.advance(5_000)
    assert parked.parked
    assert b.heartbeat() is E.UNKNOWN_MEMBER_ID
    context.broker.advance(5_000)
    assert len(parked.response.members) == 1
    assert context.broker.group is not None
    assert context.broker.group.rebalance is not None
    assert [one.member_id for one in context.broker.group.rebalance.dropped] == [b.id, c.id]
