"""CreatePartitions: add partitions to topics (Kafka's ReplicationControlManager)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.topics.assignments import replicas_error
from coordinator_server.topics.counts import Counts
from coordinator_server.topics.manager import MAX_RECORDS_PER_REQUEST
from protocol.apis.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from coordinator_server.topics.topic import Leaderships, Topic

    Error = tuple[ErrorCode, str | None]


_THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class _AddedPartitions(NamedTuple):
    """The planned new partitions of a topic that had `before` partitions at validation."""

    topic: Topic
    before: int
    leadership: Leaderships
    result: CreatePartitionsTopicResult


def handle(broker: Broker, call: Call, request: CreatePartitionsRequest) -> Steps:
    """Respond with one result per distinct name, duplicate names first."""
    counts: Counts[str] = Counts()
    twice: Counts[str] = Counts()
    results: list[CreatePartitionsTopicResult] = []
    for asked in request.topics:
        if counts.add(asked.name) > 1 and twice.add(asked.name) == 1:
            result = CreatePartitionsTopicResult(
                name=asked.name,
                error_code=ErrorCode.INVALID_REQUEST,
                error_message="Duplicate topic name.",
            )
            results.append(result)
        yield
    planned: list[_AddedPartitions] = []
    records = 0
    for asked in request.topics:
        yield
        if counts[asked.name] > 1:
            continue
        result = CreatePartitionsTopicResult(name=asked.name, error_message=None)
        results.append(result)
        assignments = asked.assignments
        chosen = (
            None if assignments is None else [assignment.broker_ids for assignment in assignments]
        )
        message = None
        if chosen is not None:
            message = yield from replicas_error(chosen, broker.topics.broker_ids)
        topic = broker.topics.topic(asked.name)
        error = _error(topic, asked.count, chosen, message)
        if error is not None:
            result.error_code, result.error_message = error
            continue
        assert topic is not None
        before = len(topic.partitions)
        if not call.may_change_partitions(asked.count - before):
            result.error_code = _THROTTLED
            result.error_message = _THROTTLED.message
            continue
        records += asked.count - before
        if records > MAX_RECORDS_PER_REQUEST:
            # As in Kafka, this error has no message.
            result.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
            continue
        places = None if chosen is None else dict(enumerate(chosen, before))
        leadership = broker.topics.placed(topic, asked.count, places)
        planned.append(_AddedPartitions(topic, before, leadership, result))
    if planned and not request.validate_only:
        yield from _add(broker, planned)
    call.reply(CreatePartitionsResponse(results=call.rights.before(results)))
    yield from counts.clear()
    yield from twice.clear()


def _error(
    topic: Topic | None, count: int, chosen: list[list[int]] | None, message: str | None
) -> Error | None:
    """Return the error if a topic cannot have `count` partitions, or None.

    `message` is the validation error of the replicas, if any.
    """
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    before = len(topic.partitions)
    if count == before:
        return ErrorCode.INVALID_PARTITIONS, f"Topic already has {before} partition(s)."
    if count < before:
        return (
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {before} partition(s); "
            f"{count} would not be an increase.",
        )
    if chosen is not None and len(chosen) != count - before:
        message = (
            f"Attempted to add {count - before} additional partition(s), but only "
            f"{len(chosen)} assignment(s) were specified."
        )
    return None if message is None else (ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _add(broker: Broker, planned: list[_AddedPartitions]) -> Steps:
    """Add the planned partitions, except partitions that another request has added meanwhile."""
    added: dict[Topic, Leaderships] = {}
    for topic, before, leadership, result in planned:
        missing = leadership[len(topic.partitions) - before :]
        exists = broker.topics.topic(topic.name) is topic
        error = _error(topic if exists else None, before + len(leadership), None, None)
        if error is None:
            added[topic] = missing
        else:
            result.error_code, result.error_message = error
    try:
        yield from broker.topics.add_partitions(added)
    except StorageError as failure:
        for topic, _, _, result in planned:
            if topic in added:
                result.error_code, result.error_message = failure.code, failure.message
