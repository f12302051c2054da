"""DeleteTopics. The responses are those of a running Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from coordinator_server.topics.topic import Topic
from protocol.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.errors import ErrorCode
from protocol.schema import ZERO_UUID
from tests.harness.broker import MemoryBroker
from tests.harness.clock import START_MS
from tests.harness.records import batch

NO_PARTITION = "This server does not host this topic-partition."
NO_ID = "This server does not host this topic ID."
Result = tuple[str | None, bytes, int, str | None]


def broker(*names: str, **overrides: Any) -> MemoryBroker:
    """Return a broker with these topics."""
    made = MemoryBroker(**overrides)
    for name in names:
        made.topics.create(name, 2, {})
    return made


def topic_id(made: MemoryBroker, name: str) -> bytes:
    """Return the id of a topic."""
    topic = made.topics.topic(name)
    assert topic is not None
    return topic.topic_id


def delete(made: MemoryBroker, *asked: str | bytes | tuple[str, bytes]) -> list[Result]:
    """Delete topics by names and ids at version 6; return the results."""
    states = []
    for one in asked:
        if isinstance(one, str):
            states.append(DeleteTopicState(name=one))
        elif isinstance(one, bytes):
            states.append(DeleteTopicState(topic_id=one))
        else:
            states.append(DeleteTopicState(name=one[0], topic_id=one[1]))
    response = made.ask(DeleteTopicsRequest(topics=states), 6)
    return [
        (one.name, one.topic_id, one.error_code, one.error_message) for one in response.responses
    ]


@pytest.mark.parametrize("version", range(1, 6))
def test_topics_are_deleted_by_name(version: int) -> None:
    """Up to version 5 topics are deleted by name; errors have a text since version 5."""
    made = broker("a", "b")
    request = DeleteTopicsRequest(topic_names=["a", "nope"])
    response = made.ask(request, version)
    text = NO_PARTITION if version >= 5 else None
    assert [(one.name, one.error_code, one.error_message) for one in response.responses] == [
        ("a", 0, None),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text),
    ]
    assert made.topics.topic("a") is None
    assert made.topics.topic("b") is not None


def test_topics_are_deleted_by_id() -> None:
    """Since version 6 topics are deleted by name or id; the response has both if known."""
    made = broker("a", "b")
    a_id, b_id = topic_id(made, "a"), topic_id(made, "b")
    results = delete(made, a_id, "b", b"q" * 16, "zip")
    assert results == [
        ("a", a_id, 0, None),
        ("b", b_id, 0, None),
        (None, b"q" * 16, ErrorCode.UNKNOWN_TOPIC_ID, NO_ID),
        ("zip", ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NO_PARTITION),
    ]
    assert list(made.topics.all_topics()) == []


def test_what_is_ambiguous_is_refused() -> None:
    """A topic with name and id, with neither, or named twice gets INVALID_REQUEST.

    None of these topics is deleted.
    """
    made = broker("a")
    a_id = topic_id(made, "a")
    invalid = ErrorCode.INVALID_REQUEST
    assert delete(made, ("a", a_id)) == [
        ("a", a_id, invalid, "You may not specify both topic name and topic id.")
    ]
    assert delete(made, ZERO_UUID) == [
        (None, ZERO_UUID, invalid, "Neither topic name nor id were specified.")
    ]
    assert delete(made, "a", "a") == [("a", ZERO_UUID, invalid, "Duplicate topic name.")]
    assert delete(made, a_id, a_id) == [(None, a_id, invalid, "Duplicate topic id.")]
    mapped = "The provided topic name maps to an ID that was already supplied."
    assert delete(made, "a", a_id) == [("a", a_id, invalid, mapped)]
    assert made.topics.topic("a") is not None


def test_internal_topics_may_be_deleted() -> None:
    """Internal topics can be deleted, as in Kafka."""
    made = broker()
    made.topics.create_internal("__consumer_offsets")
    assert delete(made, "__consumer_offsets")[0][2] == 0


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (1, ErrorCode.INVALID_REQUEST),
        (2, ErrorCode.INVALID_REQUEST),
        (3, ErrorCode.TOPIC_DELETION_DISABLED),
        (5, ErrorCode.TOPIC_DELETION_DISABLED),
    ],
)
def test_deletion_can_be_turned_off(version: int, error: ErrorCode) -> None:
    """With delete.topic.enable=false DeleteTopics refuses every topic."""
    made = broker("a", delete_topic_enable="false")
    response = made.ask(DeleteTopicsRequest(topic_names=["a"]), version)
    assert [(one.name, one.error_code) for one in response.responses] == [("a", error)]
    assert made.topics.topic("a") is not None


def test_the_name_is_free_again_and_the_new_topic_is_empty() -> None:
    """A topic that is recreated under the same name has another id and no records."""
    made = broker("a")
    old_id = topic_id(made, "a")
    partition = made.topics.partition("a", 0)
    assert partition is not None
    partition.append(batch(b"x"), START_MS)
    delete(made, "a")
    made.topics.create("a", 1, {})
    assert topic_id(made, "a") != old_id
    assert made.topics.topic_by_id(old_id) is None
    assert made.topics.log("a", 0).log_end_offset == 0


def test_who_listens_is_told() -> None:
    """Deletion listeners are called when the topic can no longer be found."""
    made = broker("a")
    heard: list[tuple[str, bool]] = []

    def listen(topics: Mapping[str, Topic]) -> None:
        heard.extend((name, made.topics.topic("a") is None) for name in topics)

    made.topics.on_deleted.append(listen)
    delete(made, "a", "nope")
    assert heard == [("a", True)]


def test_a_disk_that_fails() -> None:
    """A topic that cannot be deleted gets KAFKA_STORAGE_ERROR and stays."""
    made = broker("a")
    made.disk.fail_at(0)
    assert delete(made, "a")[0][2] == ErrorCode.KAFKA_STORAGE_ERROR
    assert made.topics.topic("a") is not None
    assert delete(made, "a")[0][2] == 0
