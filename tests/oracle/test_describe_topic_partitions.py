"""DescribeTopicPartitions: Kafka and our broker return the same pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.apis.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from protocol.json_form import to_json
from tests.faults.client import Client
from tests.oracle.kafka_process import Kafka
from tests.support import Broker, address_of, wait_for

TOPICS = {"b": 3, "a": 2, "B-z": 4, "_x": 1, "a.b": 1}
LIMIT = {"max.request.partition.size.limit": "7"}
ASKED: list[tuple[list[str], int, tuple[str, int] | None]] = [
    ([], 2000, None),
    ([], 3, None),
    ([], 3, ("_x", 0)),
    ([], 1, ("a", 1)),
    ([], 2, ("a.b", 0)),
    ([], 2, ("aa", 5)),
    ([], 0, None),
    ([], -3, None),
    ([], 2000, ("a", -1)),
    ([], 2000, ("b", 3)),
    ([], 2000, ("b", 17)),
    (["b", "a", "b"], 2000, None),
    (["b", "a"], 2, None),
    (["b", "a"], 2000, ("b", 1)),
    (["b", "a"], 2000, ("a.b", 0)),
    (["b", "a"], 2000, ("a", -1)),
    (["missing", "a", "no name!", "é"], 2, None),
    (["missing", "a", "no name!", "é"], 3, None),
    (["missing", "b", "", "__consumer_offsets"], 3, None),
    (["missing", "b", "", "a"], 3, ("b", 0)),
    (["missing", ""], 3, ("", 0)),
    (["", "b"], 3, ("", -1)),
    (["missing", "a"], 2000, ("missing", 4)),
    (["__consumer_offsets"], 10, None),
]


def answers(address: tuple[str, int]) -> list[dict[str, Any]]:
    """Return a broker's response to each request, without ids."""
    client = Client(address)
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in TOPICS.items()
    ]
    client.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)

    def ask(names: list[str], limit: int, cursor: tuple[str, int] | None) -> dict[str, Any]:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=Cursor(topic_name=cursor[0], partition_index=cursor[1]) if cursor else None,
        )
        answer: dict[str, Any] = to_json(client.ask(request, 0), 0)
        for topic in answer["topics"]:
            topic["has_id"] = set(topic.pop("topicId")) != {"A"}
        return answer

    wait_for(lambda: ask(["b"], 2000, None)["topics"][0]["partitions"], "the topics are known")
    try:
        return [ask(*asked) for asked in ASKED]
    finally:
        client.close()


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Kafka's responses."""
    kafka = Kafka(tmp_path_factory.mktemp("kafka"), LIMIT)
    try:
        kafka.start()
        return answers(address_of(kafka.bootstrap_servers))
    finally:
        kafka.end()


@pytest.mark.nightly
def test_answers_are_kafkas(theirs: list[dict[str, Any]], tmp_path: Path) -> None:
    """Every field of every response is equal, including the order."""
    with Broker(LIMIT, data_dir=tmp_path / "ours") as broker:
        ours = answers(broker.address)
    for asked, our, their in zip(ASKED, ours, theirs, strict=True):
        assert our == their, asked
