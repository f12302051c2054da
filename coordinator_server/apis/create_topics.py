"""CreateTopics: check what is asked, create the topics, tell what they became.

The order of the checks and their texts are those of Kafka's ReplicationControlManager. Topics
that stand twice in a request are refused, and answered behind the others.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.topics.assignments import new_topic_error
from coordinator_server.topics.manager import new_topic_id
from coordinator_server.topics.topic_configs import configs_error, describe
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
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call

MAX_PARTITIONS_PER_REQUEST = 10_000
"""Kafka's limit of what one request may create, by CreateTopics or CreatePartitions."""

TOO_MANY_PARTITIONS = "Excessively large number of partitions per request."


class _Refused(Exception):  # noqa: N818  # it ends the checks of one topic, it is no failure
    """A topic that cannot be created, with what the client is told."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class _Plan(NamedTuple):
    """A topic that may be created."""

    partition_count: int
    replication_factor: int
    configs: dict[str, str]
    places: dict[int, list[int]] | None


def handle(broker: Broker, call: Call, request: CreateTopicsRequest) -> None:
    """Answer with one result per distinct name."""
    counts = Counter(topic.name for topic in request.topics)
    results = []
    created = 0
    for topic in request.topics:
        if counts[topic.name] > 1:
            continue
        try:
            plan = _plan(broker, topic)
            created += plan.partition_count
            if created > MAX_PARTITIONS_PER_REQUEST:
                raise _Refused(ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS)
            topic_id = new_topic_id()
            if not request.validate_only:
                topic_id = broker.topics.create(
                    topic.name,
                    plan.partition_count,
                    plan.configs,
                    plan.replication_factor,
                    plan.places,
                ).topic_id
        except (_Refused, StorageError) as error:
            results.append(_refusal(topic.name, error.code, error.message))
        else:
            results.append(_result(broker, topic.name, topic_id, plan))
    results += [
        _refusal(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        for name, count in counts.items()
        if count > 1
    ]
    call.reply(CreateTopicsResponse(topics=results))


def _plan(broker: Broker, topic: CreatableTopic) -> _Plan:
    """Check one topic; raises _Refused or TopicConfigError."""
    error = broker.topics.creation_error(topic.name)
    if error is not None:
        raise _Refused(*error)
    given = [(config.name, config.value) for config in topic.configs]
    message = configs_error(broker.config, given)
    if message is not None:
        raise _Refused(ErrorCode.INVALID_CONFIG, message)
    configs = {name: value.strip() for name, value in given if value is not None}
    if topic.assignments:
        places = _assigned(broker, topic)
        return _Plan(len(places), len(places[0]), configs, places)
    partition_count, replication_factor = _counted(broker, topic)
    return _Plan(partition_count, replication_factor, configs, None)


def _assigned(broker: Broker, topic: CreatableTopic) -> dict[int, list[int]]:
    """Partition -> brokers of a topic whose replicas were placed by hand."""
    manual = "A manual partition assignment was specified, but"
    if topic.replication_factor != -1:
        raise _Refused(ErrorCode.INVALID_REQUEST, f"{manual} replication factor was not set to -1.")
    if topic.num_partitions != -1:
        raise _Refused(ErrorCode.INVALID_REQUEST, f"{manual} numPartitions was not set to -1.")
    places = [(entry.partition_index, entry.broker_ids) for entry in topic.assignments]
    message = new_topic_error(places, broker.topics.broker_ids)
    if message is not None:
        raise _Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return dict(places)


def _counted(broker: Broker, topic: CreatableTopic) -> tuple[int, int]:
    """Partitions and replicas of a topic that names only their numbers, -1 for the default."""
    replication_factor = topic.replication_factor
    if replication_factor == 0 or replication_factor < -1:
        raise _Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions == 0 or topic.num_partitions < -1:
        raise _Refused(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    brokers = len(broker.topics.broker_ids)
    if replication_factor == -1:
        # A default made for a bigger cluster must not keep topics from being created here.
        replication_factor = min(broker.config.integer("default.replication.factor"), brokers)
    if replication_factor > brokers:
        raise _Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target "
            f"replication factor of {replication_factor} cannot be reached because only "
            f"{brokers} broker(s) are registered or some brokers have all their log directories "
            "cordoned.",
        )
    partition_count = topic.num_partitions
    if partition_count == -1:
        partition_count = broker.config.integer("num.partitions")
    return partition_count, replication_factor


def _result(broker: Broker, name: str, topic_id: bytes, plan: _Plan) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=plan.partition_count,
        replication_factor=plan.replication_factor,
        configs=[
            CreatableTopicConfigs(
                name=config.name,
                value=config.value,
                read_only=config.read_only,
                config_source=config.source,
            )
            for config in describe(broker.config, plan.configs)
        ],
    )


def _refusal(name: str, code: ErrorCode, message: str) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=message)
