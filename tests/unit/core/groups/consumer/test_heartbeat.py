"""ConsumerGroupHeartbeat: refused requests, membership, and the contents of responses."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_server.core.groups.modern.modern_group import NEVER_ASSIGNED_MS
from protocol.errors import ErrorCode
from tests.unit.core.groups.consumer.context import ConsumerContext, ConsumerMember

JOIN: dict[str, Any] = {
    "member_epoch": 0,
    "rebalance_timeout_ms": 1000,
    "subscribed_topic_names": ["three"],
    "topic_partitions": [],
}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"member_id": " \t"}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"group_id": "\x01 "}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": " "}, "RackId can't be empty."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
    ],
)
def test_a_malformed_request_is_refused(fields: dict[str, Any], message: str) -> None:
    """A malformed request gets INVALID_REQUEST with Kafka's text and creates no group."""
    context = ConsumerContext()
    answer = context.member("a").send(**JOIN | fields)
    assert answer.error is ErrorCode.INVALID_REQUEST
    assert answer.response.error_message == message
    assert context.broker.any_group is None


def test_who_joins_lists_no_partitions_and_subscribes_to_something() -> None:
    """A join with partitions, or with neither names nor a pattern, gets INVALID_REQUEST."""
    member = ConsumerContext().member("a")
    owned = member.listed({"three": [0]})
    assert member.send(**JOIN | {"topic_partitions": owned}).error is ErrorCode.INVALID_REQUEST
    answer = member.send(**JOIN | {"subscribed_topic_names": None})
    assert answer.error is ErrorCode.INVALID_REQUEST


def test_text_that_java_does_not_trim_is_no_blank() -> None:
    """A no-break space is a valid member id, because Java's trim() keeps it."""
    context = ConsumerContext()
    assert context.member("\u00a0").send(**JOIN).error is ErrorCode.NONE


@pytest.mark.parametrize("epoch", [0, -1])
def test_an_unknown_assignor_is_refused(epoch: int) -> None:
    """An unknown assignor gets UNSUPPORTED_ASSIGNOR at every epoch, and a leave is refused too."""
    context = ConsumerContext()
    member = context.member("a", "three")
    context.joined(member)
    fields = JOIN | {"member_epoch": epoch, "server_assignor": "best"}
    answer = member.send(**fields)
    assert answer.error is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert answer.response.error_message == (
        "ServerAssignor best is not supported. Supported assignors: uniform, range."
    )
    assert context.group.member_count == 1


@pytest.mark.parametrize("epoch", [1, -1])
def test_only_who_joins_makes_a_group(epoch: int) -> None:
    """Only a join creates a group; other requests get GROUP_ID_NOT_FOUND."""
    context = ConsumerContext()
    answer = context.member("a").send(member_epoch=epoch)
    assert answer.error is ErrorCode.GROUP_ID_NOT_FOUND
    kind = "Group" if epoch == -1 else "Consumer group"
    assert answer.response.error_message == f"{kind} g not found."
    assert context.broker.any_group is None


def test_the_first_member_gets_everything_at_once() -> None:
    """The first member gets epoch 2 with all partitions, and records in Kafka's order."""
    context = ConsumerContext(consumer_heartbeat_interval_ms=123)
    member = context.member("a", "three", "one")
    response = member.join().response
    assert (response.member_epoch, response.heartbeat_interval_ms) == (2, 123)
    assert member.owned == {"one": [0], "three": [0, 1, 2]}
    assert context.written() == [
        "member a",
        "epoch 2",
        "target a",
        "target epoch 2",
        "current a 2",
    ]
    assert (context.state, context.epochs) == ("Stable", (2, 2))
    context.check()


def test_a_member_without_topics_has_epoch_1() -> None:
    """A member without topics has epoch 1; neither a new epoch nor a target is recorded."""
    context = ConsumerContext()
    member = context.member("a")
    assert member.join().response.member_epoch == 1
    assert member.owned == {}
    assert context.written() == ["member a", "current a 1"]
    assert (context.state, context.epochs) == ("Stable", (1, 1))
    context.check()


def test_the_broker_makes_ids_for_members_of_version_0() -> None:
    """In version 0 each join without a member id gets a new id from the broker."""
    context = ConsumerContext()
    members = [context.member("", "three", version=0) for _ in range(2)]
    for member in members:
        assert member.join().error is ErrorCode.NONE
    assert [member.id for member in members] == ["uuid-1", "uuid-2"]
    assert context.group.member_count == 2
    assert members[0].send(member_id="", member_epoch=2).error is ErrorCode.INVALID_REQUEST
    context.check()


def test_a_heartbeat_without_news_writes_nothing() -> None:
    """An unchanged heartbeat writes no records and returns no assignment."""
    context = ConsumerContext()
    member = context.member("a", "three")
    context.joined(member)
    context.written()
    answer = member.send()
    assert answer.error is ErrorCode.NONE
    assert answer.response.assignment is None
    assert context.written() == []


