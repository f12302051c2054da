"""Static members (KIP-345, KIP-814)."""

import pytest

from coordinator_server.core.groups.classic.state import GroupState
from protocol.errors import ErrorCode
from tests.unit.core.groups.context import GroupContext, Member, leave

E = ErrorCode


def pair(context: GroupContext, version: int = 5) -> tuple[Member, Member]:
    """Return two static members in a Stable group; the first one leads."""
    a = context.member("A", version=version, instance_id="i1")
    b = context.member("B", version=version, instance_id="i2")
    context.stable(a, b)
    return a, b


def restarted(context: GroupContext, member: Member, **options: object) -> Member:
    """Return the same static member without its id."""
    fields: dict[str, object] = {"version": member.version, "protocols": member.protocols}
    return Member(
        context.broker,
        "X",
        instance_id=member.instance_id,
        **fields | options,  # type: ignore[arg-type]  # keyword options
    )


@pytest.mark.parametrize("version", [5, 6, 9])
def test_a_static_member_needs_no_second_request(version: int) -> None:
    """A static member is added at its first request, with the instance id in its member id."""
    context = GroupContext()
    (a,) = context.completing(context.member("A", version=version, instance_id="i1"))
    assert a.id == "i1-1"
    assert len(a.joins) == 1
    assert a.joins[0].response.members[0].group_instance_id == "i1"


@pytest.mark.parametrize(
    ("version", "leader", "members", "skip"), [(5, "old", 0, False), (9, "new", 2, True)]
)
def test_a_leader_restarts_in_stable(version: int, leader: str, members: int, skip: bool) -> None:
    """A restart of the leader in Stable causes no rebalance.

    v9 sets skip_assignment; before v9 the leader is told that it is a follower.
    """
    context = GroupContext()
    a, b = pair(context, version)
    x = restarted(context, a)
    response = x.join().response
    assert response.error_code == E.NONE
    assert response.generation_id == 1
    assert response.leader == (a.id if leader == "old" else x.id)
    assert (len(response.members), response.skip_assignment) == (members, skip)
    assert b.heartbeat() is E.NONE
    assert x.sync(version=5, protocol_type="consumer", protocol_name="range").response.assignment
    assert context.state == GroupState.STABLE
    assert context.broker.group is not None
    assert context.broker.group.membership.leader_id == x.id
    context.broker.check_replay_law()


def test_a_follower_restarts_with_other_metadata() -> None:
    """Changed metadata of a restarted follower starts no rebalance if the vote is unchanged."""
    context = GroupContext()
    a, b = pair(context, 9)
    x = restarted(context, b, protocols=[("range", b"changed")])
    response = x.join().response
    assert (response.leader, response.members, response.skip_assignment) == (a.id, [], False)
    assert context.broker.describe().members[1].member_metadata == b"changed"
    context.broker.check_replay_law()


@pytest.mark.parametrize(("before_ms", "after_ms"), [(8_000, 30_000), (30_000, 8_000)])
def test_the_first_session_after_a_restart_is_as_long_as_the_last(
    before_ms: int, after_ms: int
) -> None:
    """A restarted member's new session timeout applies from its first heartbeat on."""
    context = GroupContext()
    context.stable(a := context.member("A", instance_id="i1", session_ms=before_ms))
    x = restarted(context, a, session_ms=after_ms)
    assert x.join().error is E.NONE
    context.broker.advance(before_ms - 1)
    assert x.heartbeat() is E.NONE
    context.broker.advance(after_ms - 1)
    assert context.state == GroupState.STABLE
    context.broker.advance(1)
    assert context.state == GroupState.EMPTY


def test_a_restart_that_changes_the_vote_rebalances() -> None:
    """A restart that would change the chosen protocol starts a rebalance."""
    context = GroupContext()
    lists = [("range", b""), ("sticky", b"")]
    a = context.member("A", instance_id="i1", protocols=lists)
    context.stable(a)
    x = restarted(context, a, protocols=[("sticky", b""), ("range", b"")])
    answer = x.join()
    assert answer.response.generation_id == 2
    assert answer.response.protocol_name == "sticky"


def test_the_old_self_is_fenced_everywhere() -> None:
    """Requests with the old member id get FENCED_INSTANCE_ID.

    Without the instance id the error is UNKNOWN_MEMBER_ID.
    """
    context = GroupContext()
    a = context.member("A", instance_id="i1")
    context.stable(a)
    restarted(context, a).join()
    assert a.heartbeat() is E.FENCED_INSTANCE_ID
    assert a.sync().error is E.FENCED_INSTANCE_ID
    assert a.join().error is E.FENCED_INSTANCE_ID
    assert a.commit(("one", 0, 1)) == [E.FENCED_INSTANCE_ID]
    assert a.leave() is E.FENCED_INSTANCE_ID
    assert leave(context.broker, (a.id, None), version=2).error is E.UNKNOWN_MEMBER_ID


def test_instance_and_member_id_must_belong_together() -> None:
    """An instance id with a wrong member id gets FENCED_INSTANCE_ID.

    An unknown instance id gets UNKNOWN_MEMBER_ID; a request without an instance id is accepted.
    """
    context = GroupContext()
    a, b = pair(context)
    assert a.join(member_id=b.id).error is E.FENCED_INSTANCE_ID
    assert a.join(group_instance_id="i9").error is E.UNKNOWN_MEMBER_ID
    assert a.heartbeat(member_id="") is E.FENCED_INSTANCE_ID
    assert a.heartbeat(group_instance_id=None) is E.NONE
    assert a.join(group_instance_id=None).parked


