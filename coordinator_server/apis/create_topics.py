"""CreateTopics: validate and create topics.

The order of checks and the error messages are those of Kafka's ReplicationControlManager. Topics
named twice in a request are refused, and their results come last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.topics.assignments import new_topic_error
from coordinator_server.topics.counts import Counts
from coordinator_server.topics.manager import MAX_RECORDS_PER_REQUEST, TOO_MANY_RECORDS
from coordinator_server.topics.topic_configs import condensed, configs_error, describe
from protocol.apis.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Generator

    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.security.rights import Rights
    from coordinator_server.steps import Steps
    from coordinator_server.topics.manager import CreationError
    from coordinator_server.topics.topic import Topic

_MAX_PARTITIONS_PER_REQUEST = 10_000
"""Kafka's MAX_PARTITIONS_PER_BATCH."""

_THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
_TOO_MANY_PARTITIONS = "Excessively large number of partitions per request."


class _Refused(Exception):  # noqa: N818
    """Validation of a topic has failed; `error` is the response."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = (code, message)


def handle(broker: Broker, call: Call, request: CreateTopicsRequest) -> Steps:
    """Respond with one result per distinct name; an oversized request is refused as a whole."""
    counts: Counts[str] = Counts()
    planned: dict[str, Topic] = {}
    errors: dict[str, CreationError] = {}
    message = yield from create(broker, call, request, counts, planned, errors)
    if message is not None:
        refusals = []
        for asked in request.topics:
            refusals.append(_refusal(asked.name, (ErrorCode.POLICY_VIOLATION, message)))
            yield
        call.reply(CreateTopicsResponse(topics=call.rights.after(refusals)))
        return
    results = []
    twice: dict[str, CreatableTopicResult] = {}
    for asked in request.topics:
        name = asked.name
        if counts[name] > 1:
            if name not in twice:
                refused = ErrorCode.INVALID_REQUEST, "Duplicate topic name."
                twice[name] = _refusal(name, refused)
        elif name in errors:
            results.append(_refusal(name, errors[name]))
        else:
            results.append(_result(broker, call.rights, planned[name]))
        yield
    for refusal in twice.values():
        results.append(refusal)
        yield
    call.reply(CreateTopicsResponse(topics=call.rights.after(results)))
    yield from counts.clear()


def create(
    broker: Broker,
    call: Call,
    request: CreateTopicsRequest,
    counts: Counts[str],
    planned: dict[str, Topic],
    errors: dict[str, CreationError],
) -> Generator[None, None, str | None]:
    """Create the valid topics: the `planned` topics without an entry in `errors`.

    Returns the message if the whole request is refused, otherwise None.
    """
    partitions = 0
    for asked in request.topics:
        counts.add(asked.name)
        if asked.num_partitions == -1 and not asked.assignments:
            partitions += broker.config.integer("num.partitions")
        else:
            # Count only positive numbers: a negative number is refused later and must not reduce
            # the sum of the other topics.
            partitions += len(asked.assignments) or max(asked.num_partitions, 0)
        yield
    if partitions > _MAX_PARTITIONS_PER_REQUEST:
        return _TOO_MANY_PARTITIONS
    message = yield from _plan_all(broker, call, request, counts, planned, errors)
    if message is None and planned and not request.validate_only:
        try:
            errors |= yield from broker.topics.add(planned.values())
        except StorageError as error:
            errors |= dict.fromkeys(planned, (error.code, error.message))
    return message


def _plan_all(
    broker: Broker,
    call: Call,
    request: CreateTopicsRequest,
    counts: Counts[str],
    planned: dict[str, Topic],
    errors: dict[str, CreationError],
) -> Generator[None, None, str | None]:
    """Validate each topic; return the message if the whole request is refused, else None."""
    records = 0
    for asked in request.topics:
        yield
        if counts[asked.name] > 1:
            continue
        try:
            topic = yield from _plan(broker, asked)
            if not call.may_change_partitions(len(topic.partitions)):
                raise _Refused(_THROTTLED, _THROTTLED.message)
        except _Refused as refused:
            errors[asked.name] = refused.error
        except StorageError as error:
            errors[asked.name] = error.code, error.message
        else:
            planned[asked.name] = topic
            records += 1 + len(topic.partitions) + len(topic.configs)
            if records > MAX_RECORDS_PER_REQUEST:
                return TOO_MANY_RECORDS
    return None


def _plan(broker: Broker, asked: CreatableTopic) -> Generator[None, None, Topic]:
    """Validate one topic. Raises _Refused or TopicConfigError."""
    error = broker.topics.creation_error(asked.name)
    if error is not None:
        raise _Refused(*error)
    given = yield from condensed((config.name, config.value) for config in asked.configs)
    message = configs_error(broker.config, given)
    if message is not None:
        raise _Refused(ErrorCode.INVALID_CONFIG, message)
    configs = {name: value.strip() for name, value in given if value is not None}
    if asked.assignments:
        places = yield from _assigned(broker, asked)
        return broker.topics.new_topic(asked.name, len(places), configs, len(places[0]), places)
    partition_count, replication_factor = _counted(broker, asked)
    return broker.topics.new_topic(asked.name, partition_count, configs, replication_factor)


def _assigned(broker: Broker, asked: CreatableTopic) -> Generator[None, None, dict[int, list[int]]]:
    """Return partition -> brokers of a topic with manual replica assignment. Raises _Refused."""
    manual = "A manual partition assignment was specified, but"
    if asked.replication_factor != -1:
        raise _Refused(ErrorCode.INVALID_REQUEST, f"{manual} replication factor was not set to -1.")
    if asked.num_partitions != -1:
        raise _Refused(ErrorCode.INVALID_REQUEST, f"{manual} numPartitions was not set to -1.")
    places = [(entry.partition_index, entry.broker_ids) for entry in asked.assignments]
    message = yield from new_topic_error(places, broker.topics.broker_ids)
    if message is not None:
        raise _Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return dict(places)


def _counted(broker: Broker, asked: CreatableTopic) -> tuple[int, int]:
    """Return partition count and replication factor; -1 means the default. Raises _Refused."""
    replication_factor = asked.replication_factor
    if replication_factor == 0 or replication_factor < -1:
        raise _Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if asked.num_partitions == 0 or asked.num_partitions < -1:
        raise _Refused(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    brokers = len(broker.topics.broker_ids)
    if replication_factor == -1:
        # The default may exceed the number of brokers, because it was set for a larger cluster.
        replication_factor = min(broker.config.integer("default.replication.factor"), brokers)
    if replication_factor > brokers:
        raise _Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target "
            f"replication factor of {replication_factor} cannot be reached because only "
            f"{brokers} broker(s) are registered or some brokers have all their log directories "
            "cordoned.",
        )
    partition_count = asked.num_partitions
    if partition_count == -1:
        partition_count = broker.config.integer("num.partitions")
    return partition_count, replication_factor


def _result(broker: Broker, rights: Rights, topic: Topic) -> CreatableTopicResult:
    if not rights.allows(topic.name):
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic.topic_id,
            error_message=None,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            configs=[],
        )
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=[
            CreatableTopicConfigs(
                name=config.name,
                value=config.value,
                read_only=config.read_only,
                config_source=config.source,
            )
            for config in describe(broker.config, topic.configs)
        ],
    )


def _refusal(name: str, error: CreationError) -> CreatableTopicResult:
    code, message = error
    return CreatableTopicResult(name=name, error_code=code, error_message=message)