def test_a_full_request_is_answered_in_full() -> None:
    """A full request (timeout, subscription and owned partitions) returns the assignment again."""
    context = ConsumerContext()
    member = context.member("a", "three")
    context.joined(member)
    fields: dict[str, Any] = {
        "rebalance_timeout_ms": member.rebalance_ms,
        "subscribed_topic_names": ["three"],
        "topic_partitions": member.listed(),
    }
    assert member.send(**fields).response.assignment is not None
    for missing in fields:
        part = {name: value for name, value in fields.items() if name != missing}
        assert member.send(**part).response.assignment is None, missing
    as_regex = fields | {"subscribed_topic_names": None, "subscribed_topic_regex": ""}
    assert member.send(**as_regex).response.assignment is not None


def test_a_stranger_is_an_unknown_member() -> None:
    """An unknown member gets UNKNOWN_MEMBER_ID for a heartbeat and for a leave."""
    context = ConsumerContext()
    context.joined(context.member("a", "three"))
    for epoch in (1, -1):
        answer = context.member("x").send(member_epoch=epoch)
        assert answer.error is ErrorCode.UNKNOWN_MEMBER_ID
        assert answer.response.error_message == "Member x is not a member of group g."


def test_a_full_group_takes_no_more_members() -> None:
    """In a full group every unknown member gets GROUP_MAX_SIZE_REACHED, at any epoch."""
    context = ConsumerContext(consumer_max_size=1)
    member = context.member("a", "three")
    context.joined(member)
    other = context.member("b", "three")
    assert other.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert other.beat(member_epoch=7) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert member.join().error is ErrorCode.NONE


def test_what_a_member_says_of_itself_is_recorded() -> None:
    """Rack, timeout, assignor and client are recorded; null leaves a field unchanged."""
    context = ConsumerContext()
    member = context.member("a", "three")
    member.join(rack_id="r1", server_assignor="range")
    context.written()
    answer = member.send(rebalance_timeout_ms=77, rack_id="r2")
    assert answer.error is ErrorCode.NONE
    assert context.written() == ["member a"]
    known = context.group.members["a"]
    assert (known.rack_id, known.rebalance_timeout_ms, known.assignor) == ("r2", 77, "range")
    assert (known.client_id, known.client_host) == ("client", "/127.0.0.1")
    assert context.epochs == (2, 2)
    context.check()


def test_a_client_without_an_id_is_recorded_with_an_empty_one() -> None:
    """A null client id is recorded as an empty string."""
    context = ConsumerContext()
    member = context.member("a", "three")
    request = member.join().request
    context.broker.send(request, 1, client_id=None)
    assert context.group.members["a"].client_id == ""


def test_a_member_of_a_classic_group_with_members_is_no_consumer_member() -> None:
    """A member epoch above 0 gets GROUP_ID_NOT_FOUND from a classic group with members."""
    context = ConsumerContext()
    classic = context.classic("c")
    classic.join()
    answer = context.member("a", "three").send(member_epoch=3)
    assert answer.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.response.error_message == "Group g is not a consumer group."


def test_an_empty_classic_group_becomes_a_consumer_group() -> None:
    """An empty classic group is converted: its record is deleted first, its offsets stay."""
    context = ConsumerContext()
    classic = context.classic("c")
    classic.join()
    classic.sync({classic.id: b"x"})
    assert classic.commit(("three", 0, 5)) == [ErrorCode.NONE]
    assert classic.leave() is ErrorCode.NONE
    context.written()
    member = context.member("a", "three")
    assert member.join().error is ErrorCode.NONE
    assert context.written()[:3] == ["-classic", "member a", "epoch 2"]
    assert context.group.offsets.by_topic["three"][0].offset == 5
    context.check()


def test_nothing_changes_when_the_records_cannot_be_written() -> None:
    """If the records cannot be written, the response has the log's error and nothing changes."""
    context = ConsumerContext()
    member = context.member("a", "three")
    context.joined(member)
    context.broker.append_error = lambda: ErrorCode.NOT_ENOUGH_REPLICAS
    other = context.member("b", "three")
    assert other.join().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert context.group.member_count == 1
    assert context.epochs == (2, 2)


def test_members_leave() -> None:
    """Each leave raises the group epoch; the last one also raises the assignment epoch."""
    context = ConsumerContext()
    members = [context.member(name, "three") for name in "ab"]
    context.joined(*members)
    epoch = context.group.epoch
    context.written()
    assert members[0].leave() is ErrorCode.NONE
    assert context.state == "Assigning"
    assert context.written() == [
        "-current a",
        "-target a",
        "-member a",
        f"epoch {epoch + 1}",
    ]
    answer = members[1].send(member_epoch=-1)
    assert (answer.response.member_id, answer.response.member_epoch) == ("b", -1)
    assert context.written() == [
        "-current b",
        "-target b",
        "-member b",
        f"epoch {epoch + 2}",
        f"target epoch {epoch + 2}",
    ]
    assert (context.state, context.epochs) == ("Empty", (epoch + 2, epoch + 2))
    assert context.group.assigned_at_ms == NEVER_ASSIGNED_MS
    assert context.group.metadata_hash == 0
    assert member_epoch_error(members[1]) is ErrorCode.UNKNOWN_MEMBER_ID
    context.check()


def member_epoch_error(member: ConsumerMember) -> ErrorCode:
    """Return the error of a heartbeat with an epoch."""
    return member.beat(member_epoch=3)
