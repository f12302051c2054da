"""ShareGroupHeartbeat: joins, epochs, subscriptions, leaves, and refused requests."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.errors import ErrorCode
from tests.harness.one_group import GROUP
from tests.unit.core.groups.share.context import ShareContext


def test_the_first_member_gets_its_partitions_once_they_are_initialized() -> None:
    """The first response assigns nothing.

    The next response assigns the partitions that were initialized meanwhile.
    """
    t = ShareContext()
    a = t.member("A", "two")
    first = a.join().response
    assert (first.member_epoch, first.heartbeat_interval_ms) == (2, 5000)
    assert first.assignment.topic_partitions == []
    assert t.kept == {("two", 0): (2, -1), ("two", 1): (2, -1)}
    assert a.beat() is ErrorCode.NONE
    assert (a.epoch, a.assigned, t.epochs) == (3, {"two": [0, 1]}, (3, 3))
    last = a.send().response
    assert (last.member_id, last.member_epoch, last.assignment) == ("A", 3, None)
    t.check()


def test_the_records_of_a_join() -> None:
    """The records of a join are in Kafka's order; initialization and assignment follow later."""
    t = ShareContext()
    a = t.member("A", "one")
    a.join()
    a.beat()
    assert t.records() == [
        "MemberMetadata",
        "Metadata",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
        "CurrentMemberAssignment",
        "StatePartitionMetadata",
        "StatePartitionMetadata",
        "Metadata",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
        "CurrentMemberAssignment",
    ]
    length = len(t.broker.log)
    a.beat()
    assert len(t.broker.log) == length


def test_members_share_partitions() -> None:
    """Two members share a single partition; of two partitions each member gets one."""
    t = ShareContext()
    a, b = t.member("A", "one"), t.member("B", "one")
    t.joined(a, b)
    assert a.assigned == b.assigned == {"one": [0]}
    for one in (a, b):
        one.send(subscribed_topic_names=["two"])
    for one in (a, b, a, b):
        one.beat()
    assert (a.assigned or {}).keys() == (b.assigned or {}).keys() == {"two"}
    assert sorted((a.assigned or {})["two"] + (b.assigned or {})["two"]) == [0, 1]
    t.check()


def test_members_with_different_topics() -> None:
    """Members get partitions of their own topics; nonexistent topics are ignored."""
    t = ShareContext()
    a, b = t.member("A", "one", "no-such"), t.member("B", "two")
    t.joined(a, b)
    assert (a.assigned, b.assigned) == ({"one": [0]}, {"two": [0, 1]})
    t.check()


def test_a_topic_that_is_not_read_any_more() -> None:
    """An unsubscribed topic is removed at once, even within the assignment interval."""
    t = ShareContext(share_assignment_interval_ms=60_000)
    a = t.member("A", "one", "two")
    a.join()
    t.broker.advance(40_000)
    a.beat()
    t.broker.advance(20_000)
    a.beat()
    assert a.assigned == {"one": [0], "two": [0, 1]}
    before = a.epoch
    a.send(subscribed_topic_names=["two"])
    assert (a.epoch, a.assigned) == (before, {"two": [0, 1]})
    assert t.epochs == (before + 1, before)
    t.check()


def test_the_interval_of_assignments() -> None:
    """A target is computed at most once per assignment interval, of the group or the broker.

    If the clock is set back, the interval ends.
    """
    t = ShareContext(share_assignment_interval_ms=10_000)
    a = t.member("A", "one")
    a.join()
    a.beat()
    assert (a.epoch, t.epochs) == (2, (3, 2))
    t.broker.advance(9_999)
    a.beat()
    assert t.epochs == (3, 2)
    t.broker.advance(1)
    a.beat()
    assert (a.epoch, t.epochs) == (3, (3, 3))
    t.broker.configs["share.assignment.interval.ms"] = "0"
    a.send(subscribed_topic_names=["two"])
    assert t.epochs == (4, 4)
    t.broker.configs["share.assignment.interval.ms"] = "20000"
    t.broker.clock.time_ms -= 60_000
    a.send(subscribed_topic_names=["one"])
    assert t.epochs == (5, 5)
    t.check()


