"""Requests of kafka-reassign-partitions for replicas, reassignments and log directories."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, NoReturn

from coordinator_server.client import Client, ClientError, check
from coordinator_server.kafka_tools.frame import EXECUTION, raise_wrapped
from protocol.errors import ErrorCode

Place = tuple[str, int]
"""A topic name and a partition index."""


class Replica(NamedTuple):
    """A replica of a partition on a broker; sorts in the order of Kafka's tool."""

    broker: int
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


class OngoingReassignment(NamedTuple):
    """A running reassignment; `replicas` includes the added and removed ones."""

    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]


class Directories(NamedTuple):
    """A replica's log directory and the directory that it is moved to, each None if unknown."""

    current: str | None = None
    future: str | None = None


class TerseError(Exception):
    """The tool ends with one line on standard output (Kafka's TerseException)."""


def raise_execution(error: ClientError) -> NoReturn:
    """Raise the error of a request as Java's Future.get does, wrapped in an ExecutionException."""
    raise_wrapped(error, EXECUTION)


def list_reassignments(
    client: Client, places: Iterable[Place] | None = None
) -> dict[Place, OngoingReassignment]:
    """Return the running reassignments, of all partitions by default. Raises ClientError."""
    from protocol.apis.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ReassignmentsTopic,
    )

    topics = None
    if places is not None:
        topics = [
            ReassignmentsTopic(name=name, partition_indexes=indexes)
            for name, indexes in by_topic(places).items()
        ]
    request = ListPartitionReassignmentsRequest(
        topics=topics, timeout_ms=client.settings.request_timeout_ms
    )
    answer = client.ask_controller("listPartitionReassignments", request)
    check(answer.error_code, answer.error_message)
    return {
        (topic.name, partition.partition_index): OngoingReassignment(
            partition.replicas, partition.adding_replicas, partition.removing_replicas
        )
        for topic in answer.topics
        for partition in topic.partitions
    }


def by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    """Group partition indexes by topic."""
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    return topics


def check_places(places: Iterable[Place]) -> None:
    """Raise ClientError for an invalid topic or partition, like Kafka's client."""
    for topic, partition in places:
        if not topic:
            _refuse_name(topic)
        if partition < 0:
            message = f"The given partition index {partition} is not valid."
            raise ClientError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)


def _refuse_name(topic: str) -> NoReturn:
    message = f"The given topic name '{topic}' cannot be represented in a request."
    raise ClientError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)


def describe_topics(
    client: Client, topics: Collection[str]
) -> dict[str, list[list[int]] | ClientError]:
    """Return the replicas of each topic's partitions, or the topic's error.

    Raises ClientError if no broker responds.
    """
    described: dict[str, list[list[int]] | ClientError] = {}
    names = sorted(filter(None, topics))
    answer = client.call("describeTopics", lambda: client.metadata(names)).topics if names else ()
    for topic in answer:
        partitions = sorted(
            (partition.partition_index, partition.replica_nodes) for partition in topic.partitions
        )
        described[topic.name] = (
            ClientError(topic.error_code)
            if topic.error_code
            else [replicas for _, replicas in partitions]
        )
    try:
        check_places((topic, 0) for topic in topics)
    except ClientError as error:
        described[""] = error
    return described


