"""A consumer group becomes a classic group again."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_server.core.groups.classic.state import GroupState
from coordinator_server.core.groups.explain import RebalanceOutcome, Trigger
from protocol.consumer_protocol import decode_assignment
from protocol.errors import ErrorCode
from protocol.offsets_log import GroupMetadataValue
from tests.unit.core.groups.consumer.context import ConsumerMember
from tests.unit.core.groups.consumer.migration import (
    SESSION_MS,
    THREE,
    MigrationContext,
    assigned,
    assignment,
    subscribed,
)
from tests.unit.core.groups.context import Member, leave, offsets

E = ErrorCode


def test_the_last_consumer_leaves() -> None:
    """When the last consumer member leaves, the classic members rejoin, and a leader assigns."""
    context = MigrationContext()
    m, a = context.mixed()
    assert m.commit(("three", 0, 7)) == [E.NONE]
    assert a.leave() is E.NONE
    assert context.classic_group.state is GroupState.PREPARING_REBALANCE
    assert m.heartbeat() is E.REBALANCE_IN_PROGRESS
    assert m.sync().error is E.REBALANCE_IN_PROGRESS
    response = m.join().response
    assert (response.generation_id, response.leader) == (3, m.id)
    assert assigned(m.sync({m.id: assignment(THREE)})) == THREE
    assert a.beat() is E.GROUP_ID_NOT_FOUND
    assert offsets(context.broker) == {("three", 0): (7, "")}
    context.broker.check_replay_law()


def test_the_records_are_those_of_kafka() -> None:
    """The records end the consumer group, then store a classic group with the target assignment."""
    context = MigrationContext()
    m, a = context.mixed()
    mark = len(context.broker.log)
    a.leave()
    assert context.kinds_since(mark) == [
        "-ConsumerGroupCurrentMemberAssignment",
        "-ConsumerGroupCurrentMemberAssignment",
        "-ConsumerGroupTargetAssignmentMember",
        "-ConsumerGroupTargetAssignmentMember",
        "-ConsumerGroupTargetAssignmentMetadata",
        "-ConsumerGroupMemberMetadata",
        "-ConsumerGroupMemberMetadata",
        "-ConsumerGroupPartitionMetadata",
        "-ConsumerGroupMetadata",
        "GroupMetadata",
    ]
    *_, (_, value) = context.since(mark)
    assert isinstance(value, GroupMetadataValue)
    assert (value.protocol_type, value.protocol, value.generation) == ("consumer", "range", 2)
    assert (value.leader, value.current_state_timestamp) == (m.id, context.broker.now_ms)
    (member,) = value.members
    assert (member.member_id, member.client_id, member.group_instance_id) == (m.id, "M", None)
    assert (member.rebalance_timeout, member.session_timeout) == (m.rebalance_ms, SESSION_MS)
    assert member.subscription == m.protocols[0][1]
    (owned,) = decode_assignment(member.assignment).assigned_partitions
    assert (owned.topic, owned.partitions) == ("three", [0, 1])
    assert member.assignment[:2] == b"\0\1"  # the assignment has the subscription's version
    context.broker.check_replay_law()


def test_the_account_of_the_rebalance() -> None:
    """The rebalance record names the last consumer member."""
    context = MigrationContext()
    m, a = context.mixed()
    a.leave()
    downgraded = {"group": "g", "generation": 2, "members": 1}
    assert ("group.downgraded", downgraded) in context.broker.events
    m.join()
    m.sync({m.id: assignment(THREE)})
    account = context.broker.explained[-1]
    assert (account.cause.trigger, account.cause.member_id) == (Trigger.GROUP_DOWNGRADED, a.id)
    assert account.outcome is RebalanceOutcome.STABLE


def by_heartbeat(context: MigrationContext, a: ConsumerMember, _: Member) -> None:
    """Let A leave."""
    assert a.leave() is E.NONE


def by_leave_group(context: MigrationContext, a: ConsumerMember, _: Member) -> None:
    """Remove A by LeaveGroup."""
    (result,) = leave(context.broker, (a.id, None)).response.members
    assert result.error_code == E.NONE


def by_session(context: MigrationContext, a: ConsumerMember, m: Member) -> None:
    """Let A's session expire."""
    for _ in range(9):
        context.broker.advance(5_000)
        m.heartbeat()


def by_revocation(context: MigrationContext, a: ConsumerMember, m: Member) -> None:
    """Let A's rebalance timeout expire without a revocation."""
    n = context.old("N")
    n.join()
    n.sync()
    for _ in range(6):
        a.beat()
        m.heartbeat()
        n.heartbeat()
        context.broker.advance(5_000)
    leave(context.broker, (n.id, None))


