"""DescribeTopicPartitions: pages, their order, and refused requests.

`tests/oracle/test_describe_topic_partitions.py` compares the same with a running Kafka.
"""

from __future__ import annotations

from typing import Any

import pytest

from protocol.apis.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from protocol.errors import ErrorCode
from protocol.schema import ZERO_UUID
from tests.harness.broker import MemoryBroker

ALL_TOPIC_OPERATIONS = 0b110111111000
Page = tuple[list[tuple[str | None, int, list[int]]], tuple[str, int] | None]


def ask(
    broker: MemoryBroker, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> Any:
    """Return the response to a request."""
    start = Cursor(topic_name=cursor[0], partition_index=cursor[1]) if cursor else None
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=start,
    )
    return broker.ask(request, 0)


def page(response: Any) -> Page:
    """Return name, error and partitions of each topic, and the next cursor."""
    topics = [
        (topic.name, topic.error_code, [one.partition_index for one in topic.partitions])
        for topic in response.topics
    ]
    cursor = response.next_cursor
    return topics, (cursor.topic_name, cursor.partition_index) if cursor else None


def broker_with_topics(**settings: Any) -> MemoryBroker:
    """Return a broker with three topics whose names are not in order of creation."""
    broker = MemoryBroker(**settings)
    for name, partitions in (("b", 3), ("a", 2), ("c", 1)):
        broker.topics.create(name, partitions, {})
    return broker


def test_a_topic_is_told_whole() -> None:
    """A topic has its id, leader, replicas, operations, and empty lists of eligible leaders."""
    broker = MemoryBroker()
    made = broker.topics.create("t", 1, {})
    (topic,) = ask(broker, "t").topics
    assert (topic.error_code, topic.name, topic.topic_id) == (0, "t", made.topic_id)
    assert (topic.is_internal, topic.topic_authorized_operations) == (False, ALL_TOPIC_OPERATIONS)
    (one,) = topic.partitions
    assert (one.error_code, one.partition_index, one.leader_id, one.leader_epoch) == (0, 0, 1, 0)
    assert (one.replica_nodes, one.isr_nodes, one.offline_replicas) == ([1], [1], [])
    assert (one.eligible_leader_replicas, one.last_known_elr) == ([], [])


def test_topics_come_by_name_and_once() -> None:
    """Topics are sorted by name and listed once; without names all topics are listed.

    Internal topics are included.
    """
    broker = broker_with_topics()
    assert page(ask(broker, "c", "a", "c")) == ([("a", 0, [0, 1]), ("c", 0, [0])], None)
    broker.topics.create_internal("__consumer_offsets")
    everything = ask(broker)
    assert [topic.name for topic in everything.topics] == ["__consumer_offsets", "a", "b", "c"]
    assert everything.topics[0].is_internal


def test_pages_follow_each_other() -> None:
    """A page has at most `limit` partitions; the cursors reach every partition once."""
    broker = broker_with_topics()
    first = page(ask(broker, limit=3))
    assert first == ([("a", 0, [0, 1]), ("b", 0, [0])], ("b", 1))
    second = page(ask(broker, limit=2, cursor=("b", 1)))
    assert second == ([("b", 0, [1, 2])], ("c", 0))
    assert page(ask(broker, limit=2, cursor=("c", 0))) == ([("c", 0, [0])], None)
    assert page(ask(broker, limit=6)) == (page(ask(broker))[0], None)


@pytest.mark.parametrize("limit", [0, -5])
def test_a_page_holds_one_partition_at_least(limit: int) -> None:
    """A page limit of 0 or less is treated as 1."""
    assert page(ask(broker_with_topics(), limit=limit)) == ([("a", 0, [0])], ("a", 1))


def test_the_broker_has_a_limit_too() -> None:
    """`max.request.partition.size.limit` caps the limit of the client."""
    broker = broker_with_topics(max_request_partition_size_limit="2")
    assert page(ask(broker, limit=100)) == ([("a", 0, [0, 1])], ("b", 0))


def test_missing_topics_are_told_by_their_error() -> None:
    """Missing topics have an error and operations, and do not count towards the page."""
    broker = broker_with_topics()
    response = ask(broker, "a", "missing", "a b", limit=2)
    assert page(response) == (
        [
            ("a", 0, [0, 1]),
        ],
        ("a b", 0),
    )
    response = ask(broker, "a", "a b", "missing", limit=3)
    assert page(response)[0][1:] == [
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION, []),
        ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []),
    ]
    assert response.topics[2].topic_id == ZERO_UUID
    assert response.topics[2].topic_authorized_operations == ALL_TOPIC_OPERATIONS
    assert broker.topics.topic("missing") is None


def test_a_cursor_behind_the_partitions_gives_none() -> None:
    """A cursor after a topic's last partition returns no partition of that topic."""
    told = page(ask(broker_with_topics(), cursor=("b", 3)))
    assert told == ([("b", 0, []), ("c", 0, [0])], None)


@pytest.mark.parametrize("cursor", [("b", -1), ("x", 0)])
def test_a_cursor_that_cannot_be_is_refused(cursor: tuple[str, int]) -> None:
    """A cursor with a negative partition or a topic that was not requested is refused."""
    topics, following = page(ask(broker_with_topics(), "c", "b", cursor=cursor))
    assert topics == [("c", ErrorCode.INVALID_REQUEST, []), ("b", ErrorCode.INVALID_REQUEST, [])]
    assert following is None


def test_an_empty_name_fails_the_whole_request() -> None:
    """An empty topic name fails the whole request, as in Kafka, unless there is a cursor."""
    broker = broker_with_topics()
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    assert page(ask(broker, "b", "")) == ([("b", error, []), ("", error, [])], None)
    assert page(ask(broker, "b", "", cursor=("b", 2))) == ([("b", 0, [2])], None)
    invalid = ErrorCode.INVALID_TOPIC_EXCEPTION
    assert page(ask(broker, "c", "", cursor=("", 0)))[0] == [("", invalid, []), ("c", 0, [0])]


def test_a_cursor_on_a_topic_that_is_gone_goes_on_behind_it() -> None:
    """A cursor on a deleted topic continues with the next topic, if all topics are requested."""
    assert page(ask(broker_with_topics(), cursor=("aa", 7)))[0] == [
        ("b", 0, [0, 1, 2]),
        ("c", 0, [0]),
    ]
