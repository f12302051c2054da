"""DescribeProducers: the state of producers per partition. The responses are a running Kafka's."""

from __future__ import annotations

from typing import Any

from protocol.apis.describe_producers import (
    DescribedProducersPartition,
    DescribeProducersRequest,
    DescribeProducersTopicRequest,
)
from protocol.control_record import EndTransaction
from protocol.errors import ErrorCode
from tests.harness.broker import MemoryBroker
from tests.harness.clock import START_MS
from tests.harness.records import batch


def asked(broker: MemoryBroker, name: str, *indexes: int) -> list[DescribedProducersPartition]:
    """Return the responses for some partitions of a topic."""
    topic = DescribeProducersTopicRequest(name=name, partition_indexes=list(indexes))
    request = DescribeProducersRequest(topics=[topic])
    response: Any = broker.ask(request, 0)
    found: list[DescribedProducersPartition] = response.topics[0].partitions
    return found


def send(broker: MemoryBroker, producer_id: int, *, transactional: bool) -> None:
    """Append two records of a producer with epoch 3."""
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    data = batch(
        b"a",
        b"b",
        producer_id=producer_id,
        producer_epoch=3,
        base_sequence=0,
        transactional=transactional,
    )
    partition.append(data, START_MS)


def test_the_producers_of_a_partition() -> None:
    """Idempotent and transactional producers are listed; a marker sets the coordinator epoch."""
    broker = MemoryBroker()
    broker.topics.create("t", 2, {})
    send(broker, 7, transactional=False)
    send(broker, 8, transactional=True)
    send(broker, 9, transactional=True)
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    partition.end_transaction(EndTransaction(9, 4, True, 5, 2), START_MS + 1)
    described, empty = asked(broker, "t", 0, 1)
    assert [
        (
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            one.last_timestamp - START_MS,
            one.coordinator_epoch,
            one.current_txn_start_offset,
        )
        for one in described.active_producers
    ] == [(7, 3, 1, 0, -1, -1), (8, 3, 1, 0, -1, 2), (9, 4, -1, 1, 5, -1)]
    assert empty.error_code == ErrorCode.NONE
    assert empty.active_producers == []


def test_what_cannot_be_described() -> None:
    """Unknown topics and bad names have an error message, unknown partitions only a code."""
    broker = MemoryBroker()
    broker.topics.create("t", 1, {})
    (unknown,) = asked(broker, "u", 0)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert unknown.error_message == "This server does not host this topic-partition."
    (bad,) = asked(broker, "", 0)
    assert bad.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert bad.error_message == "Topic name is invalid: the empty string is not allowed"
    for one in asked(broker, "t", 1, -1):
        assert one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert one.error_message is None
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    partition.begin_leadership(2)
    (elsewhere,) = asked(broker, "t", 0)
    assert elsewhere.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
