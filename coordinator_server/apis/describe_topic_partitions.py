"""DescribeTopicPartitions: topics in name order, in pages (KIP-966).

Without names, all existing topics are described. Authorized operations are always included. An
unknown topic does not count towards the limit. `tests/oracle/test_describe_topic_partitions.py`
compares the pages with Kafka's. Source: DescribeTopicPartitionsRequestHandler.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from coordinator_server.apis.metadata import described_partition, without_listener
from coordinator_server.topics.names import is_internal, name_error
from protocol.apis.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.security.rights import Rights
    from coordinator_server.steps import Steps
    from coordinator_server.topics.topic import Partition, Topic


def handle(broker: Broker, call: Call, request: DescribeTopicPartitionsRequest) -> Steps:
    """Respond with one page, or INVALID_REQUEST for an invalid cursor."""
    cursor = request.cursor
    first = _order(cursor.topic_name) if cursor is not None else b""
    # Both lists are heaps, because sorting a long list would block the event loop.
    names: list[tuple[bytes, str]] = []
    rights = call.rights
    lacking = without_listener(broker, broker.endpoints(call.connection))
    refused: list[tuple[bytes, str]] = []
    has_cursor_name, has_empty_name = not request.topics, False
    for entry in request.topics or broker.topics.listed_topics():
        name = entry.name
        has_empty_name = has_empty_name or not name
        has_cursor_name = has_cursor_name or (cursor is not None and name == cursor.topic_name)
        if (order := _order(name)) >= first:
            if rights.allows(name):
                heappush(names, (order, name))
            elif request.topics:
                heappush(refused, (order, name))
        yield
    error = ErrorCode.NONE
    if cursor is not None and (not has_cursor_name or cursor.partition_index < 0):
        error = ErrorCode.INVALID_REQUEST
    elif cursor is None and has_empty_name:  # Kafka throws for an empty name without a cursor
        error = ErrorCode.UNKNOWN_SERVER_ERROR
    if error is not ErrorCode.NONE:
        call.reply((yield from _refusal(request, error)))
        return
    page = DescribeTopicPartitionsResponse()
    limit = broker.config.integer("max.request.partition.size.limit")
    left = max(min(limit, request.response_partition_limit), 1)
    previous = None
    while names:
        yield
        name = heappop(names)[1]
        if name == previous:
            continue
        previous = name
        if not left:
            page.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = broker.topics.topic(name)
        if topic is None:
            page.topics.append(_missing(name, rights))
            continue
        start = 0
        if cursor is not None and name == cursor.topic_name:
            start = cursor.partition_index
        listed = topic.partitions[start : start + left]
        page.topics.append((yield from _described(broker, rights, topic, listed, lacking)))
        if start + len(listed) < len(topic.partitions):
            page.next_cursor = Cursor(topic_name=name, partition_index=start + len(listed))
            break
        left -= len(listed)
    yield from _add_refused(page, refused)
    call.reply(page)
    while names:
        names.pop()
        yield


def _add_refused(page: DescribeTopicPartitionsResponse, refused: list[tuple[bytes, str]]) -> Steps:
    """Append the topics that the client may not describe, from a heap, each once."""
    previous = None
    while refused:
        name = heappop(refused)[1]
        if name != previous:
            page.topics.append(
                DescribeTopicPartitionsResponseTopic(
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name
                )
            )
        previous = name
        yield


def _order(name: str) -> bytes:
    """Return the sort key of a name: UTF-16 code units, as Java compares strings."""
    return name.encode("utf-16-be", "surrogatepass")


def _described(
    broker: Broker,
    rights: Rights,
    topic: Topic,
    partitions: list[Partition],
    lacking: Mapping[int, ErrorCode],
) -> Generator[None, None, DescribeTopicPartitionsResponseTopic]:
    running = broker.topics.leadership.running
    listed = []
    for partition in partitions:
        known = described_partition(partition, running, lacking)
        listed.append(
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
        yield
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=listed,
        topic_authorized_operations=rights.topic_operations(topic.name),
    )


def _missing(name: str, rights: Rights) -> DescribeTopicPartitionsResponseTopic:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if name_error(name) is not None:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=rights.topic_operations(name),
    )


def _refusal(
    request: DescribeTopicPartitionsRequest, error: ErrorCode
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    """Return a response with the error on each topic, because there is no top-level error field."""
    response = DescribeTopicPartitionsResponse()
    for topic in request.topics:
        response.topics.append(
            DescribeTopicPartitionsResponseTopic(error_code=error, name=topic.name)
        )
        yield
    return response
