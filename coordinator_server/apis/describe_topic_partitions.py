"""DescribeTopicPartitions: topics in the order of their names, page by page (KIP-966).

Compared with Kafka (its DescribeTopicPartitionsRequestHandler) request by request, see
`tests/oracle/test_describe_topic_partitions.py`: without names it answers with all topics that are
there; authorized operations are told without being asked for; an unknown topic takes no room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis.metadata import described_partition
from coordinator_server.topics.names import is_internal, name_error
from coordinator_server.topics.operations import TOPIC_OPERATIONS
from protocol.apis.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.topics.manager import Partition, Topic


def handle(broker: Broker, call: Call, request: DescribeTopicPartitionsRequest) -> None:
    """Answer with one page; INVALID_REQUEST for a cursor that cannot be."""
    cursor = request.cursor
    first = _order(cursor.topic_name) if cursor is not None else b""
    names = {topic.name for topic in request.topics}
    if not request.topics:
        names = {topic.name for topic in broker.topics.all_topics()}
    elif cursor is not None and cursor.topic_name not in names:
        call.reply(_refusal(request, ErrorCode.INVALID_REQUEST))
        return
    if cursor is not None and cursor.partition_index < 0:
        call.reply(_refusal(request, ErrorCode.INVALID_REQUEST))
        return
    if "" in names and cursor is None:  # Kafka looks for a cursor there, and stumbles
        call.reply(_refusal(request, ErrorCode.UNKNOWN_SERVER_ERROR))
        return
    page = DescribeTopicPartitionsResponse()
    limit = broker.config.integer("max.request.partition.size.limit")
    room = max(min(limit, request.response_partition_limit), 1)
    for name in sorted((name for name in names if _order(name) >= first), key=_order):
        if not room:
            page.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = broker.topics.topic(name)
        if topic is None:
            page.topics.append(_missing(name))
            continue
        start = 0
        if cursor is not None and name == cursor.topic_name:
            start = cursor.partition_index
        told = topic.partitions[start : start + room]
        page.topics.append(_described(broker, topic, told))
        if start + len(told) < len(topic.partitions):
            page.next_cursor = Cursor(topic_name=name, partition_index=start + len(told))
            break
        room -= len(told)
    call.reply(page)


def _order(name: str) -> bytes:
    """What Kafka sorts names by: their UTF-16 units, as Java's strings compare."""
    return name.encode("utf-16-be", "surrogatepass")


def _described(
    broker: Broker, topic: Topic, partitions: list[Partition]
) -> DescribeTopicPartitionsResponseTopic:
    running = broker.topics.leadership.running
    told = []
    for partition in partitions:
        known = described_partition(partition, running)
        told.append(
            DescribeTopicPartitionsResponsePartition(
                partition_index=known.partition_index,
                leader_id=known.leader_id,
                leader_epoch=known.leader_epoch,
                replica_nodes=known.replica_nodes,
                isr_nodes=known.isr_nodes,
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=known.offline_replicas,
            )
        )
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=told,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if name_error(name) is not None:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _refusal(
    request: DescribeTopicPartitionsRequest, error: ErrorCode
) -> DescribeTopicPartitionsResponse:
    """There is no error for the whole answer: it stands at each topic that was asked for."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=error, name=topic.name)
            for topic in request.topics
        ]
    )
