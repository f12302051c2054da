"""AlterShareGroupOffsets, DeleteShareGroupOffsets, and DeleteGroups of share groups."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_server.core.groups.classic.metadata import GroupMetadata
from protocol.errors import ErrorCode
from protocol.schema import ZERO_UUID
from tests.harness.one_group import GROUP, Answer, SimulatedTopic, topic_id_of
from tests.unit.core.groups.share.context import ShareContext

NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def answered(answer: Answer) -> list[tuple[str, list[tuple[int, ErrorCode]]]]:
    """Return the topics of an AlterShareGroupOffsets response, with their partition errors."""
    assert not answer.response.error_code, answer.response
    return [
        (
            topic.topic_name,
            [(one.partition_index, ErrorCode(one.error_code)) for one in topic.partitions],
        )
        for topic in answer.response.responses
    ]


def deleted(answer: Answer) -> list[tuple[str, ErrorCode]]:
    """Return the topics of a DeleteShareGroupOffsets response."""
    assert not answer.response.error_code, answer.response
    return [(one.topic_name, ErrorCode(one.error_code)) for one in answer.response.responses]


def refused(answer: Answer) -> tuple[ErrorCode, str | None]:
    """Return error and text of a response with only a top-level error."""
    assert not answer.response.responses
    return answer.error, answer.response.error_message


def emptied(t: ShareContext, *topics: str) -> None:
    """Let a member join and leave, so that its group has initialized partitions."""
    a = t.member("A", *topics)
    t.joined(a)
    a.leave()


# --- AlterShareGroupOffsets -------------------------------------------------------------------


def test_offsets_of_a_new_group() -> None:
    """Altering offsets creates the group; its partitions start at the group's epoch 1."""
    t = ShareContext()
    answer = t.alter({"two": {0: 5, 1: 7}})
    assert answered(answer) == [("two", [(0, NONE), (1, NONE)])]
    assert answer.response.responses[0].topic_id == topic_id_of("two")
    assert t.kept == {("two", 0): (1, 5), ("two", 1): (1, 7)}
    assert t.states == ({}, {"two": [0, 1]}, [])
    assert (t.group.state, t.epochs) == ("Empty", (1, 1))
    t.check()
    t.broker.crash()
    assert t.states == ({}, {"two": [0, 1]}, [])


def test_offsets_of_an_empty_group() -> None:
    """Altering offsets of an empty group restarts the state, at the group's epoch."""
    t = ShareContext()
    emptied(t, "one", "two")
    assert answered(t.alter({"one": {0: 9}})) == [("one", [(0, NONE)])]
    assert t.kept == {("one", 0): (4, 9), ("two", 0): (2, -1), ("two", 1): (2, -1)}
    assert t.states == ({}, {"one": [0], "two": [0, 1]}, [])
    t.check()


def test_what_cannot_be_altered() -> None:
    """Unknown topics come first in the response; unknown topics without partitions are omitted."""
    t = ShareContext()
    answer = t.alter({"one": {0: 1, 1: 1}, "no-such": {0: 1}, "nor-this": {}, "two": {1: 3}})
    assert answered(answer) == [
        ("no-such", [(0, UNKNOWN)]),
        ("one", [(0, NONE), (1, UNKNOWN)]),
        ("two", [(1, NONE)]),
    ]
    first = answer.response.responses[0]
    assert first.topic_id == ZERO_UUID
    assert first.partitions[0].error_message == "This server does not host this topic-partition."
    assert t.states == ({}, {"one": [0], "two": [1]}, [])
    t.check()


def test_a_topic_that_stands_twice() -> None:
    """A topic named twice has all its partitions in one place of the response."""
    t = ShareContext()
    request: Any = t.alter({"two": {0: 1}}).request
    other: Any = t.alter({"two": {1: 2}}).request
    request.topics = [*request.topics, *other.topics]
    assert answered(t.broker.send(request, 0)) == [("two", [(0, NONE), (1, NONE)])]


