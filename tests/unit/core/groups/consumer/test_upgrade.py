"""A classic group with members becomes a consumer group."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_server.core.groups.classic.state import GroupState
from coordinator_server.core.groups.explain import RebalanceOutcome
from protocol.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from protocol.errors import ErrorCode
from tests.unit.core.groups.consumer.migration import (
    SESSION_MS,
    THREE,
    MigrationContext,
    assigned,
    assignment,
    subscribed,
)
from tests.unit.core.groups.context import commit, offsets

E = ErrorCode


def test_the_members_stay_with_what_they_have() -> None:
    """Members keep ids, partitions and generation; the new member waits for revocations."""
    context = MigrationContext()
    m, n = context.stable({"M": {"three": [0, 1]}, "N": {"three": [2]}})
    a = context.member("A", "three")
    answer = a.join()
    assert (answer.error, a.epoch, a.owned) == (E.NONE, 2, {})
    assert context.state == "Reconciling"
    assert context.owned_by(m) == {"three": [0, 1]}
    assert m.heartbeat() is n.heartbeat() is E.REBALANCE_IN_PROGRESS
    assert context.rejoin(m) == {"three": [0]}
    assert context.rejoin(n) == {"three": [2]}
    assert m.heartbeat() is n.heartbeat() is E.NONE
    assert (a.own(), a.owned, context.state) == (E.NONE, {"three": [1]}, "Stable")
    assert "group.upgraded" in context.broker.event_names()
    context.check()


def test_the_records_are_those_of_kafka() -> None:
    """The records are the classic tombstone, the consumer group, then the heartbeat's changes."""
    context = MigrationContext()
    (m,) = context.stable({"M": THREE}, instance_id="i1")
    mark = len(context.broker.log)
    context.member("A", "three").join()
    assert context.kinds_since(mark) == [
        "-GroupMetadata",
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupMetadata",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupTargetAssignmentMetadata",
        "ConsumerGroupCurrentMemberAssignment",
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupMetadata",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupTargetAssignmentMetadata",
        "ConsumerGroupCurrentMemberAssignment",
    ]
    assert context.broker.batches[-1] == 12
    of_m = {type(key): value for key, value in list(context.since(mark))[:6]}
    said = of_m[ConsumerGroupMemberMetadataKey]
    assert isinstance(said, ConsumerGroupMemberMetadataValue)
    assert said.classic_member_metadata is not None
    (protocol,) = said.classic_member_metadata.supported_protocols
    assert (said.instance_id, said.rack_id, said.client_id) == ("i1", None, "M")
    assert (said.subscribed_topic_names, said.subscribed_topic_regex) == (["three"], "")
    assert said.rebalance_timeout_ms == m.rebalance_ms
    assert said.classic_member_metadata.session_timeout_ms == SESSION_MS
    assert (protocol.name, protocol.metadata) == m.protocols[0]
    target = of_m[ConsumerGroupTargetAssignmentMetadataKey]
    assert target == ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=1)
    owned = of_m[ConsumerGroupCurrentMemberAssignmentKey]
    assert isinstance(owned, ConsumerGroupCurrentMemberAssignmentValue)
    assert (owned.member_epoch, owned.previous_member_epoch, owned.state) == (1, 1, 0)
    assert owned.assigned_partitions[0].assignment_epochs == [1, 1, 1]
    context.check()


def test_a_group_in_its_join_phase() -> None:
    """Members that wait in a join phase, and members that join later, must rejoin."""
    context = MigrationContext()
    (m,) = context.stable({"M": THREE})
    n = context.old("N")
    waits = n.join()
    m.join()
    late = context.old("O").join()
    assert context.classic_group.state is GroupState.COMPLETING_REBALANCE or late.parked
    a = context.member("A", "three")
    assert a.join().error is E.NONE
    assert E.REBALANCE_IN_PROGRESS in (waits.error, late.error)
    assert late.response.member_id
    assert len(context.group.members) == 4
    context.check()


def test_a_group_that_waits_for_its_leader() -> None:
    """Parked SyncGroups are answered with an error; no member has partitions yet."""
    context = MigrationContext()
    m, n = context.old("M"), context.old("N")
    context.completing(m, n)
    parked = (n if m.is_leader else m).sync()
    assert parked.parked
    a = context.member("A", "three")
    a.join()
    assert parked.error is E.REBALANCE_IN_PROGRESS
    assert context.owned_by(m) == context.owned_by(n) == {}
    ended = context.broker.explained[-1]
    assert ended.outcome is RebalanceOutcome.SUPERSEDED
    context.settle(m, n, a)
    context.check()