@pytest.mark.parametrize("leaves", [True, False])
def test_the_first_member_after_the_last_is_assigned_at_once(leaves: bool) -> None:
    """The first member of an empty group is assigned at once, even in the assignment interval.

    Kafka behaves so since 4.4.
    """
    t = ShareContext(share_assignment_interval_ms=1_000_000)
    a = t.member("A", "one")
    a.join()
    if leaves:
        a.leave()
    else:
        t.broker.advance(45_000)
    assert (t.group.state.value, t.epochs) == ("Empty", (3, 3))
    t.broker.crash()
    b = t.member("B", "one")
    b.join()
    assert (b.epoch, b.assigned, t.epochs) == (4, {"one": [0]}, (4, 4))
    t.check()


def test_a_member_that_joins_again() -> None:
    """A rejoin with the same id writes nothing and returns the assignment again."""
    t = ShareContext()
    a = t.member("A", "one")
    t.joined(a)
    length = len(t.broker.log)
    a.assigned = {}
    assert a.join().error is ErrorCode.NONE
    assert (a.epoch, a.assigned) == (3, {"one": [0]})
    assert len(t.broker.log) == length


def test_a_full_request_is_told_the_assignment() -> None:
    """A heartbeat with topics, even unchanged, returns the assignment."""
    t = ShareContext()
    a = t.member("A", "one")
    t.joined(a)
    a.assigned = {}
    a.beat(subscribed_topic_names=["one", "one"])
    assert (a.epoch, a.assigned) == (3, {"one": [0]})


def test_a_member_without_topics() -> None:
    """A member without topics stays in the group without partitions."""
    t = ShareContext()
    a = t.member("A", "one")
    t.joined(a)
    a.beat(subscribed_topic_names=[])
    assert (a.epoch, a.assigned, t.group.state) == (4, {}, "Stable")
    t.check()


def test_what_a_member_says_of_itself() -> None:
    """Rack, client id and host are recorded without a new epoch; null keeps the rack."""
    t = ShareContext()
    a = t.member("A", "one")
    t.joined(a)
    epochs = t.epochs
    a.beat(rack_id="r1")
    a.send(client_id=None)
    assert t.epochs == epochs
    member = t.group.members["A"]
    assert (member.rack_id, member.client_id, member.client_host) == ("r1", "", "/127.0.0.1")
    t.check()


def test_epochs_of_heartbeats() -> None:
    """The previous epoch is accepted, as a response may be lost; other epochs are fenced."""
    t = ShareContext()
    a = t.member("A", "one")
    t.joined(a)
    assert a.beat(member_epoch=2) is ErrorCode.NONE
    assert a.epoch == 3
    smaller = a.send(member_epoch=1).response
    assert ErrorCode(smaller.error_code) is ErrorCode.FENCED_MEMBER_EPOCH
    assert smaller.error_message == (
        "The share group member has a smaller member epoch (1) than the one known by the group "
        "coordinator (3), and it does not match the previous member epoch (2). The member must "
        "abandon all its partitions and rejoin."
    )
    larger = a.send(member_epoch=4).response
    assert ErrorCode(larger.error_code) is ErrorCode.FENCED_MEMBER_EPOCH
    assert larger.error_message == (
        "The share group member has a greater member epoch (4) than the one known by the group "
        "coordinator (3). The member must abandon all its partitions and rejoin."
    )


def test_refused_subscriptions_are_not_kept() -> None:
    """Refused subscriptions are not cached, however large and numerous they are.

    The refused members are unknown, or their records cannot be written.
    """
    t = ShareContext()
    a = t.member("A", "one")
    t.joined(a)
    t.broker.append_error = lambda: ErrorCode.NOT_ENOUGH_REPLICAS
    for number in range(5):
        names = [f"{number}-{one}" for one in range(600)]
        answer = t.member("B").send(member_epoch=3, subscribed_topic_names=names)
        assert answer.error is ErrorCode.UNKNOWN_MEMBER_ID
        assert a.send(subscribed_topic_names=names).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert len(t.group._existing) <= 2


