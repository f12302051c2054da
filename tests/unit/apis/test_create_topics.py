"""CreateTopics and CreatePartitions. The responses are those of a running Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from protocol.apis.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from protocol.apis.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from protocol.errors import ErrorCode
from protocol.schema import ZERO_UUID
from tests.harness.broker import MemoryBroker
from tests.harness.clock import START_MS
from tests.harness.records import batch


def topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    *,
    places: Mapping[int, list[int]] | None = None,
    configs: Mapping[str, str | None] | None = None,
) -> CreatableTopic:
    """Return a topic for a creation request."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (places or {}).items()
        ],
        configs=[
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ],
    )


def create(
    broker: MemoryBroker, *topics: CreatableTopic, version: int = 7, validate_only: bool = False
) -> list[Any]:
    """Create topics; return the results."""
    asked = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    results: list[Any] = broker.ask(asked, version).topics
    return results


def refusal(broker: MemoryBroker, asked: CreatableTopic) -> tuple[int, str | None]:
    """Return error and text of a topic that must not be created."""
    (result,) = create(broker, asked)
    assert result.topic_id == ZERO_UUID
    assert (result.num_partitions, result.replication_factor) == (-1, -1)
    assert result.configs == []
    return result.error_code, result.error_message


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_created(version: int) -> None:
    """A created topic exists at once; version 5 returns its size and configs, version 7 its id."""
    broker = MemoryBroker()
    (result,) = create(broker, topic("t", 3), version=version)
    made = broker.topics.topic("t")
    assert made is not None
    assert len(made.partitions) == 3
    assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
    assert result.topic_id == (made.topic_id if version >= 7 else ZERO_UUID)
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        assert len(result.configs) == 37


def test_a_topic_survives_a_restart() -> None:
    """A topic's name, id, partitions and configs survive a clean restart and a crash."""
    broker = MemoryBroker()
    create(broker, topic("t", 3, configs={"retention.ms": "777"}))
    before = broker.topics.topic("t")
    assert before is not None
    broker.topics.close()
    for _ in range(2):
        broker = MemoryBroker(broker.disk)
        after = broker.topics.topic("t")
        assert after is not None
        assert (after.topic_id, len(after.partitions)) == (before.topic_id, 3)
        assert after.configs == {"retention.ms": "777"}
        assert broker.topics.topic_by_id(before.topic_id) is after
        broker.disk.processes_died()


def test_defaults() -> None:
    """A partition or replica count of -1 means the broker's default.

    The replica count is limited to the number of brokers.
    """
    broker = MemoryBroker(num_partitions="4", default_replication_factor="3")
    (result,) = create(broker, topic("t", -1, -1))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 4, 1)


def test_validate_only() -> None:
    """CreateTopics with validate_only has the response of a creation and creates nothing."""
    broker = MemoryBroker()
    (result,) = create(broker, topic("t", 3), validate_only=True)
    assert (result.error_code, result.num_partitions) == (0, 3)
    assert result.topic_id != ZERO_UUID
    assert broker.topics.topic("t") is None
    create(broker, topic("t"))
    (result,) = create(broker, topic("t"), validate_only=True)
    assert result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_name_that_is_taken() -> None:
    """CreateTopics of an existing name gets TOPIC_ALREADY_EXISTS.

    A name that differs from an existing name only in `.` and `_` gets INVALID_TOPIC_EXCEPTION.
    """
    broker = MemoryBroker()
    create(broker, topic("co.l"))
    assert refusal(broker, topic("co.l")) == (
        ErrorCode.TOPIC_ALREADY_EXISTS,
        "Topic 'co.l' already exists.",
    )
    assert refusal(broker, topic("co_l")) == (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "Topic 'co_l' collides with existing topic: co.l",
    )


