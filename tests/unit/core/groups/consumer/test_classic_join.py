"""JoinGroup of classic protocol members in consumer groups."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_server.core.groups.classic.state import GroupState
from coordinator_server.core.groups.records import encode_record
from protocol.apis.join_group import JoinGroupRequestProtocol
from protocol.consumer_group_records import (
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from protocol.errors import ErrorCode
from tests.harness.one_group import GROUP
from tests.unit.core.groups.consumer.migration import THREE, MigrationContext, assigned, subscribed
from tests.unit.core.groups.context import Member, offsets

E = ErrorCode


def with_a(**settings: Any) -> MigrationContext:
    """Return a consumer group whose member A owns all of `three`."""
    context = MigrationContext(**settings)
    a = context.member("A", "three")
    assert a.join().error is E.NONE
    return context


def test_a_member_joins_at_once() -> None:
    """A classic member joins at once: its generation is its member epoch, and it has no leader.

    The broker computes the assignment.
    """
    context = with_a()
    m = context.old("M")
    response = m.join().response
    assert (response.error_code, response.generation_id) == (E.NONE, 3)
    assert (response.protocol_type, response.protocol_name) == ("consumer", "range")
    assert (response.leader, response.members, response.skip_assignment) == ("", [], False)
    assert assigned(m.sync()) == {}
    member = context.group.members[m.id]
    assert (member.topics, member.regex, member.client_id) == (("three",), "", "M")
    assert member.rebalance_timeout_ms == m.rebalance_ms
    assert member.classic is not None
    assert context.state == "Reconciling"
    context.check()


def test_what_it_gives_up_goes_to_the_others() -> None:
    """A member that lists owned partitions first gives up revoked partitions, then rejoins."""
    context = MigrationContext()
    protocols = subscribed("three", owned=THREE)
    (m,) = context.stable({"M": THREE}, protocols=protocols)
    a = context.member("A", "three")
    a.join()
    assert m.heartbeat() is E.REBALANCE_IN_PROGRESS
    assert m.join().response.generation_id == 1  # member M still owns all partitions
    assert assigned(m.sync()) == {"three": [0, 1]}
    assert m.heartbeat() is E.REBALANCE_IN_PROGRESS
    m.protocols = subscribed("three", owned={"three": [0, 1]})
    assert m.join().response.generation_id == 2
    assert assigned(m.sync()) == {"three": [0, 1]}
    assert (a.own(), a.owned) == (E.NONE, {"three": [2]})
    assert m.heartbeat() is E.NONE
    context.check()


def test_it_is_told_when_more_is_free() -> None:
    """A member that waits for partitions rejoins when they are released."""
    context = with_a()
    a = context.member("A", "three")
    a.epoch, a.owned = 2, {"three": [0, 1, 2]}
    m = context.old("M")
    m.join()
    assert assigned(m.sync()) == {}
    assert m.heartbeat() is E.NONE  # member A still owns all partitions
    a.beat()
    assert (a.own(), m.heartbeat()) == (E.NONE, E.REBALANCE_IN_PROGRESS)
    assert context.rejoin(m) == {"three": [2]}
    context.check()


def test_joining_again_without_need_writes_nothing() -> None:
    """A rejoin with unchanged metadata writes nothing and renews the session."""
    context = MigrationContext()
    m, _ = context.mixed()
    size = len(context.broker.log)
    context.broker.advance(9_999)
    context.member("A").send(member_epoch=2)
    assert m.join().response.generation_id == 2
    assert len(context.broker.log) == size
    context.broker.advance(9_999)
    assert m.id in context.group.members
    context.check()


def test_a_record_of_an_earlier_release_ends() -> None:
    """The next change of the group deletes the partition metadata record of an earlier release."""
    context = with_a()
    key = ConsumerGroupPartitionMetadataKey(group_id=GROUP)
    context.broker.log.append(encode_record((key, ConsumerGroupPartitionMetadataValue())))
    context.broker.crash()
    assert context.group.has_legacy_record is True
    mark = len(context.broker.log)
    context.old("M").join()
    assert "-ConsumerGroupPartitionMetadata" in context.kinds_since(mark)
    assert [context.group.has_legacy_record] == [False]
    context.check()


def test_a_new_member_gets_its_id_first() -> None:
    """Since v4 a new member first gets its id (KIP-394).

    The id is not stored, so any other id is accepted, too.
    """
    context = with_a()
    m = context.old("M", version=4)
    assert m.join().error is E.MEMBER_ID_REQUIRED
    assert m.id == "uuid-1"
    assert m.id not in context.group.members
    assert m.join().error is E.NONE
    n = context.old("N", version=9)
    n.id = "my own"
    assert n.join().error is E.NONE
    assert set(context.group.members) == {"A", "uuid-1", "my own"}
    static = context.old("S", version=9, instance_id="i1")
    assert static.join().error is E.NONE


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
def test_a_protocol_without_a_name(version: int, name: str | None) -> None:
    """The protocol name in an error is null since v7, as in every response."""
    context = with_a()
    m = context.old("M", version=version, protocols=[("", subscribed("three")[0][1])])
    m.id = "M"
    assert m.join().response.protocol_name == name


def test_who_may_not_join() -> None:
    """A join fails if migration is disabled, the group is full or the protocols do not match.

    Protocols do not match if the type differs, or if other members do not support them.
    """
    context = with_a(consumer_migration_policy="disabled")
    response = context.old("M", version=9).join().response
    assert (response.error_code, response.member_id) == (E.INCONSISTENT_GROUP_PROTOCOL, "")
    context = with_a(consumer_max_size=1)
    assert context.old("M", version=9).join().error is E.GROUP_MAX_SIZE_REACHED
    context = with_a()
    m = context.old("M", version=9)
    assert m.join(protocol_type="connect").error is E.INCONSISTENT_GROUP_PROTOCOL
    assert m.join(protocols=[]).error is E.INCONSISTENT_GROUP_PROTOCOL
    assert list(context.group.members) == ["A"]
    context.check()


def test_all_classic_members_share_a_protocol() -> None:
    """All classic members share a protocol; a rejoining member counts with its old protocols."""
    context = with_a()
    subscription = subscribed("three")[0][1]
    m = context.old("M", protocols=[("mine", subscription), ("range", subscription)])
    n = context.old("N", protocols=[("other", subscription)])
    assert m.join().response.protocol_name == "mine"
    assert n.join().error is E.INCONSISTENT_GROUP_PROTOCOL
    n.protocols = [("range", subscription)]
    assert n.join().error is E.NONE
    m.protocols = [("mine", subscription)]
    assert m.join().error is E.INCONSISTENT_GROUP_PROTOCOL
    context.check()


def test_a_protocol_is_kept_once() -> None:
    """If several protocols have the same name, the first of them is used."""
    context = with_a()
    m = context.old("M", protocols=[*subscribed("three"), ("range", b"")])
    m.join()
    classic = context.group.members[m.id].classic
    assert classic is not None
    assert [(one.name, one.metadata) for one in classic.supported_protocols] == m.protocols[:1]


def test_metadata_that_cannot_be_read() -> None:
    """A member with an unreadable subscription is refused, and nothing is written."""
    context = with_a()
    size = len(context.broker.log)
    refused = context.old("M", protocols=[("range", b"\0")]).join()
    assert refused.error is E.INCONSISTENT_GROUP_PROTOCOL
    assert len(context.broker.log) == size


def test_optional_fields() -> None:
    """JoinGroup stores the rack; v0 stores the session timeout as rebalance timeout."""
    context = with_a()
    m = context.old("M", protocols=subscribed("three", version=3, rack_id="r1"))
    m.join()
    assert context.group.members[m.id].rack_id == "r1"
    n = context.old("N", version=0)
    n.join()
    assert context.group.members[n.id].rebalance_timeout_ms == n.session_ms


def test_a_rebalance_timeout_that_cannot_be() -> None:
    """A rebalance timeout of -1 is unset: the member has no time to sync and is fenced at once."""
    context = with_a()
    mark = len(context.broker.log)
    m = context.old("M", rebalance_ms=-1)
    assert m.join().error is E.NONE
    said = next(value for key, value in context.since(mark))
    assert isinstance(said, ConsumerGroupMemberMetadataValue)
    assert said.rebalance_timeout_ms == -1
    assert list(context.group.members) == ["A"]


def test_a_subscription_by_expression_ends() -> None:
    """A pattern subscription ends when the member rejoins with the classic protocol.

    The member then has only the topics that it names.
    """
    context = MigrationContext()
    a = context.member("A", regex="t.*", instance_id="i1", version=1)
    b = context.member("B", "one")
    a.join()
    b.join()
    context.broker.advance(1)
    assert a.own() is E.NONE
    assert "t.*" in context.group.resolved
    m = context.old("M", instance_id="i1")
    assert m.join().error is E.NONE
    assert context.group.resolved == {}
    assert context.group.members[m.id].regex == ""
    context.check()


def test_expressions_are_resolved_when_topics_change() -> None:
    """A JoinGroup resolves patterns after a change of topics, as a heartbeat does."""
    context = MigrationContext()
    a = context.member("A", regex="t.*", version=1)
    a.join()
    m = context.old("M")
    m.join()
    m.sync()
    context.broker.advance(9_000)
    m.heartbeat()
    context.broker.advance(2_000)
    context.change_topics(ten=1)
    m.join()
    context.broker.advance(1)
    assert "ten" in context.group.resolved["t.*"].topics
    context.check()


# --- static members


def static_and_a(context: MigrationContext) -> Member:
    """Return the static classic member M and member A, which own three partitions."""
    m = context.old("M", instance_id="i1")
    context.completing(m)
    m.sync()
    a = context.member("A", "three")
    a.join()
    context.settle(m, a)
    return m


def test_a_static_member_comes_back() -> None:
    """A static member without an id takes over under a new id, and its old id is fenced."""
    context = MigrationContext()
    m = static_and_a(context)
    owned = context.owned_by(m)
    again = context.old("M2", instance_id="i1")
    mark = len(context.broker.log)
    assert again.join().response.generation_id == 2
    assert context.kinds_since(mark) == [
        "-ConsumerGroupCurrentMemberAssignment",
        "-ConsumerGroupTargetAssignmentMember",
        "-ConsumerGroupMemberMetadata",
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupCurrentMemberAssignment",
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupCurrentMemberAssignment",
    ]
    assert assigned(again.sync()) == owned
    assert m.heartbeat() is m.join().error is m.sync().error is E.FENCED_INSTANCE_ID
    assert context.group.epoch == 2
    context.check()


def test_a_static_member_joins_again_with_its_id() -> None:
    """A static member that rejoins with an id must own the instance id."""
    context = MigrationContext()
    m = static_and_a(context)
    assert m.join().response.generation_id == 2
    assert m.join(group_instance_id="i9").error is E.UNKNOWN_MEMBER_ID
    assert m.join(member_id="other").error is E.FENCED_INSTANCE_ID


def test_a_static_member_goes_over_to_the_classic_protocol() -> None:
    """A static member can switch to the classic protocol without leaving first.

    With other consumer protocol members the group stays a consumer group.
    """
    context = MigrationContext()
    a = context.member("A", "three", instance_id="i1")
    b = context.member("B", "three")
    context.joined(a, b)
    m = context.old("M", instance_id="i1")
    assert m.join().response.generation_id == 3
    assert assigned(m.sync()) == {"three": [0, 1]}
    assert a.beat() is E.FENCED_INSTANCE_ID
    assert b.own() is E.NONE
    context.check()


def test_a_static_member_goes_over_to_the_consumer_protocol() -> None:
    """A static member can switch to the consumer protocol without leaving, also with its own id."""
    context = MigrationContext()
    m = static_and_a(context)
    new = context.member("new", "three", instance_id="i1")
    assert new.join().error is E.NONE
    assert m.heartbeat() is E.FENCED_INSTANCE_ID
    n = context.old("N")
    n.join()
    same = context.member(n.id, "three")
    assert same.join().error is E.NONE
    assert n.heartbeat() is n.sync().error is E.UNKNOWN_MEMBER_ID
    assert context.group.classic_count == 0
    assert context.group.classic_protocols == {}
    context.check()


# Log, Empty groups


def test_the_log_refuses() -> None:
    """If the log refuses the records, the member is not added and gets the error."""
    context = with_a()
    context.broker.append_error = lambda: E.NOT_LEADER_OR_FOLLOWER
    assert context.old("M").join().error is E.NOT_COORDINATOR
    assert list(context.group.members) == ["A"]


def empty_group() -> MigrationContext:
    """Return a consumer group with a committed offset, whose only member has left."""
    context = with_a()
    a = context.member("A")
    a.epoch = 2
    assert a.commit(("three", 0, 7)) == [E.NONE]
    assert a.leave() is E.NONE
    return context


def test_an_empty_group_becomes_a_classic_one() -> None:
    """A classic join to an empty consumer group converts the group.

    The old records get tombstones, and the offsets stay.
    """
    context = empty_group()
    mark = len(context.broker.log)
    m = context.old("M")
    assert m.join().response.leader == m.id
    assert context.kinds_since(mark) == [
        "-ConsumerGroupTargetAssignmentMetadata",
        "-ConsumerGroupPartitionMetadata",
        "-ConsumerGroupMetadata",
        "GroupMetadata",
    ]
    assert context.classic_group.generation_id == 1
    assert offsets(context.broker) == {("three", 0): (7, "")}
    context.broker.check_replay_law()
    context.broker.crash()
    assert context.broker.any_group is not None
    assert context.classic_group.state is GroupState.EMPTY


def test_it_does_so_even_for_who_is_refused() -> None:
    """An empty group is converted even if the joining member is refused.

    A member is refused if it has no member id or no protocols.
    """
    for version, protocols in ((9, [JoinGroupRequestProtocol(name="range")]), (3, [])):
        context = empty_group()
        m = context.old("M", version=version)
        wanted = E.MEMBER_ID_REQUIRED if protocols else E.INCONSISTENT_GROUP_PROTOCOL
        assert m.join(protocols=protocols).error is wanted
        assert context.classic_group.state is GroupState.EMPTY


def test_an_empty_group_is_missing_for_old_members() -> None:
    """A join with an old member id to an empty consumer group gets UNKNOWN_MEMBER_ID."""
    context = empty_group()
    m = context.old("M")
    m.id = "former"
    response = m.join().response
    assert (response.error_code, response.member_id) == (E.UNKNOWN_MEMBER_ID, "former")
    assert context.state == "Empty"


def test_an_empty_group_stays_if_the_log_refuses() -> None:
    """An empty group is not converted if the log refuses, and the member gets the error."""
    context = empty_group()
    context.broker.append_error = lambda: E.MESSAGE_TOO_LARGE
    assert context.old("M").join().error is E.UNKNOWN_SERVER_ERROR
    assert context.state == "Empty"


def test_many_protocols_are_read_in_steps() -> None:
    """A JoinGroup with many protocols is read in steps."""
    context = with_a()
    metadata = subscribed("three")[0][1]
    protocols = [JoinGroupRequestProtocol(name=f"p{n}", metadata=metadata) for n in range(501)]
    answer = context.old("M").join(protocols=protocols)
    assert answer.response.protocol_name == "p0"
    (_, value) = next(
        record
        for record in context.since(0)
        if isinstance(record[1], ConsumerGroupMemberMetadataValue)
        and record[1].classic_member_metadata is not None
    )
    assert isinstance(value, ConsumerGroupMemberMetadataValue)
    assert value.classic_member_metadata is not None
    assert len(value.classic_member_metadata.supported_protocols) == 501