def alter_reassignments(
    client: Client,
    reassignments: Mapping[Place, Sequence[int] | None],
    *,
    may_change_count: bool = True,
) -> dict[Place, ClientError]:
    """Reassign partitions, or cancel if the replicas are None; return errors by partition."""
    from protocol.apis.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
        ReassignableTopic,
    )

    topics = [
        ReassignableTopic(
            name=topic,
            partitions=[
                ReassignablePartition(
                    partition_index=index,
                    replicas=None
                    if (reassignment := reassignments[topic, index]) is None
                    else [*reassignment],
                )
                for index in sorted(indexes)
            ],
        )
        for topic, indexes in sorted(by_topic(reassignments).items())
    ]
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=client.settings.request_timeout_ms,
        allow_replication_factor_change=may_change_count,
        topics=topics,
    )
    least_version = 0 if may_change_count else 1
    try:
        answer = client.ask_controller(
            "alterPartitionReassignments", request, min_version=least_version
        )
        check(answer.error_code, answer.error_message)
    except ClientError as error:
        return dict.fromkeys(reassignments, error)
    return {
        (topic.name, partition.partition_index): ClientError(
            partition.error_code, partition.error_message
        )
        for topic in answer.responses
        for partition in topic.partitions
        if partition.error_code
    }


# --- log directories ------------------------------------------------------------------------------


def describe_replicas(client: Client, replicas: Iterable[Replica]) -> dict[Replica, Directories]:
    """Return the log directories of replicas. Raises ClientError."""
    from protocol.apis.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest

    directories: dict[Replica, Directories] = {}
    for broker, own in _by_broker(replicas).items():
        directories.update(dict.fromkeys(own, Directories()))
        topics = by_topic((replica.topic, replica.partition) for replica in own)
        request = DescribeLogDirsRequest(
            topics=[
                DescribableLogDirTopic(topic=topic, partitions=indexes)
                for topic, indexes in topics.items()
            ]
        )
        answer = client.ask_node("describeReplicaLogDirs", request, broker)
        for directory in answer.results:
            for topic in directory.topics if not directory.error_code else ():
                for partition in topic.partitions:
                    replica = Replica(broker, topic.name, partition.partition_index)
                    known = directories.get(replica, Directories())
                    directories[replica] = (
                        known._replace(future=directory.log_dir)
                        if partition.is_future_key
                        else known._replace(current=directory.log_dir)
                    )
    return directories


def move_replicas(
    client: Client, directories: Mapping[Replica, str]
) -> dict[Replica, ClientError | None]:
    """Start moving replicas to log directories; return each replica's error or None."""
    from protocol.apis.alter_replica_log_dirs import (
        AlterReplicaLogDir,
        AlterReplicaLogDirsRequest,
        AlterReplicaLogDirTopic,
    )

    results: dict[Replica, ClientError | None] = {}
    for broker, own in _by_broker(directories).items():
        by_path: dict[str, list[Place]] = {}
        for moved in own:
            by_path.setdefault(directories[moved], []).append((moved.topic, moved.partition))
        request = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=path,
                    topics=[
                        AlterReplicaLogDirTopic(name=topic, partitions=indexes)
                        for topic, indexes in by_topic(places).items()
                    ],
                )
                for path, places in by_path.items()
            ]
        )
        try:
            answer = client.ask_node("alterReplicaLogDirs", request, broker)
        except ClientError as error:
            results.update(dict.fromkeys(own, error))
            continue
        for topic in answer.results:
            for partition in topic.partitions:
                replica = Replica(broker, topic.topic_name, partition.partition_index)
                code = partition.error_code
                results[replica] = ClientError(code) if code else None
    return results


def _by_broker(replicas: Iterable[Replica]) -> dict[int, list[Replica]]:
    brokers: dict[int, list[Replica]] = {}
    for replica in replicas:
        brokers.setdefault(replica.broker, []).append(replica)
    return brokers


# --- texts ----------------------------------------------------------------------------------------


def plural(items: Collection[object]) -> str:
    """Return the plural ending for this number of items."""
    return "" if len(items) == 1 else "s"


def named(places: Iterable[Place]) -> str:
    """Return the sorted names of partitions, separated by commas."""
    return ",".join(f"{topic}-{index}" for topic, index in sorted(places))


def error_lines(errors: Mapping[Place, ClientError]) -> str:
    """Return one line for each partition and its error, sorted by partition."""
    return "\n".join(f"{topic}-{index}: {errors[topic, index]}" for topic, index in sorted(errors))