def test_what_the_new_group_knows_of_a_member() -> None:
    """A converted member has its instance id, rack and existing subscribed topics."""
    context = MigrationContext()
    protocols = subscribed("three", "gone", "three", version=3, rack_id="r1")
    (m,) = context.stable({"M": {"three": [0], "gone": [0]}}, instance_id="i1", protocols=protocols)
    context.member("A", "three").join()
    member = context.group.members[m.id]
    assert (member.instance_id, member.rack_id, member.topics) == ("i1", "r1", ("gone", "three"))
    assert context.owned_by(m) == {"three": [0]}
    assert context.group.static_ids == {"i1": m.id}


def refused(context: MigrationContext) -> tuple[ErrorCode, str | None]:
    """Return A's response to its join, and check that the group stays classic."""
    before = context.broker.describe()
    log = list(context.broker.log)
    answer = context.member("A", "three").join()
    assert context.broker.log == log
    assert context.broker.describe() == before
    context.broker.check_replay_law()
    return answer.error, answer.response.error_message


@pytest.mark.parametrize("policy", ["downgrade", "disabled"])
def test_it_has_to_be_allowed(policy: str) -> None:
    """With the policies downgrade and disabled a classic group is not converted."""
    context = MigrationContext(consumer_migration_policy=policy)
    context.stable({"M": THREE})
    assert refused(context) == (
        E.GROUP_ID_NOT_FOUND,
        "Cannot upgrade classic group g to consumer group because online upgrade is disabled.",
    )


def test_it_is_for_consumers() -> None:
    """A Kafka Connect group is not converted."""
    context = MigrationContext()
    m = context.old("M", protocol_type="connect")
    context.completing(m)
    assert refused(context) == (
        E.GROUP_ID_NOT_FOUND,
        "Cannot upgrade classic group g to consumer group because the group does not use the "
        "consumer embedded protocol.",
    )


def test_the_group_may_be_too_large() -> None:
    """A group above group.consumer.max.size is not converted; a full group refuses a consumer."""
    context = MigrationContext(consumer_max_size=1)
    context.stable({"M": {}, "N": {}})
    assert refused(context) == (
        E.GROUP_ID_NOT_FOUND,
        "Cannot upgrade classic group g to consumer group because the group size exceeds the "
        "consumer group maximum size.",
    )
    context = MigrationContext(consumer_max_size=2)
    context.stable({"M": {}, "N": {}})
    assert refused(context)[0] is E.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\xff\xff\0\0", b"\0\0\0\0"])
def test_malformed_subscriptions(metadata: bytes) -> None:
    """A group with truncated subscriptions or invalid versions is not converted."""
    context = MigrationContext()
    context.stable({"M": {}}, protocols=[("range", metadata)])
    assert refused(context) == (
        E.GROUP_ID_NOT_FOUND,
        "Cannot upgrade classic group g to consumer group because the embedded consumer protocol "
        "is malformed.",
    )


def test_a_custom_assignor() -> None:
    """A group with user data in its assignments is not converted: the data would be lost."""
    context = MigrationContext()
    m = context.old("M")
    context.completing(m)
    context.assign([m], {m.id: assignment(THREE, b"x")})
    error, message = refused(context)
    assert error is E.GROUP_ID_NOT_FOUND
    assert message == (
        "Cannot upgrade classic group g to consumer group because an unsupported custom assignor "
        "is in use. Please refer to the documentation or switch to a default assignor before "
        "re-attempting the upgrade."
    )


def test_what_kafka_does_not_expect() -> None:
    """A partition with two owners and a group without a protocol get UNKNOWN_SERVER_ERROR.

    As in Kafka there is no message.
    """
    context = MigrationContext()
    context.stable({"M": {"three": [0]}, "N": {"three": [0]}})
    assert refused(context) == (E.UNKNOWN_SERVER_ERROR, None)
    context = MigrationContext(initial_rebalance_delay_ms=3_000)
    parked = context.old("M").join()
    assert refused(context) == (E.UNKNOWN_SERVER_ERROR, None)
    # The parked join fails even if the upgrade fails.
    assert parked.error is E.REBALANCE_IN_PROGRESS