def test_a_restart_while_its_own_join_is_parked() -> None:
    """A leader that restarts while its join is parked fences the old request and leads again."""
    context = GroupContext()
    a, b = pair(context)
    old = a.join()
    x = restarted(context, a)
    new = x.join()
    assert (old.error, old.response.member_id) == (E.FENCED_INSTANCE_ID, a.id)
    assert new.parked
    b.join()
    assert new.response.leader == new.response.member_id
    assert new.response.generation_id == 2


def test_a_restart_while_preparing_completes_the_join_phase() -> None:
    """A restart in the join phase counts as joined and can complete the phase."""
    context = GroupContext()
    a, b = pair(context)
    parked = a.join()
    assert restarted(context, b).join().error is E.NONE
    assert parked.response.generation_id == 2
    assert b.heartbeat() is E.FENCED_INSTANCE_ID


def test_a_restart_while_completing_rebalances() -> None:
    """A restart in the sync phase starts a rebalance and fences the old parked sync.

    The leader may already assign to the old id.
    """
    context = GroupContext()
    a = context.member("A", instance_id="i1")
    b = context.member("B", instance_id="i2")
    c = context.member("C")
    context.completing(a, b, c)
    old, other = b.sync(), c.sync()
    x = restarted(context, b)
    assert x.join().parked
    assert old.error is E.FENCED_INSTANCE_ID
    assert other.error is E.REBALANCE_IN_PROGRESS
    assert context.state == GroupState.PREPARING_REBALANCE


def test_a_restart_before_its_sync_takes_over_the_duty_to_sync() -> None:
    """A member that restarts in Stable without having synced must still sync in time."""
    context = GroupContext()
    a = context.member("A", instance_id="i1")
    b = context.member("B", instance_id="i2")
    context.completing(a, b)
    a.sync({b.id: b"b"})
    x = restarted(context, b)
    x.join()
    for _ in range(5):
        context.broker.advance(6_000)
        a.heartbeat()
        x.heartbeat()
    assert x.heartbeat() is E.UNKNOWN_MEMBER_ID


def test_a_restart_that_cannot_be_recorded_is_undone() -> None:
    """If a restart cannot be recorded, the old id stays valid with its protocols and timeouts.

    The joining member gets the error.
    """
    context = GroupContext()
    a, _ = pair(context)
    context.broker.append_error = lambda: E.NOT_ENOUGH_REPLICAS
    x = restarted(context, a, protocols=[("range", b"new")], session_ms=20_000)
    answer = x.join()
    assert (answer.error, answer.response.member_id) == (E.COORDINATOR_NOT_AVAILABLE, "")
    context.broker.append_error = lambda: E.NONE
    assert a.heartbeat() is E.NONE
    assert context.broker.describe().members[0].member_metadata == a.protocols[0][1]
    context.broker.write_failed = False
    context.broker.check_replay_law()


def test_a_rebalance_overtakes_a_restart_being_recorded() -> None:
    """A join that comes before a restart is recorded starts a rebalance.

    The restarted member then gets its response at the end of the join phase.
    """
    context = GroupContext()
    a, b = pair(context)
    x = restarted(context, a)
    with context.broker.one_drain():
        answer = x.join()
        newcomer = context.member("N").join()
    assert answer.parked
    assert newcomer.parked
    b.join()
    assert answer.response.generation_id == newcomer.response.generation_id == 2


def test_an_administrator_removes_a_static_member_by_its_instance() -> None:
    """LeaveGroup with only an instance id removes the member."""
    context = GroupContext()
    _, b = pair(context)
    answer = leave(context.broker, ("", "i2"), ("", "i9"), ("", None))
    errors = [ErrorCode(one.error_code) for one in answer.response.members]
    assert errors == [E.NONE, E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID]
    assert b.heartbeat() is E.UNKNOWN_MEMBER_ID


def test_missing_static_members_stay_in_the_new_generation() -> None:
    """A static member that does not rejoin keeps its place but not the leadership."""
    context = GroupContext()
    a, b = pair(context)
    b.protocols = [("range", b"new")]
    answer = b.join()
    for _ in range(5):
        context.broker.advance(6_000)
        assert a.heartbeat() in (E.REBALANCE_IN_PROGRESS, E.ILLEGAL_GENERATION)
    assert (answer.response.leader, len(answer.response.members)) == (b.id, 2)
    assert a.heartbeat() is E.ILLEGAL_GENERATION


@pytest.mark.parametrize("rebalance_ms", [30_000, 0])
def test_a_join_phase_that_nobody_joins_waits_for_the_sessions(rebalance_ms: int) -> None:
    """If no member rejoins and all are static, the join phase lasts until they join or expire."""
    context = GroupContext()
    a, b = context.member("A", instance_id="i1"), context.member("B", instance_id="i2")
    (*_, c) = context.stable(a, b, "C")
    a, b = (restarted(context, one, rebalance_ms=rebalance_ms) for one in (a, b))
    for one in (a, b):
        one.join()
        one.sync()
    assert c.leave() is E.NONE
    for _ in range(10):
        context.broker.advance(6_000)
        assert a.heartbeat() is b.heartbeat() is E.REBALANCE_IN_PROGRESS
    context.broker.advance(9_999)
    assert context.state == GroupState.PREPARING_REBALANCE
    context.broker.advance(1)
    assert context.state == GroupState.EMPTY
