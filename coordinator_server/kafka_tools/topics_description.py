"""The output lines of `kafka-topics.sh --describe`, for topics and their partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from coordinator_server.client import Client, ClientError, check
from coordinator_server.kafka_tools.config_requests import DEFAULT_CONFIG, TOPIC, read_configs
from coordinator_server.kafka_tools.java import names_in_hash_order, uuid_text
from coordinator_server.kafka_tools.options import Options
from coordinator_server.kafka_tools.reassignments import OngoingReassignment, list_reassignments
from protocol.errors import ErrorCode
from protocol.schema import ZERO_UUID

_NO_REASSIGNMENTS = (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
PARTITION_LIMIT = 2_000
"""The maximum number of partitions in one response; Kafka's default."""


class DescribedPartition(NamedTuple):
    """A described partition.

    Eligible leader replicas are None if the broker does not report them.
    """

    number: int
    leader: int | None
    replicas: Sequence[int]
    isr: Sequence[int]
    elr: Sequence[int] | None
    last_known_elr: Sequence[int] | None
    move: OngoingReassignment | None = None
    """The running reassignment, if any."""

    @property
    def replication_factor(self) -> int:
        """The number of replicas without those that a running reassignment adds."""
        return len(self.replicas) - (len(self.move.adding) if self.move else 0)


class DescribedTopic(NamedTuple):
    """A topic with its partitions in order."""

    name: str
    topic_id: bytes
    partitions: list[DescribedPartition]


def describe(client: Client, options: Options, wanted: Sequence[str] | Sequence[bytes]) -> None:
    """Print topics, selected by name or id, filtered by the options. Raises ClientError."""
    limit = options.integer("partition-size-limit-per-response") or PARTITION_LIMIT
    topics = _with_moves(sorted(_read(client, wanted, limit)), client)
    configs = read_configs(client, TOPIC, [topic.name for topic in topics])
    reports: dict[str, Callable[[DescribedPartition, int], bool]] = {
        "under-replicated-partitions": _is_under_replicated,
        "unavailable-partitions": lambda partition, _: partition.leader not in client.nodes,
        "under-min-isr-partitions": _is_under_min_isr,
        "at-min-isr-partitions": lambda partition, least: len(partition.isr) == least,
    }
    asked = [is_reported for name, is_reported in reports.items() if options.has(name)]
    only_overridden = options.has("topics-with-overrides")
    for topic in topics:
        known = {config.name: config for config in configs[topic.name]}
        own = [
            f"{name}={known[name].value}"
            for name in names_in_hash_order(known)
            if known[name].config_source != DEFAULT_CONFIG
        ]
        if not asked and (own or not only_overridden):
            print(_topic_line(topic, own))
        if only_overridden:
            continue
        values = {config.name: config.value for config in configs[topic.name]}
        least = int(values.get("min.insync.replicas") or 1)
        for partition in topic.partitions:
            if not asked or any(is_reported(partition, least) for is_reported in asked):
                print(_partition_line(topic.name, partition))


def _is_under_replicated(partition: DescribedPartition, _: int) -> bool:
    return len(partition.isr) < partition.replication_factor


def _is_under_min_isr(partition: DescribedPartition, least: int) -> bool:
    return partition.leader is None or len(partition.isr) < least


def _topic_line(topic: DescribedTopic, own: list[str]) -> str:
    parts = [f"Topic: {topic.name}"]
    if topic.topic_id != ZERO_UUID:
        parts.append(f"TopicId: {uuid_text(topic.topic_id)}")
    parts.append(f"PartitionCount: {len(topic.partitions)}")
    parts.append(f"ReplicationFactor: {topic.partitions[0].replication_factor}")
    return "\t".join([*parts, f"Configs: {','.join(own)}"])


def _partition_line(name: str, partition: DescribedPartition) -> str:
    leader = "none" if partition.leader is None else partition.leader
    move = ""
    if partition.move is not None:
        adding, removing = _ids(partition.move.adding), _ids(partition.move.removing)
        move = f"\tAdding Replicas: {adding}\tRemoving Replicas: {removing}"
    return (
        f"\tTopic: {name}\tPartition: {partition.number}\tLeader: {leader}"
        f"\tReplicas: {_ids(partition.replicas)}\tIsr: {_ids(partition.isr)}{move}"
        f"\tElr: {_ids(partition.elr)}\tLastKnownElr: {_ids(partition.last_known_elr)}"
    )


def _ids(ids: Sequence[int] | None) -> str:
    return "N/A" if ids is None else ",".join(map(str, ids))


def _read(
    client: Client, wanted: Sequence[str] | Sequence[bytes], limit: int
) -> Iterable[DescribedTopic]:
    """Describe topics with DescribeTopicPartitions, or with Metadata if not supported."""
    names = [name for name in wanted if isinstance(name, str)]
    if names:
        try:
            return _pages(client, names, limit)
        except ClientError as error:
            if error.code is not ErrorCode.UNSUPPORTED_VERSION:
                raise
    answer = client.call("describeTopics", lambda: client.metadata(wanted))
    return [_topic(client, topic) for topic in answer.topics]


def _pages(client: Client, names: Sequence[str], limit: int) -> list[DescribedTopic]:
    from protocol.apis.describe_topic_partitions import (
        DescribeTopicPartitionsRequest,
        TopicRequest,
    )

    topics: dict[str, DescribedTopic] = {}
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in sorted(names)], response_partition_limit=limit
    )
    while True:
        answer = client.call("describeTopics", lambda: client.ask(request))
        for item in answer.topics:
            topic = _topic(client, item)
            topics.setdefault(topic.name, topic._replace(partitions=[])).partitions.extend(
                topic.partitions
            )
        cursor = answer.next_cursor
        if cursor is None:
            return list(topics.values())
        request.cursor = cursor
        request.topics = [topic for topic in request.topics if topic.name >= cursor.topic_name]


def _with_moves(topics: list[DescribedTopic], client: Client) -> list[DescribedTopic]:
    """Add the running reassignments to topics, as far as the broker reports them."""
    places = [(topic.name, partition.number) for topic in topics for partition in topic.partitions]
    try:
        moves = list_reassignments(client, places)
    except ClientError as error:
        if error.code in _NO_REASSIGNMENTS:
            return topics
        raise
    return [
        topic._replace(
            partitions=[
                partition._replace(move=moves.get((topic.name, partition.number)))
                for partition in topic.partitions
            ]
        )
        for topic in topics
    ]


def _topic(client: Client, topic: Any) -> DescribedTopic:
    """Convert a topic of either response. Raises ClientError if the topic has an error."""
    check(topic.error_code)
    partitions = [
        DescribedPartition(
            partition.partition_index,
            partition.leader_id if partition.leader_id in client.nodes else None,
            partition.replica_nodes,
            partition.isr_nodes,
            getattr(partition, "eligible_leader_replicas", None),
            getattr(partition, "last_known_elr", None),
        )
        for partition in topic.partitions
    ]
    return DescribedTopic(topic.name, topic.topic_id, sorted(partitions))