@pytest.mark.parametrize("go", [by_heartbeat, by_leave_group, by_session, by_revocation])
def test_every_way_to_go(go: Any) -> None:
    """However the last consumer member goes, the classic members must rejoin."""
    context = MigrationContext()
    (m,) = context.stable({"M": {}})
    a = context.member("A", "three")
    a.join()
    context.rejoin(m)
    go(context, a, m)
    generation = context.classic_group.generation_id
    assert m.heartbeat(generation_id=generation) is E.REBALANCE_IN_PROGRESS
    assert context.classic_group.state is GroupState.PREPARING_REBALANCE
    context.broker.check_replay_law()


def test_members_go_together() -> None:
    """A classic member that leaves together with the last consumer member is not converted."""
    context = MigrationContext()
    m, a = context.mixed()
    n = context.old("N")
    n.join()
    leave(context.broker, (a.id, None), (m.id, None))
    assert list(context.classic_group.membership.members) == [n.id]
    context.broker.check_replay_law()


def stays(context: MigrationContext) -> None:
    """Check that the group stays a consumer group when its last consumer member leaves."""
    m, a = context.mixed()
    n = context.old("N")
    n.join()
    assert a.leave() is E.NONE
    assert sorted(context.group.members) == sorted([m.id, n.id])
    context.settle(m, n)
    assert context.owned_by(m).keys() | context.owned_by(n).keys() == {"three"}
    context.check()


def test_when_the_group_stays_what_it_is() -> None:
    """A conversion needs a policy that allows it, and a group within `group.max.size`."""
    stays(MigrationContext(consumer_migration_policy="upgrade"))
    stays(MigrationContext(max_size=1))


def test_others_of_the_consumer_protocol_are_left() -> None:
    """With another consumer member, or without any member, the group is not converted."""
    context = MigrationContext()
    m, a = context.mixed()
    b = context.member("B", "three")
    b.join()
    a.leave()
    assert len(context.group.members) == 2
    m.leave()
    b.leave()
    assert context.state == "Empty"
    context.check()


def test_a_classic_member_is_the_last_to_go() -> None:
    """With no consumer member left, any leave converts the group."""
    context = MigrationContext(consumer_migration_policy="upgrade")
    m, a = context.mixed()
    n = context.old("N")
    n.join()
    a.leave()
    allowed = context.broker.settings._replace(consumer_migration_policy="bidirectional")
    context.broker.settings = allowed
    context.broker.crash()
    m.leave()
    assert list(context.classic_group.membership.members) == [n.id]
    context.broker.check_replay_law()


def test_members_have_new_sessions() -> None:
    """Converted members get sessions of their own length, and must rejoin in time.

    Members that have not rejoined at the rebalance timeout are removed.
    """
    context = MigrationContext()
    m, a = context.mixed()
    n = context.old("N", session_ms=20_000)
    n.join()
    context.broker.advance(SESSION_MS - 1)
    a.leave()
    context.broker.advance(SESSION_MS - 1)
    assert m.heartbeat() is E.ILLEGAL_GENERATION  # N has raised the epoch without M's knowledge
    assert m.heartbeat(generation_id=3) is E.REBALANCE_IN_PROGRESS
    context.broker.advance(SESSION_MS)
    assert m.heartbeat() is E.UNKNOWN_MEMBER_ID
    assert n.heartbeat() is E.REBALANCE_IN_PROGRESS
    assert n.join().response.generation_id == 4


def test_all_protocols_of_the_members_count_again() -> None:
    """The next vote counts all protocols of the members, not only the chosen protocol."""
    context = MigrationContext()
    metadata = subscribed("three")[0][1]
    both = [("range", metadata), ("roundrobin", metadata)]
    (m,) = context.stable({"M": THREE}, protocols=both)
    a = context.member("A", "three")
    a.join()
    a.leave()
    assert context.classic_group.protocol_name == "range"
    n = context.old("N", protocols=[("roundrobin", metadata)])
    n.join()
    assert m.join().response.protocol_name == "roundrobin"


def test_metadata_without_a_version() -> None:
    """The assignment has version 0 if the metadata of the chosen protocol is unreadable.

    Only the first protocol's metadata was parsed before.
    """
    context = MigrationContext()
    m = context.old("M", protocols=[*subscribed("three"), ("other", b"")])
    a = context.member("A", "three")
    a.join()
    m.join()
    n = context.old("N", protocols=[("other", subscribed("three")[0][1])])
    assert n.join().error is E.NONE
    a.leave()
    assert context.classic_group.protocol_name == "other"
    assert context.classic_group.subscribed_topics is None
    context.broker.check_replay_law()


def test_it_stays_a_consumer_group_if_the_log_refuses() -> None:
    """If the log refuses, the group is not converted: a leave fails, and a fence is retried."""
    context = MigrationContext()
    m, a = context.mixed()
    takes = context.broker.append_error
    context.broker.append_error = lambda: E.NOT_ENOUGH_REPLICAS
    assert a.leave() is E.COORDINATOR_NOT_AVAILABLE
    by_session(context, a, m)
    assert sorted(context.group.members) == sorted([m.id, a.id])
    context.broker.append_error = takes
    context.broker.advance(500)
    assert context.classic_group.member_count == 1
    context.broker.check_replay_law()


