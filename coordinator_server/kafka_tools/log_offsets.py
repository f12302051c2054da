"""Partitions and log offsets, for the tools that reset group offsets."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from coordinator_server.client import Client, ClientError, check
from coordinator_server.kafka_tools.frame import EXECUTION, FAILURES, ToolError, raise_wrapped
from coordinator_server.kafka_tools.get_offsets import Partition, list_offsets
from coordinator_server.kafka_tools.options import UsageError

LATEST, EARLIEST = -1, -2
RUNTIME = "java.lang.RuntimeException"
_UNKNOWN_OFFSET = -1


def topic_partitions(client: Client, topics: Sequence[str]) -> dict[Partition, bool]:
    """Return each partition of these topics, with whether the partition has a leader.

    Raises ClientError if a topic has an error.
    """
    partitions: dict[Partition, bool] = {}
    answer = client.call("describeTopics", lambda: client.metadata(topics))
    for topic in answer.topics:
        check(topic.error_code)
        for partition in topic.partitions:
            has_leader = partition.leader_id in client.nodes
            partitions[topic.name, partition.partition_index] = has_leader
    return dict(sorted(partitions.items()))


def parse_partitions(texts: Sequence[str]) -> tuple[list[Partition], list[str]]:
    """Parse arguments like TOPIC:0,1; return the partitions, and topics without partitions."""
    partitions: list[Partition] = []
    topics: list[str] = []
    for text in texts:
        if ":" not in text:
            topics.append(text)
            continue
        parts = text.rstrip(":").split(":")
        if len(parts) != 2:
            raise UsageError(f"Invalid topic arg '{text}', expected topic name and partitions")
        for number in parts[1].split(","):
            if not number.isdecimal():
                raise UsageError(f"Invalid partition '{number}' specified in topic arg '{text}''")
            partitions.append((parts[0], int(number)))
    return partitions, topics


def check_partitions(client: Client, partitions: Collection[Partition]) -> None:
    """Raise ToolError for partitions that do not exist or have no leader."""
    if not partitions:
        return
    try:
        known = topic_partitions(client, sorted({topic for topic, _ in partitions}))
    except FAILURES as error:
        raise_wrapped(error, EXECUTION, RUNTIME)
    missing = [f"{topic}-{index}" for topic, index in partitions if (topic, index) not in known]
    errors = "org.apache.kafka.common.errors."
    if missing:
        message = f'The partitions "{",".join(missing)}" do not exist'
        raise ToolError(f"{errors}UnknownTopicOrPartitionException", message)
    leaderless = [f"{item[0]}-{item[1]}" for item in partitions if not known[item]]
    if leaderless:
        message = f'The partitions "{",".join(leaderless)}" have no leader'
        raise ToolError(f"{errors}LeaderNotAvailableException", message)


def log_offsets(
    client: Client, partitions: Collection[Partition], timestamp: int
) -> dict[Partition, int]:
    """Return the offset of each partition at a timestamp; the end offset if all records are older.

    Raises ToolError.
    """
    offsets = _offsets(client, partitions, timestamp)
    young = [partition for partition in partitions if offsets[partition] == _UNKNOWN_OFFSET]
    for topic, index in young:
        print(
            f"\nWarn: Partition {index} from topic {topic} is empty."
            " Falling back to latest known offset."
        )
    return offsets | _offsets(client, young, LATEST)


def end_offsets(client: Client, partitions: Collection[Partition]) -> dict[Partition, int]:
    """Return the end offset of each partition that has a leader."""
    if not partitions:
        return {}
    try:
        known = topic_partitions(client, sorted({topic for topic, _ in partitions}))
    except FAILURES as error:
        raise_wrapped(error, EXECUTION, RUNTIME)
    return _offsets(client, [item for item in partitions if known.get(item)], LATEST)


def _offsets(
    client: Client, partitions: Collection[Partition], timestamp: int
) -> dict[Partition, int]:
    if not partitions:
        return {}
    offsets: dict[Partition, int] = {}
    try:
        answers = list_offsets(client, dict.fromkeys(partitions, timestamp))
    except ClientError as error:
        raise_wrapped(error, EXECUTION, RUNTIME)
    for partition, offset in answers.items():
        if isinstance(offset, ClientError):
            raise_wrapped(offset, EXECUTION, RUNTIME)
        offsets[partition] = offset
    return offsets