def test_nothing_to_alter() -> None:
    """A request with only unknown topics creates nothing; a known topic creates the group."""
    t = ShareContext()
    assert answered(t.alter({"no-such": {0: 1}})) == [("no-such", [(0, UNKNOWN)])]
    assert answered(t.alter({})) == []
    assert t.broker.any_group is None
    assert answered(t.alter({"one": {7: 1}})) == [("one", [(7, UNKNOWN)])]
    assert t.states == ({"one": []}, {}, [])
    assert t.broker.delete().error is NONE
    assert t.broker.any_group is None


def test_a_negative_partition() -> None:
    """A negative partition fails the whole request, as in Kafka's Persister."""
    t = ShareContext()
    assert refused(t.alter({"one": {-1: 0}})) == (
        ErrorCode.UNKNOWN_SERVER_ERROR,
        "Initialize share group parameters has invalid partitionId - g b25lLS0tLS0tLS0tLS0tLQ -1",
    )
    assert t.broker.any_group is None


def test_groups_that_cannot_be_altered() -> None:
    """Altering offsets is refused for groups with members, of another kind, or without a name.

    A group on another broker is refused, too.
    """
    t = ShareContext()
    a = t.member("A", "one")
    t.joined(a)
    not_empty = (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    assert refused(t.alter({"one": {0: 1}})) == not_empty
    assert refused(t.delete_offsets("one")) == not_empty
    no_name = (ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")
    assert refused(t.alter({}, group_id="")) == no_name
    assert refused(t.delete_offsets(group_id="")) == no_name
    t.broker.unload()
    moved = (ErrorCode.NOT_COORDINATOR, "This is not the correct coordinator.")
    assert refused(t.alter({"one": {0: 1}})) == moved
    assert refused(t.delete_offsets("one")) == moved


def test_classic_groups_have_no_such_offsets() -> None:
    """An empty classic group refuses to alter and to delete share group offsets."""
    t = ShareContext()
    t.classic("A").join()
    wrong = (ErrorCode.GROUP_ID_NOT_FOUND, f"Group {GROUP} is not a share group.")
    assert refused(t.alter({"one": {0: 1}})) == wrong
    assert refused(t.delete_offsets("one")) == wrong


def test_the_share_coordinator_refuses_to_alter() -> None:
    """The share coordinator's errors are returned per partition, which stays initializing."""
    t = ShareContext()
    t.refusing("two", ErrorCode.FENCED_STATE_EPOCH)
    answer = t.alter({"one": {0: 1}, "two": {0: 1, 5: 1}})
    assert answered(answer) == [
        ("one", [(0, NONE)]),
        ("two", [(0, ErrorCode.FENCED_STATE_EPOCH), (5, UNKNOWN)]),
    ]
    assert t.states == ({"one": [0], "two": [0]}, {}, [])
    t.check()


def test_what_is_altered_is_not_deleting_any_more() -> None:
    """Altering a topic cancels its failed deletion."""
    t = ShareContext()
    emptied(t, "one", "two")
    for topic in ("one", "two"):
        t.refusing(topic, ErrorCode.NOT_COORDINATOR)
    t.delete_offsets("one", "two")
    assert t.states == ({}, {}, ["one", "two"])
    t.refusing("one", None)
    t.alter({"one": {0: 3}})
    assert t.states == ({}, {"one": [0]}, ["two"])
    t.check()


def test_an_alteration_that_cannot_be_written() -> None:
    """If an alteration cannot be recorded, the error is returned and no state is changed."""
    t = ShareContext()
    t.broker.append_error = lambda: ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert t.alter({"one": {0: 3}}).error is ErrorCode.NOT_COORDINATOR
    assert (t.kept, t.broker.any_group) == ({}, None)


def test_a_large_alteration() -> None:
    """A large AlterShareGroupOffsets runs in steps and gets the same response."""
    t = ShareContext({"many": 1200})
    small = t.alter({"many": dict.fromkeys(range(1200), 5)})
    request = small.request
    assert answered(t.broker.send(request, 0, is_large=True)) == answered(small)
    assert len(t.kept) == 1200


# --- DeleteShareGroupOffsets ------------------------------------------------------------------


def test_offsets_are_deleted() -> None:
    """In the response deleted topics precede topics without state and unknown topics."""
    t = ShareContext()
    emptied(t, "one", "two")
    answer = t.delete_offsets("three", "one", "no-such")
    assert deleted(answer) == [("one", NONE), ("three", UNKNOWN), ("no-such", UNKNOWN)]
    one, three, no_such = answer.response.responses
    assert (one.topic_id, three.topic_id) == (topic_id_of("one"), ZERO_UUID)
    assert three.error_message == "There is no offset information to delete."
    assert no_such.error_message == "This server does not host this topic-partition."
    assert set(t.kept) == {("two", 0), ("two", 1)}
    assert t.states == ({}, {"two": [0, 1]}, [])
    assert deleted(t.delete_offsets("one")) == [("one", UNKNOWN)]
    t.check()


def test_a_deletion_that_fails_is_tried_again() -> None:
    """A topic whose deletion fails stays deleting, and all its partitions are retried."""
    t = ShareContext()
    emptied(t, "one", "two")
    t.refusing("two", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    answer = t.delete_offsets("two", "one")
    failed = ("two", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert deleted(answer) == [("one", NONE), failed]
    assert answer.response.responses[1].topic_id == topic_id_of("two")
    assert answer.response.responses[1].error_message == "The coordinator is not available."
    assert t.states == ({}, {}, ["two"])
    assert deleted(t.delete_offsets("two")) == [failed]
    t.refusing("two", None)
    assert deleted(t.delete_offsets("two")) == [("two", NONE)]
    assert (t.kept, t.states) == ({}, ({}, {}, []))
    t.check()


def test_no_state_to_delete() -> None:
    """DeleteShareGroupOffsets of a group without state has no topics in the response.

    An unknown group gets GROUP_ID_NOT_FOUND.
    """
    t = ShareContext()
    missing = (ErrorCode.GROUP_ID_NOT_FOUND, f"Group {GROUP} not found.")
    assert refused(t.delete_offsets("one")) == missing
    emptied(t, "no-such")
    assert deleted(t.delete_offsets("one", "no-such")) == []


@pytest.mark.parametrize("step", [0, 1])
def test_a_deletion_that_cannot_be_written(step: int) -> None:
    """A deletion fails if its record cannot be written, before or after the state is deleted."""
    t = ShareContext()
    emptied(t, "one")
    errors = iter([NONE] * step)
    t.broker.append_error = lambda: next(errors, ErrorCode.KAFKA_STORAGE_ERROR)
    error, _ = refused(t.delete_offsets("one"))
    assert error is ErrorCode.NOT_COORDINATOR
    assert bool(t.kept) is (step == 0)
    assert t.states == (({}, {"one": [0]}, []) if step == 0 else ({}, {}, ["one"]))


def test_the_group_moves_while_the_share_coordinator_thinks() -> None:
    """If the group moves before the share coordinator answers, requests get NOT_COORDINATOR."""
    t = ShareContext()
    emptied(t, "one")
    t.share_state.hold()
    moved, altered = t.delete_offsets("one"), t.alter({"one": {0: 4}})
    assert moved.parked
    t.broker.unload()
    t.let_go()
    assert refused(moved) == (ErrorCode.NOT_COORDINATOR, "This is not the correct coordinator.")
    assert altered.error is ErrorCode.NOT_COORDINATOR


def test_states_are_gone_when_the_share_coordinator_answers() -> None:
    """A waiting request is answered even if the group's state record is removed meanwhile."""
    t = ShareContext()
    emptied(t, "one")
    t.share_state.hold()
    answer = t.delete_offsets("one")
    t.group.states = None
    t.let_go()
    assert deleted(answer) == [("one", NONE)]


# --- DeleteGroups -----------------------------------------------------------------------------


def test_a_group_is_deleted_with_its_state() -> None:
    """DeleteGroups first marks all topics as deleting, then deletes their state, then the group."""
    t = ShareContext()
    emptied(t, "one", "two")
    t.share_state.hold()
    answer = t.broker.delete()
    assert answer.parked
    assert t.states == ({}, {}, ["one", "two"])
    t.let_go()
    assert answer.error is NONE
    assert (t.kept, t.broker.any_group) == ({}, None)
    assert t.records()[-3:] == ["-TargetAssignmentMetadata", "-StatePartitionMetadata", "-Metadata"]
    assert isinstance(t.broker.replayed(), GroupMetadata)
    t.broker.crash()
    assert t.broker.any_group is None
    assert t.broker.delete().error is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_without_state_is_deleted_at_once() -> None:
    """A group without state is deleted without a call to the share coordinator."""
    t = ShareContext()
    emptied(t, "no-such")
    assert t.broker.delete().error is NONE
    assert t.broker.any_group is None


def test_a_group_with_members_is_not_deleted() -> None:
    """A group with members is not deleted, also if a member joins during the deletion."""
    t = ShareContext()
    a = t.member("A", "one")
    t.joined(a)
    assert t.broker.delete().error is ErrorCode.NON_EMPTY_GROUP
    assert t.kept
    a.leave()
    t.share_state.hold()
    answer = t.broker.delete()
    a.join()
    t.let_go()
    assert answer.error is ErrorCode.NON_EMPTY_GROUP
    assert t.group.state == "Stable"
    t.check()


def test_a_group_whose_state_cannot_be_deleted() -> None:
    """A group whose state cannot be deleted stays and can be deleted later.

    State of deleted topics does not prevent the deletion of the group.
    """
    t = ShareContext()
    emptied(t, "one", "two")
    t.refusing("two", ErrorCode.NOT_COORDINATOR)
    assert t.broker.delete().error is ErrorCode.NOT_COORDINATOR
    assert t.states == ({}, {}, ["one", "two"])
    t.change_topics(one=0)
    assert t.broker.delete().error is ErrorCode.NOT_COORDINATOR
    assert t.states == ({}, {}, ["two"])
    t.refusing("two", None)
    assert t.broker.delete().error is NONE
    assert t.broker.any_group is None


def test_a_group_whose_deletion_cannot_be_written() -> None:
    """A group whose deletion cannot be written stays unchanged."""
    t = ShareContext()
    emptied(t, "one")
    t.broker.append_error = lambda: ErrorCode.KAFKA_STORAGE_ERROR
    assert t.broker.delete().error is ErrorCode.NOT_COORDINATOR
    assert t.states == ({}, {"one": [0]}, [])


def test_a_group_that_is_deleted_twice() -> None:
    """A second deletion, and a waiting DeleteShareGroupOffsets, find no group any more.

    A waiting AlterShareGroupOffsets creates the group again.
    """
    t = ShareContext()
    emptied(t, "one")
    t.share_state.hold()
    first, second = t.broker.delete(), t.broker.delete()
    offsets, altered = t.delete_offsets("one"), t.alter({"two": {0: 4}})
    t.let_go()
    assert (first.error, second.error) == (NONE, ErrorCode.GROUP_ID_NOT_FOUND)
    assert refused(offsets) == (ErrorCode.GROUP_ID_NOT_FOUND, f"Group {GROUP} not found.")
    assert answered(altered) == [("two", [(0, NONE)])]
    assert t.states == ({}, {"two": [0]}, [])
    t.check()


def test_a_bug_while_the_share_coordinator_thinks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in one request does not affect another request that waits for a response.

    Both requests wait for the share coordinator.
    """
    t = ShareContext()
    emptied(t, "one")
    t.share_state.hold()
    t.broker.survives_bugs = True
    topic_of = t.broker.topics.topic

    def topic(name: str) -> SimulatedTopic | None:
        assert name != "bug"
        return topic_of(name)

    monkeypatch.setattr(t.broker.topics, "topic", topic)
    with t.broker.one_drain():
        answer, broken = t.delete_offsets("one"), t.alter({"bug": {0: 4}})
    assert broken.failed
    assert answer.parked
    t.let_go()
    assert deleted(answer) == [("one", NONE)]
    assert t.states == ({}, {}, [])


def test_a_group_that_cannot_be_reloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the group cannot be reloaded, requests that wait for the share coordinator fail."""
    t = ShareContext()
    emptied(t, "one")
    t.share_state.hold()
    t.broker.survives_bugs = True
    answer = t.delete_offsets("one")

    def spoilt(_: object) -> None:
        raise AssertionError

    task = t.broker.task
    assert task is not None
    monkeypatch.setattr(t.broker.topics, "topic", spoilt)
    monkeypatch.setattr(type(task.partition), "reload", spoilt)
    broken = t.alter({"one": {0: 4}})
    assert broken.failed
    assert answer.parked
    t.let_go()
    assert answer.failed
