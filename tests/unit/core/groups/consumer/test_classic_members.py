"""SyncGroup, Heartbeat, LeaveGroup and offsets of classic members in a consumer group."""

from __future__ import annotations

import pytest

from coordinator_server.core.groups.consumer.member import MemberState
from protocol.apis.consumer_group_describe import CLASSIC_MEMBER, CONSUMER_MEMBER
from protocol.consumer_protocol import version_of
from protocol.errors import ErrorCode
from tests.unit.core.groups.consumer.context import ConsumerMember
from tests.unit.core.groups.consumer.migration import (
    SESSION_MS,
    THREE,
    MigrationContext,
    assigned,
    subscribed,
)
from tests.unit.core.groups.context import Member, fetch, leave

E = ErrorCode


def reconciling() -> tuple[MigrationContext, Member, ConsumerMember]:
    """Return classic member M, which owns all of `three`, and A, which has just joined."""
    context = MigrationContext()
    (m,) = context.stable({"M": THREE}, protocols=subscribed("three", owned=THREE))
    a = context.member("A", "three")
    a.join()
    return context, m, a


# --- SyncGroup


def test_sync_gives_what_the_member_owns() -> None:
    """SyncGroup returns the owned partitions, in the version of the member's metadata.

    Type and name of the protocol are those of the request.
    """
    context = MigrationContext()
    m, _ = context.mixed()
    response = m.sync(version=5, protocol_type="consumer", protocol_name="range").response
    assert (response.protocol_type, response.protocol_name) == ("consumer", "range")
    assert version_of(response.assignment) == 1
    assert assigned(m.sync()) == {"three": [0, 1]}


def test_sync_after_a_restart() -> None:
    """After a restart SyncGroup is answered as before, although no sync is pending."""
    context = MigrationContext()
    m, _ = context.mixed()
    context.broker.crash()
    assert assigned(m.sync()) == {"three": [0, 1]}


def test_a_topic_that_is_gone_is_left_out() -> None:
    """A deleted topic is left out of the assignment until the member rejoins."""
    context = MigrationContext()
    m, _ = context.mixed()
    context.change_topics(three=0)
    assert assigned(m.sync()) == {}


def test_who_may_not_sync() -> None:
    """Unknown members, consumer members, old generations and other protocols cannot sync."""
    context = MigrationContext()
    m, a = context.mixed()
    assert m.sync(member_id="x").error is E.UNKNOWN_MEMBER_ID
    assert m.sync(member_id=a.id).error is E.UNKNOWN_MEMBER_ID
    assert m.sync(group_instance_id="i1").error is E.UNKNOWN_MEMBER_ID
    assert m.sync(generation_id=1).error is E.ILLEGAL_GENERATION
    for kind, name in (("connect", "range"), ("consumer", "other")):
        answer = m.sync(version=5, protocol_type=kind, protocol_name=name)
        assert answer.error is E.INCONSISTENT_GROUP_PROTOCOL
    a.leave()
    context = MigrationContext()
    a = context.member("A", "three")
    a.join()
    a.leave()
    assert m.broker is not context.broker
    m.broker = context.broker
    assert m.sync().error is m.heartbeat() is E.UNKNOWN_MEMBER_ID  # the group is Empty


def test_who_has_to_rejoin_may_not_sync() -> None:
    """A member with a new target must rejoin before it can sync.

    A member that has rejoined may sync although it still has partitions to revoke.
    """
    context, m, _ = reconciling()
    assert m.sync().error is E.REBALANCE_IN_PROGRESS
    m.join()
    assert context.group.current(m.id).state is MemberState.UNREVOKED_PARTITIONS
    assert assigned(m.sync()) == {"three": [0, 1]}
    context.check()


# --- Heartbeat


def test_heartbeats() -> None:
    """Heartbeats tell a member when to rejoin, and always renew its session."""
    context, m, _ = reconciling()
    for _ in range(2):
        context.broker.advance(SESSION_MS - 1)
        context.member("A").send(member_epoch=2)
        assert m.heartbeat() is E.REBALANCE_IN_PROGRESS
    m.join()
    m.sync()
    assert m.heartbeat() is E.REBALANCE_IN_PROGRESS
    assert m.heartbeat(generation_id=7) is E.ILLEGAL_GENERATION
    assert m.heartbeat(member_id="x") is E.UNKNOWN_MEMBER_ID
    context.check()