def test_after_a_restart_it_is_a_classic_group() -> None:
    """After a restart the group is a Stable classic group with the target assignment."""
    context = MigrationContext()
    m, a = context.mixed()
    a.leave()
    context.broker.crash()
    assert m.heartbeat() is E.NONE
    assert assigned(m.sync()) == {"three": [0, 1]}
    context.broker.check_replay_law()


# Returning static members


def static_a(context: MigrationContext, **options: Any) -> tuple[Member, ConsumerMember]:
    """Return classic member M and the static consumer member A."""
    (m,) = context.stable({"M": THREE})
    a = context.member("A", "three", instance_id="i1", **options)
    a.join()
    context.settle(m, a)
    return m, a


def test_a_static_member_takes_over_without_a_rebalance() -> None:
    """A returning static member converts the group without a rebalance and keeps its assignment."""
    context = MigrationContext()
    m, a = static_a(context)
    new = context.old("A2", instance_id="i1")
    mark = len(context.broker.log)
    response = new.join().response
    assert (response.error_code, response.generation_id, response.leader) == (E.NONE, 2, "")
    kinds = context.kinds_since(mark)
    assert kinds[-1] == "GroupMetadata"
    assert context.broker.batches[-1] == len(kinds)
    group = context.classic_group
    assert (group.state, group.generation_id) == (GroupState.STABLE, 2)
    assert list(group.membership.members) == [m.id, new.id]
    assert assigned(new.sync()) == {"three": [2]}
    assert assigned(m.sync()) == {"three": [0, 1]}
    assert (m.heartbeat(), new.heartbeat()) == (E.NONE, E.NONE)
    assert a.beat() is E.GROUP_ID_NOT_FOUND
    context.broker.check_replay_law()
    context.broker.advance(SESSION_MS)
    assert m.heartbeat() is E.UNKNOWN_MEMBER_ID


def test_a_static_member_takes_over_with_its_own_id() -> None:
    """A static member can take over with its own id and the other protocol."""
    context = MigrationContext()
    m, a = static_a(context)
    new = context.old("A", instance_id="i1")
    new.id = a.id
    assert new.join().response.generation_id == 2
    assert list(context.classic_group.membership.members) == [m.id, a.id]
    assert assigned(new.sync()) == {"three": [2]}
    context.broker.check_replay_law()


def test_a_static_member_brings_another_subscription() -> None:
    """If the static member returns with another subscription, all members must rejoin.

    The static member itself gets generation 0.
    """
    context = MigrationContext()
    m, _ = static_a(context)
    new = context.old("A2", "one", "three", instance_id="i1")
    assert new.join().response.generation_id == 0
    assert context.classic_group.state is GroupState.PREPARING_REBALANCE
    assert new.sync().error is E.ILLEGAL_GENERATION
    assert m.heartbeat() is E.REBALANCE_IN_PROGRESS
    m.join()
    assert new.join().response.generation_id == 3
    context.broker.check_replay_law()


def test_the_expression_of_a_static_member_ends() -> None:
    """The pattern of a static member is dropped when no member subscribes to it any more."""
    context = MigrationContext()
    (m,) = context.stable({"M": THREE})
    a = context.member("A", regex="th.*", instance_id="i1")
    a.join()
    context.broker.advance(1)
    new = context.old("A2", instance_id="i1")
    assert new.join().error is E.NONE
    assert m.id in context.classic_group.membership.members
    context.broker.check_replay_law()


def test_when_a_static_member_converts_nothing() -> None:
    """A static member converts nothing if the policy forbids this or the group is too large.

    The same holds if other members use the consumer protocol.
    """
    for settings in ({"consumer_migration_policy": "upgrade"}, {"max_size": 1}):
        context = MigrationContext(**settings)
        static_a(context)
        assert context.old("A2", instance_id="i1").join().error is E.NONE
        assert context.group.classic_count == 2
        context.check()
    context = MigrationContext()
    _, a = static_a(context)
    b = context.member("B", "three")
    b.join()
    assert context.old("A2", instance_id="i1").join().error is E.NONE
    assert context.group.classic_count == 2
    again = context.old("A3", instance_id="i1")
    assert again.join().error is E.NONE  # the classic member A3 replaces a classic member
    b.leave()
    assert context.classic_group.member_count == 2
    context.broker.check_replay_law()
    assert a.beat() is E.GROUP_ID_NOT_FOUND


def test_a_conversion_by_a_static_member_that_cannot_be_written() -> None:
    """If the conversion by a static member cannot be written, nothing changes."""
    context = MigrationContext()
    _, a = static_a(context)
    context.broker.append_error = lambda: E.NOT_ENOUGH_REPLICAS
    assert context.old("A2", instance_id="i1").join().error is E.COORDINATOR_NOT_AVAILABLE
    assert a.beat() is E.NONE
