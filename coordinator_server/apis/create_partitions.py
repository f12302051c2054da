"""CreatePartitions: give topics more partitions (Kafka's ReplicationControlManager)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from coordinator_server.apis.create_topics import (
    MAX_PARTITIONS_PER_REQUEST,
    TOO_MANY_PARTITIONS,
)
from coordinator_server.topics.assignments import more_partitions_error
from protocol.apis.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call


def handle(broker: Broker, call: Call, request: CreatePartitionsRequest) -> None:
    """Answer with one result per distinct name, those that stand twice first."""
    counts = Counter(topic.name for topic in request.topics)
    results = [
        CreatePartitionsTopicResult(
            name=name,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="Duplicate topic name.",
        )
        for name, count in counts.items()
        if count > 1
    ]
    for asked in request.topics:
        if counts[asked.name] == 1:
            code, message = _widen(broker, asked, request.validate_only)
            results.append(
                CreatePartitionsTopicResult(name=asked.name, error_code=code, error_message=message)
            )
    call.reply(CreatePartitionsResponse(results=results))


def _widen(
    broker: Broker, asked: CreatePartitionsTopic, validate_only: bool
) -> tuple[ErrorCode, str | None]:
    """Check one topic and add the partitions; the error and its text."""
    topic = broker.topics.topic(asked.name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    there = len(topic.partitions)
    if asked.count == there:
        return ErrorCode.INVALID_PARTITIONS, f"Topic already has {there} partition(s)."
    if asked.count < there:
        return (
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {asked.name} currently has {there} partition(s); "
            f"{asked.count} would not be an increase.",
        )
    if asked.count - there > MAX_PARTITIONS_PER_REQUEST:
        return ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS
    places = None
    if asked.assignments is not None:
        chosen = [assignment.broker_ids for assignment in asked.assignments]
        message = more_partitions_error(chosen, asked.count - there, broker.topics.broker_ids)
        if message is not None:
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, message
        places = dict(enumerate(chosen, there))
    if not validate_only:
        try:
            broker.topics.add_partitions(topic, asked.count, places)
        except StorageError as error:
            return error.code, error.message
    return ErrorCode.NONE, None
