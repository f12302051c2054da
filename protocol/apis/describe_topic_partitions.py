"""DescribeTopicPartitions (key 75): describes topics in pages (KIP-966). Version 0, flexible.

Unlike Metadata, the response has the eligible leader replicas, and a long response ends with a
cursor for the next request.
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, INT16, INT32, STRING, UUID, Message, field


class TopicRequest(Message):
    """A topic to describe."""

    name: str = field(STRING)


class Cursor(Message):
    """The first partition of a page."""

    topic_name: str = field(STRING)
    partition_index: int = field(INT32)


class DescribeTopicPartitionsRequest(Message, versions=(0, 0), flexible_since=0):
    """The topics to describe, or all if the list is empty, starting at the cursor."""

    topics: list[TopicRequest] = field(ARRAY(TopicRequest))
    response_partition_limit: int = field(INT32, default=2000)
    cursor: Cursor | None = field(Cursor, nullable_since=0, default=None)


class DescribeTopicPartitionsResponsePartition(Message):
    """A partition's leader and replicas as node ids.

    The lists of eligible leader replicas may be null.
    """

    error_code: int = field(INT16)
    partition_index: int = field(INT32)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32, default=-1)
    replica_nodes: list[int] = field(ARRAY(INT32))
    isr_nodes: list[int] = field(ARRAY(INT32))
    eligible_leader_replicas: list[int] | None = field(ARRAY(INT32), nullable_since=0, default=None)
    last_known_elr: list[int] | None = field(ARRAY(INT32), nullable_since=0, default=None)
    offline_replicas: list[int] = field(ARRAY(INT32))


class DescribeTopicPartitionsResponseTopic(Message):
    """One topic with the partitions of this page, or its error."""

    error_code: int = field(INT16)
    name: str | None = field(STRING, nullable_since=0)
    topic_id: bytes = field(UUID)
    is_internal: bool = field(BOOL)
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(
        ARRAY(DescribeTopicPartitionsResponsePartition)
    )
    topic_authorized_operations: int = field(INT32, default=-(2**31))


class DescribeTopicPartitionsResponse(Message, versions=(0, 0), flexible_since=0):
    """One page of topics; the cursor is null on the last page."""

    throttle_time_ms: int = field(INT32)
    topics: list[DescribeTopicPartitionsResponseTopic] = field(
        ARRAY(DescribeTopicPartitionsResponseTopic)
    )
    next_cursor: Cursor | None = field(Cursor, nullable_since=0, default=None)