# --- timers


def test_who_does_not_rejoin_in_time_is_fenced() -> None:
    """A member that does not rejoin is fenced.

    Its rebalance timeout starts with the first REBALANCE_IN_PROGRESS.
    """
    context, m, a = reconciling()
    for told in range(6):
        assert m.heartbeat() is E.REBALANCE_IN_PROGRESS, told
        assert a.own() is E.NONE
        context.broker.advance(5_000)
    assert m.heartbeat() is E.UNKNOWN_MEMBER_ID
    assert ("member.dropped", {"group": "g", "member": m.id, "reason": "not rejoined"}) in (
        context.broker.events
    )
    assert (a.own(), a.owned) == (E.NONE, THREE)
    context.check()


def test_who_does_not_sync_in_time_is_fenced() -> None:
    """A member that does not sync is fenced; its rebalance timeout starts with its JoinGroup."""
    context, m, a = reconciling()
    m.heartbeat()
    m.join()
    for _ in range(6):
        context.broker.advance(4_999)
        assert m.heartbeat() is E.REBALANCE_IN_PROGRESS
        assert a.own() is E.NONE
    context.broker.advance(6)
    assert m.heartbeat() is E.UNKNOWN_MEMBER_ID
    assert context.broker.events[-1][1]["reason"] == "never synced"
    context.check()


def test_who_has_rejoined_and_synced_is_left_alone() -> None:
    """A member that has rejoined and synced has no timers until it must rejoin again."""
    context, m, a = reconciling()
    m.heartbeat()
    context.broker.advance(9_000)
    m.protocols = subscribed("three")
    context.settle(m, a)
    for _ in range(8):
        context.broker.advance(5_000)
        assert m.heartbeat() is a.own() is E.NONE
    b = context.member("B", "three")
    b.join()
    assert m.heartbeat() is E.REBALANCE_IN_PROGRESS
    context.settle(m, a, b)
    context.check()


def test_a_session_ends() -> None:
    """A classic member's session has the length that the member requested."""
    context = MigrationContext()
    m, a = context.mixed()
    context.broker.advance(SESSION_MS - 1)
    assert m.id in context.group.members
    context.broker.advance(1)
    assert list(context.group.members) == [a.id]
    expired = {"group": "g", "member": m.id, "session_timeout_ms": SESSION_MS}
    assert ("member.expired", expired) in context.broker.events
    assert (a.own(), a.owned) == (E.NONE, THREE)
    context.check()


# --- LeaveGroup


def test_members_of_both_protocols_leave_together() -> None:
    """Members of both protocols can leave together, with one new group epoch.

    Unknown members get UNKNOWN_MEMBER_ID.
    """
    context = MigrationContext()
    m, a = context.mixed()
    b = context.member("B", "three", instance_id="i1")
    c = context.member("C", "three")
    b.join()
    c.join()
    epoch = context.group.epoch
    answer = leave(
        context.broker, (m.id, None), (m.id, None), (a.id, None), ("", "i1"), ("x", None), ("", "i")
    )
    errors = [one.error_code for one in answer.response.members]
    assert errors == [E.NONE, E.NONE, E.NONE, E.NONE, E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID]
    assert list(context.group.members) == [c.id]
    assert context.group.epoch == epoch + 1
    assert context.broker.event_names().count("member.left") == 4
    context.check()


def test_a_static_member_is_named_by_both_ids() -> None:
    """A static member leaves by member id and instance id, or by its instance id alone."""
    context = MigrationContext()
    context.mixed()
    b = context.member("B", "three", instance_id="i1")
    b.join()
    (result,) = leave(context.broker, ("x", "i1")).response.members
    assert result.error_code == E.FENCED_INSTANCE_ID
    (result,) = leave(context.broker, (b.id, "i1")).response.members
    assert (result.error_code, result.member_id) == (E.NONE, b.id)


