"""LeaveGroup: single and batched, in every state."""

import pytest

from coordinator_server.core.groups.classic.state import GroupState
from protocol.errors import ErrorCode
from tests.unit.core.groups.context import GroupContext, leave

E = ErrorCode


@pytest.mark.parametrize("version", range(6))
def test_the_last_member_leaves(version: int) -> None:
    """After the last leave the group is Empty at the next generation and keeps its type.

    A second leave is UNKNOWN_MEMBER_ID.
    """
    context = GroupContext()
    (a,) = context.stable("A")
    for expected in (E.NONE, E.UNKNOWN_MEMBER_ID):
        response = leave(context.broker, (a.id, None), version=version).response
        error = response.members[0].error_code if version >= 3 else response.error_code
        assert error == expected
        assert version < 3 or response.error_code == E.NONE
    described = context.broker.describe()
    assert (described.group_state, described.protocol_type) == ("Empty", "consumer")
    recorded = context.broker.recorded
    assert recorded is not None
    assert (recorded.generation, recorded.protocol, recorded.leader) == (2, None, None)
    assert a.heartbeat() is E.UNKNOWN_MEMBER_ID
    context.broker.check_replay_law()


def test_leaving_a_group_that_does_not_exist() -> None:
    """A nonexistent group gives each member UNKNOWN_MEMBER_ID.

    Up to v2 the error is at the top level. An empty group id is invalid.
    """
    context = GroupContext()
    response = leave(context.broker, ("ghost", None), ("", "i")).response
    assert response.error_code == E.NONE
    assert [one.error_code for one in response.members] == [E.UNKNOWN_MEMBER_ID] * 2
    assert leave(context.broker, ("ghost", None), version=2).error is E.UNKNOWN_MEMBER_ID
    assert leave(context.broker).response.members == []
    assert context.broker.group is None


def test_a_follower_leaves() -> None:
    """A leaving follower causes a rebalance of the other members."""
    context = GroupContext()
    a, b = context.stable("A", "B")
    assert b.leave("r" * 300) is E.NONE
    assert a.heartbeat() is E.REBALANCE_IN_PROGRESS
    assert a.join().response.generation_id == 2
    fields = dict(context.broker.events)["group.rebalancing"]
    assert (fields["trigger"], fields["member"]) == ("member left", b.id)


def test_members_leave_while_preparing() -> None:
    """The join phase ends when all remaining members have joined."""
    context = GroupContext()
    a, b, c = context.stable("A", "B", "C")
    parked = a.join()
    b.leave()
    assert parked.parked
    c.leave()
    assert parked.response.generation_id == 2


def test_all_leave_in_one_request() -> None:
    """A LeaveGroup with all members empties the group in one step."""
    context = GroupContext()
    a, b = context.stable("A", "B")
    response = leave(context.broker, (a.id, None), (b.id, None), version=4).response
    assert [one.error_code for one in response.members] == [E.NONE, E.NONE]
    assert context.state == GroupState.EMPTY


def test_results_are_per_member() -> None:
    """In a LeaveGroup repeated, unknown and foreign members each get their own error."""
    context = GroupContext()
    a = context.member("A", instance_id="i1")
    b = context.member("B", instance_id="i2")
    context.stable(a, b, "C")
    response = leave(
        context.broker, ("ghost", None), ("ghost", "x"), (a.id, "i2"), (b.id, None), (b.id, None)
    ).response
    assert [ErrorCode(one.error_code) for one in response.members] == [
        E.UNKNOWN_MEMBER_ID,
        E.UNKNOWN_MEMBER_ID,
        E.FENCED_INSTANCE_ID,
        E.NONE,
        E.UNKNOWN_MEMBER_ID,
    ]
    assert response.members[1].group_instance_id == "x"
    assert context.state == GroupState.PREPARING_REBALANCE


def test_nobody_leaves_and_nothing_happens() -> None:
    """LeaveGroup of unknown members or of no members does not disturb a group."""
    context = GroupContext()
    (a,) = context.stable("A")
    leave(context.broker, ("ghost", None))
    assert leave(context.broker).response.members == []
    assert a.heartbeat() is E.NONE


def test_an_id_given_out_is_given_back() -> None:
    """A pending id that leaves no longer delays the join phase."""
    context = GroupContext()
    (a,), _, parked = context.preparing("A")
    pending = context.member("P", version=5)
    pending.join()
    rejoined = a.join()
    assert parked.parked
    assert pending.leave() is E.NONE
    assert parked.error is rejoined.error is E.NONE


def test_an_id_given_back_to_an_empty_group() -> None:
    """A pending id that leaves an empty group starts no rebalance."""
    context = GroupContext()
    pending = context.member("P", version=5)
    pending.join()
    assert pending.leave() is E.NONE
    assert context.state == GroupState.EMPTY


def test_a_parked_join_of_a_member_that_leaves() -> None:
    """The parked join of a leaving member gets UNKNOWN_MEMBER_ID with an empty member id."""
    context = GroupContext()
    a, b = context.stable("A", "B")
    parked = a.join()
    a.leave()
    assert (parked.error, parked.response.member_id) == (E.UNKNOWN_MEMBER_ID, "")
    assert b.join().response.leader == b.id


def test_the_last_leave_fails_when_the_log_does() -> None:
    """If the log fails, a leaving member gets the coordinator error but is removed, as in Kafka."""
    context = GroupContext()
    (a,) = context.stable("A")
    context.broker.append_error = lambda: E.REQUEST_TIMED_OUT
    assert leave(context.broker, (a.id, None)).error is E.COORDINATOR_NOT_AVAILABLE
    context.broker.append_error = lambda: E.NONE
    assert a.heartbeat() is E.UNKNOWN_MEMBER_ID