@pytest.mark.parametrize(
    ("asked", "error", "text"),
    [
        (
            topic("__cluster_metadata"),
            ErrorCode.INVALID_REQUEST,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (topic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: 'a b' contains"),
        (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string"),
        (topic("t", 0), ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid"),
        (topic("t", -2), ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an inval"),
        (topic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larg"),
        (topic("t", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be lar"),
        (
            topic("t", 1, 2),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Unable to replicate the partition 2 time(s): The target replication factor of 2 "
            "cannot be reached because only 1 broker(s) are registered or some brokers have all "
            "their log directories cordoned.",
        ),
        (topic("t", 200_000), ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions"),
        (
            topic("t", configs={"nope": "1"}),
            ErrorCode.INVALID_CONFIG,
            "Unknown topic config name: nope",
        ),
        (
            topic("t", configs={"retention.ms": "abc"}),
            ErrorCode.INVALID_CONFIG,
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        ),
        (
            topic("t", configs={"cleanup.policy": "abc"}),
            ErrorCode.INVALID_CONFIG,
            "Invalid value abc for configuration cleanup.policy: String must be one of: compact, "
            "delete",
        ),
        (
            topic("t", configs={"retention.ms": None}),
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms",
        ),
        (
            topic("t", configs={"min.cleanable.dirty.ratio": "1.5"}),
            ErrorCode.INVALID_CONFIG,
            "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more "
            "than 1",
        ),
        (
            topic("t", configs={"preallocate": "maybe"}),
            ErrorCode.INVALID_CONFIG,
            "Invalid value maybe for configuration preallocate: Expected value to be either true "
            "or false",
        ),
        (
            topic("t", configs={"remote.storage.enable": "true"}),
            ErrorCode.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker.",
        ),
        (
            topic("t", configs={"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}),
            ErrorCode.INVALID_CONFIG,
            "conflict topic config setting min.compaction.lag.ms (9) > max.compaction.lag.ms (8)",
        ),
    ],
)
def test_what_is_refused(asked: CreatableTopic, error: ErrorCode, text: str) -> None:
    """CreateTopics with a bad name, number or config gets Kafka's error and creates nothing.

    With validate_only the errors are the same.
    """
    broker = MemoryBroker()
    code, message = refusal(broker, asked)
    assert code == error
    assert (message or "").startswith(text)
    (validated,) = create(broker, asked, validate_only=True)
    assert (validated.error_code, validated.error_message) == (code, message)
    assert list(broker.topics.all_topics()) == []


def test_a_partition_that_is_placed_twice() -> None:
    """A partition with two assignments is refused, but an earlier error takes precedence."""
    broker = MemoryBroker()
    for places, text in (
        (((0, [1]), (0, [9])), "Found multiple manual partition assignments for partition 0"),
        (((1, [9]), (0, [1]), (0, [1])), "The manual partition assignment includes broker 9"),
    ):
        asked = topic("t", -1, -1)
        asked.assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in places
        ]
        code, message = refusal(broker, asked)
        assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert (message or "").startswith(text)


def test_configs_of_a_new_topic() -> None:
    """In the response, requested configs have the topic as source, all other configs a default."""
    broker = MemoryBroker()
    configs = {"retention.ms": "12345", "cleanup.policy": "compact,delete"}
    (result,) = create(broker, topic("t", configs=configs))
    told = {config.name: (config.value, config.config_source) for config in result.configs}
    assert told["retention.ms"] == ("12345", 1)
    assert told["cleanup.policy"] == ("compact,delete", 1)
    assert told["segment.bytes"] == ("1073741824", 5)
    assert broker.topics.log("t", 0).config.retention_ms == 12345


def test_a_name_that_stands_twice() -> None:
    """A topic named twice gets one INVALID_REQUEST after the other topics, which are created."""
    broker = MemoryBroker()
    results = create(broker, topic("d1"), topic("d1"), topic("d2"))
    assert [(one.name, one.error_code, one.error_message) for one in results] == [
        ("d2", 0, None),
        ("d1", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
    ]
    assert broker.topics.topic("d1") is None


def test_manual_assignments() -> None:
    """Replicas may be placed manually on this broker."""
    broker = MemoryBroker()
    (result,) = create(broker, topic("t", -1, -1, places={0: [1], 1: [1]}))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 1)


@pytest.mark.parametrize(
    ("asked", "error", "text"),
    [
        (topic("t", 1, 1, places={0: [1]}), 42, "but replication factor was not set to -1."),
        (topic("t", 1, -1, places={0: [1]}), 42, "but numPartitions was not set to -1."),
        (
            topic("t", -1, -1, places={0: [1], 2: [1]}),
            39,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            topic("t", -1, -1, places={1: [1]}),
            39,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            topic("t", -1, -1, places={0: [7]}),
            39,
            "The manual partition assignment includes broker 7, but no such broker is registered.",
        ),
        (
            topic("t", -1, -1, places={0: [1, 1]}),
            39,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            topic("t", -1, -1, places={0: []}),
            39,
            "The manual partition assignment includes an empty replica list.",
        ),
    ],
)
def test_assignments_that_are_refused(asked: CreatableTopic, error: int, text: str) -> None:
    """A topic with manual assignments that also sets a count gets INVALID_REQUEST.

    Invalid assignments get INVALID_REPLICA_ASSIGNMENT.
    """
    code, message = refusal(MemoryBroker(), asked)
    assert code == error
    assert (message or "").endswith(text)


def test_a_disk_that_fails() -> None:
    """If the disk fails, CreateTopics gets KAFKA_STORAGE_ERROR, and a later request succeeds."""
    broker = MemoryBroker()
    broker.disk.fail_at(0)
    assert create(broker, topic("t"))[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert create(broker, topic("t"))[0].error_code == 0


def test_results_in_the_order_of_the_request() -> None:
    """CreateTopics results are in the order of the request, whether topics are valid or not."""
    results = create(MemoryBroker(), topic("o3"), topic("o1"), topic("bad name"), topic("o2"))
    assert [one.name for one in results] == ["o3", "o1", "bad name", "o2"]


# --- CreatePartitions -----------------------------------------------------------------------------


def widen(
    broker: MemoryBroker,
    *asked: tuple[str, int] | tuple[str, int, list[list[int]]],
    version: int = 3,
    validate_only: bool = False,
) -> list[tuple[str, int, str | None]]:
    """Increase the partition counts of topics; return the results."""
    topics = [
        CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=[CreatePartitionsAssignment(broker_ids=brokers) for brokers in places[0]]
            if places
            else None,
        )
        for name, count, *places in asked
    ]
    request = CreatePartitionsRequest(topics=topics, validate_only=validate_only)
    response = broker.ask(request, version)
    return [(one.name, one.error_code, one.error_message) for one in response.results]


def wide(partitions: int = 3) -> MemoryBroker:
    """Return a broker with topic "t"."""
    broker = MemoryBroker()
    broker.topics.create("t", partitions, {})
    return broker


@pytest.mark.parametrize("version", range(4))
def test_a_topic_grows(version: int) -> None:
    """New partitions accept records, and old ones keep theirs, also after a restart."""
    broker = wide(1)
    topics = broker.topics
    for partition in (0, 1):
        there = topics.partition("t", partition)
        if there is None:
            assert widen(broker, ("t", 2), version=version) == [("t", 0, None)]
            there = topics.partition("t", partition)
        assert there is not None
        there.append(batch(b"a"), START_MS)
    topics.close()
    again = MemoryBroker(broker.disk)
    assert [again.topics.log("t", index).log_end_offset for index in (0, 1)] == [1, 1]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (3, "Topic already has 3 partition(s)."),
        (1, "The topic t currently has 3 partition(s); 1 would not be an increase."),
        (0, "The topic t currently has 3 partition(s); 0 would not be an increase."),
        (-1, "The topic t currently has 3 partition(s); -1 would not be an increase."),
    ],
)
def test_topics_do_not_shrink(count: int, text: str) -> None:
    """CreatePartitions with an equal or smaller count gets INVALID_PARTITIONS."""
    assert widen(wide(), ("t", count)) == [("t", ErrorCode.INVALID_PARTITIONS, text)]


def test_partitions_are_validated_only() -> None:
    """CreatePartitions with validate_only has the response of an increase and changes nothing."""
    broker = wide()
    assert widen(broker, ("t", 5), validate_only=True) == [("t", 0, None)]
    assert broker.topics.partition_count("t") == 3


def test_partitions_of_unknown_and_repeated_topics() -> None:
    """CreatePartitions refuses repeated names; every other topic has its own result."""
    broker = wide()
    broker.topics.create("u", 1, {})
    assert widen(broker, ("t", 5), ("t", 6), ("u", 2), ("no", 2)) == [
        ("t", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
        ("u", 0, None),
        ("no", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
    ]


@pytest.mark.parametrize(
    ("count", "places", "text"),
    [
        (4, [[1]], None),
        (
            5,
            [[1]],
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            4,
            [],
            "Attempted to add 1 additional partition(s), but only 0 assignment(s) were specified.",
        ),
        (
            4,
            [[9]],
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (4, [[1, 1]], "The manual partition assignment includes the broker 1 more than once."),
        (4, [[]], "The manual partition assignment includes an empty replica list."),
    ],
)
def test_placed_partitions(count: int, places: list[list[int]], text: str | None) -> None:
    """CreatePartitions needs one valid assignment for each new partition.

    Other assignments get INVALID_REPLICA_ASSIGNMENT.
    """
    code = ErrorCode.NONE if text is None else ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert widen(wide(), ("t", count, places)) == [("t", code, text)]


def test_too_many_partitions() -> None:
    """CreatePartitions refuses the topics that exceed 10 000 new partitions per request."""
    made = wide()
    made.topics.create("u", 1, {})
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    assert widen(made, ("t", 6_000), ("u", 6_000)) == [("t", 0, None), ("u", code, None)]
    assert made.topics.partition_count("t") == 6_000
    assert made.topics.partition_count("u") == 1