def test_the_group_ignores_members_of_the_other_protocol() -> None:
    """Only a join converts a group, not other requests of the new protocol."""
    context = MigrationContext()
    context.stable({"M": THREE})
    answer = context.member("A", "three").send(member_epoch=1)
    assert answer.error is E.GROUP_ID_NOT_FOUND
    assert answer.response.error_message == "Group g is not a consumer group."


def test_it_stays_classic_if_the_log_refuses() -> None:
    """If the log refuses, the group stays classic and only the new member gets an error."""
    context = MigrationContext()
    (m,) = context.stable({"M": THREE})
    context.broker.append_error = lambda: E.NOT_ENOUGH_REPLICAS
    assert context.member("A", "three").join().error is E.COORDINATOR_NOT_AVAILABLE
    assert m.heartbeat() is E.NONE
    assert context.classic_group.state is GroupState.STABLE


def test_sessions_go_on() -> None:
    """A converted member gets a new session of the length that it requested."""
    context = MigrationContext()
    m, n = context.stable({"M": {"three": [0]}, "N": {"three": [1]}})
    context.broker.advance(SESSION_MS - 1)
    context.member("A", "three").join()
    context.broker.advance(SESSION_MS - 1)
    assert m.heartbeat() is E.REBALANCE_IN_PROGRESS
    context.broker.advance(1)
    assert n.heartbeat() is E.UNKNOWN_MEMBER_ID
    assert m.id in context.group.members
    context.check()


def test_after_a_restart_the_broker_decides_how_long_sessions_are() -> None:
    """After a restart the broker's session timeout applies until the next heartbeat.

    Kafka does the same.
    """
    context = MigrationContext(consumer_session_timeout_ms=3_000)
    m, a = context.mixed()
    context.broker.crash()
    context.broker.advance(2_999)
    assert (m.heartbeat(), a.beat()) == (E.NONE, E.NONE)
    for _ in range(3):
        context.broker.advance(2_999)
        assert a.beat() is E.NONE
    assert m.heartbeat() is E.NONE
    context.broker.crash()
    context.broker.advance(2_999)
    assert a.beat() is E.NONE
    assert context.group.sessions[m.id].deadline_ms == context.broker.now_ms + 1
    context.broker.advance(1)
    assert m.heartbeat() is E.UNKNOWN_MEMBER_ID


def test_an_empty_group_ends_as_a_classic_one() -> None:
    """An empty classic group is deleted and keeps its offsets; pending member ids are void."""
    context = MigrationContext()
    (m,) = context.stable({"M": THREE})
    m.commit(("three", 0, 7))
    m.leave()
    pending = context.old("N", version=4).join()
    assert pending.error is E.MEMBER_ID_REQUIRED
    mark = len(context.broker.log)
    a = context.member("A", "three")
    a.join()
    assert context.kinds_since(mark)[:2] == ["-GroupMetadata", "ConsumerGroupMemberMetadata"]
    assert (a.epoch, a.owned) == (2, THREE)
    assert offsets(context.broker) == {("three", 0): (7, "")}
    context.check()


@pytest.mark.parametrize("has_offsets", [True, False])
def test_a_group_without_a_record(has_offsets: bool) -> None:
    """A group with only offsets gets a classic tombstone; a new group gets no tombstone."""
    context = MigrationContext()
    if has_offsets:
        commit(context.broker, ("three", 0, 1))
    mark = len(context.broker.log)
    context.member("A", "three").join()
    assert (context.kinds_since(mark)[0] == "-GroupMetadata") is has_offsets
    context.check()


def test_old_timers_mean_nothing() -> None:
    """The timers of a converted classic group and its members are cancelled."""
    context = MigrationContext()
    (m,) = context.stable({"M": THREE})
    context.old("N").join()
    a = context.member("A", "three")
    a.join()
    for _ in range(12):
        context.broker.advance(5_000)
        answer: Any = m.heartbeat()
        if answer is E.REBALANCE_IN_PROGRESS:
            assert assigned_after(context, m)
        assert a.own() is E.NONE
    assert sorted(context.group.members) == sorted([m.id, a.id])
    context.check()


def assigned_after(context: MigrationContext, member: Any) -> bool:
    """Join and sync; return whether the assignment has partitions."""
    assert member.join().error is E.NONE
    return bool(assigned(member.sync()))