@pytest.mark.parametrize("version", [2, 5])
def test_nobody_leaves(version: int) -> None:
    """A LeaveGroup without known members writes nothing; up to v2 its error is at the top level."""
    context = MigrationContext()
    context.mixed()
    size = len(context.broker.log)
    answer = leave(context.broker, ("x", None), version=version)
    assert answer.error is (E.UNKNOWN_MEMBER_ID if version == 2 else E.NONE)
    assert len(context.broker.log) == size


def test_a_leave_that_cannot_be_written() -> None:
    """If a leave cannot be written, the member stays."""
    context = MigrationContext()
    m, a = context.mixed()
    context.broker.append_error = lambda: E.KAFKA_STORAGE_ERROR
    assert leave(context.broker, (m.id, None)).error is E.NOT_COORDINATOR
    assert sorted(context.group.members) == sorted([m.id, a.id])


def test_an_expression_ends_with_its_last_member() -> None:
    """A resolved pattern is dropped when the last of its members leaves."""
    context = MigrationContext()
    members = [context.member(name, regex="t.*", version=1) for name in "ABC"]
    for member in members:
        member.join()
        context.broker.advance(1)
    assert list(context.group.resolved) == ["t.*"]
    leave(context.broker, ("A", None))
    assert list(context.group.resolved) == ["t.*"]
    leave(context.broker, ("B", None), ("C", None))
    assert context.group.resolved == {}
    context.check()


def test_many_leave_in_steps() -> None:
    """A LeaveGroup with many members runs in steps."""
    context = MigrationContext()
    context.mixed()
    answer = leave(context.broker, *[(f"x{number}", None) for number in range(501)])
    assert len(answer.response.members) == 501


# Combined requests


def test_requests_of_one_drain_see_each_other() -> None:
    """Of requests that are handled together, each sees the writes of the requests before it."""
    context = MigrationContext()
    a = context.member("A", "three")
    a.join()
    members = [context.old(name) for name in "MN"]
    with context.broker.one_drain():
        for member in members:
            member.join()
    for member in members:
        member.learn()
    assert [member.generation for member in members] == [3, 4]
    with context.broker.one_drain():
        left = leave(context.broker, (members[0].id, None))
        beat = members[0].send_heartbeat()
        commit = members[1].send_heartbeat()
    assert left.response.members[0].error_code == E.NONE
    assert (beat.error, commit.error) == (E.UNKNOWN_MEMBER_ID, E.NONE)
    context.check()


# Offsets and descriptions


def test_offsets_of_classic_members() -> None:
    """Classic members commit with their generation, or an owned partition's older generation."""
    context = MigrationContext()
    m, _ = context.mixed()
    assert m.commit(("three", 0, 5)) == [E.NONE]
    assert m.commit(("three", 1, 5), generation_id_or_member_epoch=1) == [E.NONE]
    assert m.commit(("three", 2, 5), generation_id_or_member_epoch=1) == [E.ILLEGAL_GENERATION]
    assert m.commit(("three", 0, 5), generation_id_or_member_epoch=0) == [E.ILLEGAL_GENERATION]
    assert m.commit(("three", 0, 5), generation_id_or_member_epoch=9) == [E.ILLEGAL_GENERATION]
    assert m.commit(("three", 0, 5), member_id="x") == [E.UNKNOWN_MEMBER_ID]
    assert fetch(context.broker, "three", 0).topics[0].partitions[0].committed_offset == 5
    assert context.group.check_fetch(m.id, 1) is E.ILLEGAL_GENERATION
    assert context.group.check_fetch(m.id, 2) is E.NONE


def test_what_a_description_shows() -> None:
    """A description has each member's type; for DescribeGroups the group does not exist."""
    context = MigrationContext()
    m, a = context.mixed()
    types = {one.member_id: one.member_type for one in context.describe().members}
    assert types == {m.id: CLASSIC_MEMBER, a.id: CONSUMER_MEMBER}
    assert context.broker.describe(5).group_state == "Dead"
    assert context.broker.describe(6).error_code == E.GROUP_ID_NOT_FOUND
