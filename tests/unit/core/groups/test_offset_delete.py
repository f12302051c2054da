"""OffsetDelete: deletes offsets of topics without subscribers."""

from typing import Any

import pytest

from coordinator_server.core.groups.classic.state import GroupState
from protocol.errors import ErrorCode
from tests.unit.core.groups.context import (
    GroupContext,
    commit,
    commit_answer,
    offset_delete,
    offsets,
    subscription,
)

E = ErrorCode


def test_offset_delete_of_a_standalone_group() -> None:
    """Deleted offsets get tombstones; the group stays even without offsets."""
    context = GroupContext()
    broker = context.broker
    commit(broker, ("one", 0, 1), ("three", 0, 2), ("three", 1, 3))
    response = offset_delete(broker, ("one", 0), ("three", 2), ("three", 9), ("nope", 0))
    errors = [
        (topic.name, one.partition_index, one.error_code)
        for topic in response.topics
        for one in topic.partitions
    ]
    assert errors == [
        ("three", 9, E.UNKNOWN_TOPIC_OR_PARTITION),
        ("three", 2, E.NONE),
        ("nope", 0, E.UNKNOWN_TOPIC_OR_PARTITION),
        ("one", 0, E.NONE),
    ]
    assert len(broker.log) == 4
    offset_delete(broker, ("three", 0), ("three", 1))
    assert offsets(broker) == {}
    assert context.state == GroupState.EMPTY
    broker.check_replay_law()


def test_offset_delete_refused_as_a_whole() -> None:
    """OffsetDelete of an unknown, moved or differently typed group is refused."""
    context = GroupContext()
    broker = context.broker
    assert offset_delete(broker, ("one", 0)).error_code == E.GROUP_ID_NOT_FOUND
    assert offset_delete(broker).error_code == E.GROUP_ID_NOT_FOUND
    context.stable("A", protocol_type="connect")
    for topic in ("one", "nope"):
        response = offset_delete(broker, (topic, 0))
        assert (response.error_code, response.topics) == (E.NON_EMPTY_GROUP, [])
    broker.unload()
    assert offset_delete(broker, ("one", 0)).error_code == E.NOT_COORDINATOR


def test_offset_delete_needs_a_group_id() -> None:
    """OffsetDelete refuses the empty group id, although OffsetCommit accepts it."""
    context = GroupContext()
    offset_delete(context.broker, ("one", 0))
    request: Any = context.broker.answers[-1].request
    request.group_id = ""
    assert context.broker.send(request, 0).error is E.INVALID_GROUP_ID


@pytest.mark.parametrize(
    ("metadata", "one", "three"),
    [
        (subscription("one"), E.GROUP_SUBSCRIBED_TO_TOPIC, E.NONE),
        (b"\x7f", E.GROUP_SUBSCRIBED_TO_TOPIC, E.GROUP_SUBSCRIBED_TO_TOPIC),
    ],
)
def test_offset_delete_of_subscribed_topics(
    metadata: bytes, one: ErrorCode, three: ErrorCode
) -> None:
    """Offsets of subscribed topics stay; with an unreadable subscription all offsets stay."""
    context = GroupContext()
    (a,) = context.stable("A", protocols=[("range", metadata)])
    a.commit(("one", 0, 1), ("three", 0, 2))
    response = offset_delete(context.broker, ("one", 0), ("three", 0))
    assert [topic.partitions[0].error_code for topic in response.topics] == [one, three]
    a.leave()
    response = offset_delete(context.broker, ("one", 0), ("three", 0))
    assert [topic.partitions[0].error_code for topic in response.topics] == [E.NONE, E.NONE]


def test_offset_delete_that_cannot_be_written() -> None:
    """If a deletion cannot be written, it gets the coordinator error, and the offsets stay."""
    context = GroupContext()
    commit(context.broker, ("one", 0, 1))
    context.broker.append_error = lambda: E.KAFKA_STORAGE_ERROR
    assert offset_delete(context.broker, ("one", 0)).error_code == E.NOT_COORDINATOR
    assert offsets(context.broker) == {("one", 0): (1, "")}


def test_offset_delete_sees_the_commits_before_it() -> None:
    """A deletion includes the commits that were queued before it."""
    context = GroupContext()
    with context.broker.one_drain():
        commit_answer(context.broker, ("one", 0, 1))
        offset_delete(context.broker, ("one", 0))
    assert offsets(context.broker) == {}