def test_leaving() -> None:
    """A leave raises the group epoch and frees partitions; the last leave empties the group."""
    t = ShareContext()
    a, b = t.member("A", "two"), t.member("B", "two")
    t.joined(a, b)
    epoch = t.group.epoch
    answer = b.send(member_epoch=-1).response
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("B", -1, 0)
    assert t.group.epoch == epoch + 1
    a.beat()
    assert a.assigned == {"two": [0, 1]}
    assert a.leave() is ErrorCode.NONE
    group = t.group
    assert (group.state, group.is_empty, group.member_count, group.metadata_hash) == (
        "Empty",
        True,
        0,
        0,
    )
    assert (group.targets, group.currents, group.sessions) == ({}, {}, {})
    t.check()


def test_who_is_no_member() -> None:
    """A heartbeat and a leave of an unknown member are refused."""
    t = ShareContext()
    t.joined(t.member("A", "one"))
    b = t.member("B")
    for epoch in (1, -1):
        answer = b.send(member_epoch=epoch).response
        assert ErrorCode(answer.error_code) is ErrorCode.UNKNOWN_MEMBER_ID
        assert answer.error_message == f"Member B is not a member of group {GROUP}."


def test_a_group_that_does_not_exist() -> None:
    """Only a joining heartbeat creates a share group."""
    t = ShareContext()
    a = t.member("A")
    beat, leave = a.send(member_epoch=1).response, a.send(member_epoch=-1).response
    assert {beat.error_code, leave.error_code} == {ErrorCode.GROUP_ID_NOT_FOUND}
    assert beat.error_message == f"Share group {GROUP} not found."
    assert leave.error_message == f"Group {GROUP} not found."


def test_a_full_group() -> None:
    """A full group refuses every unknown member, but no existing member."""
    t = ShareContext(share_max_size=1)
    a, b = t.member("A", "one"), t.member("B", "one")
    t.joined(a)
    for epoch in (0, 5):
        answer = b.send(member_epoch=epoch, subscribed_topic_names=["one"]).response
        assert ErrorCode(answer.error_code) is ErrorCode.GROUP_MAX_SIZE_REACHED
        assert answer.error_message == (
            "The share group has reached its maximum capacity of 1 members."
        )
    assert a.join().error is ErrorCode.NONE
    assert b.leave() is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": ""}, None),
        ({"member_id": "x" * 37}, None),
        ({"member_id": "\x01 "}, "MemberId can't be empty."),
        ({"group_id": " "}, "GroupId can't be empty."),
        ({"rack_id": " "}, "RackId can't be empty."),
        ({"subscribed_topic_names": None}, "SubscribedTopicNames must be set in first request."),
        ({"subscribed_topic_names": []}, "SubscribedTopicNames must be set in first request."),
        ({"member_epoch": -2}, "MemberEpoch is invalid."),
    ],
)
def test_malformed(fields: dict[str, Any], message: str | None) -> None:
    """A malformed request is refused for any group, with Kafka's text."""
    t = ShareContext()
    answer = t.member("A", "one").join(**fields).response
    assert ErrorCode(answer.error_code) is ErrorCode.INVALID_REQUEST
    assert answer.error_message == message
    assert t.broker.any_group is None


def test_a_coordinator_that_is_not_here() -> None:
    """A heartbeat to a broker that is not the coordinator gets NOT_COORDINATOR without a text."""
    t = ShareContext()
    a = t.member("A", "one")
    t.joined(a)
    t.broker.unload()
    answer = a.send().response
    assert (answer.error_code, answer.error_message) == (ErrorCode.NOT_COORDINATOR, None)
    t.broker.load()
    assert a.beat() is ErrorCode.NONE


def test_a_fence_that_cannot_be_written_is_tried_again() -> None:
    """A fence that cannot be written is retried after 500 ms."""
    t = ShareContext()
    t.joined(t.member("A", "one"))
    t.broker.append_error = lambda: ErrorCode.KAFKA_STORAGE_ERROR
    t.broker.advance(45_000)
    assert list(t.group.members) == ["A"]
    t.broker.append_error = lambda: ErrorCode.NONE
    t.broker.advance(500)
    assert t.group.state == "Empty"
    t.check()


def test_sessions() -> None:
    """A silent member is fenced at its own session timeout; the group's config applies."""
    t = ShareContext()
    a, b = t.member("A", "two"), t.member("B", "two")
    t.joined(a, b)
    t.broker.advance(44_999)
    assert a.beat() is ErrorCode.NONE
    t.broker.advance(1)
    assert list(t.group.members) == ["A"]
    expired = {"group": GROUP, "member": "B", "session_timeout_ms": 45_000}
    assert ("member.expired", expired) in t.broker.events
    assert b.beat() is ErrorCode.UNKNOWN_MEMBER_ID
    a.beat()
    assert a.assigned == {"two": [0, 1]}
    t.broker.configs["share.session.timeout.ms"] = "50000"
    t.broker.configs["share.heartbeat.interval.ms"] = "7000"
    assert a.send().response.heartbeat_interval_ms == 7000
    t.broker.advance(49_999)
    assert list(t.group.members) == ["A"]
    t.broker.advance(1)
    assert not t.group.members
    t.check()


def test_sessions_that_end_together() -> None:
    """Members whose sessions end together are fenced one by one, each at a new group epoch."""
    t = ShareContext()
    members = [t.member(name, "one") for name in "ABC"]
    t.joined(*members)
    epoch = t.group.epoch
    t.broker.advance(45_000)
    assert (t.group.state, t.group.epoch) == ("Empty", epoch + 3)
    t.check()


def test_sessions_after_loading() -> None:
    """After loading every member has a whole session."""
    t = ShareContext()
    a = t.member("A", "one")
    t.joined(a)
    t.broker.advance(40_000)
    t.broker.crash()
    t.broker.advance(44_999)
    assert a.beat() is ErrorCode.NONE
    assert (a.epoch, a.assigned, t.group.state) == (3, {"one": [0]}, "Stable")
    t.check()


def test_topics_that_change() -> None:
    """New partitions are initialized and assigned; a deleted topic is removed."""
    t = ShareContext()
    a = t.member("A", "one", "two")
    t.joined(a)
    epoch = t.group.epoch
    t.change_topics(one=2)
    a.beat()
    assert t.group.epoch == epoch + 1
    a.beat()
    assert a.assigned == {"one": [0, 1], "two": [0, 1]}
    t.change_topics(other=3)
    epoch = t.group.epoch
    a.beat()
    assert t.group.epoch == epoch
    t.change_topics(two=0)
    a.beat()
    assert (t.group.epoch, a.assigned) == (epoch + 1, {"one": [0, 1]})
    t.check()


def test_a_heartbeat_that_cannot_be_written() -> None:
    """If a heartbeat cannot be written, it gets the log's error and changes nothing.

    No state is initialized.
    """
    t = ShareContext()
    a = t.member("A", "one")
    t.broker.append_error = lambda: ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert a.join().error is ErrorCode.NOT_COORDINATOR
    assert (t.broker.any_group, t.kept) == (None, {})
    t.broker.append_error = lambda: ErrorCode.NONE
    t.joined(a)
    t.broker.append_error = lambda: ErrorCode.KAFKA_STORAGE_ERROR
    t.broker.advance(45_000)
    assert list(t.group.members) == ["A"]


def test_groups_of_other_kinds() -> None:
    """A share heartbeat does not convert a group of another kind, and a leave is refused."""
    t = ShareContext()
    assert t.classic("C").join().parked is False
    a = t.member("A", "one")
    for epoch in (0, 1, -1):
        answer = a.send(member_epoch=epoch, subscribed_topic_names=["one"]).response
        assert ErrorCode(answer.error_code) is ErrorCode.GROUP_ID_NOT_FOUND
        assert answer.error_message == f"Group {GROUP} is not a share group."
    assert t.broker.group is not None


@pytest.mark.parametrize("known", [0, 1200])
def test_many_topics(known: int) -> None:
    """Many topics are looked up in steps, once, and again after topics have changed."""
    names = [f"topic-{number}" for number in range(1200)]
    t = ShareContext(dict.fromkeys(names[:known], 1))
    a = t.member("A", *names)
    assert a.join().error is ErrorCode.NONE
    a.beat()
    assert len(a.assigned or {}) == known
    assert a.join().error is ErrorCode.NONE
    b = t.member("B", *names)
    assert b.join().error is ErrorCode.NONE
    t.change_topics(**{"topic-1": 2})
    a.beat()
    assert t.group.states is None or len(t.states[1]) == (known or 1)
    t.check()
