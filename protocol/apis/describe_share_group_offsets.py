"""DescribeShareGroupOffsets (key 90): the start offsets of share groups (KIP-932). Versions 0-1.

Version 1 adds the lag (KIP-1226).
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, INT64, STRING, UUID, Message, field


class DescribeShareGroupOffsetsRequestTopic(Message):
    """Partitions of one topic."""

    topic_name: str = field(STRING)
    partitions: list[int] = field(ARRAY(INT32))


class DescribeShareGroupOffsetsRequestGroup(Message):
    """One group; null topics means all its topics."""

    group_id: str = field(STRING)
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(
        ARRAY(DescribeShareGroupOffsetsRequestTopic), nullable_since=0
    )


class DescribeShareGroupOffsetsRequest(Message, versions=(0, 1), flexible_since=0):
    """The groups to describe."""

    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(
        ARRAY(DescribeShareGroupOffsetsRequestGroup)
    )


class DescribeShareGroupOffsetsResponsePartition(Message):
    """The start offset of one partition, -1 if there is none; an unknown lag is -1."""

    partition_index: int = field(INT32)
    start_offset: int = field(INT64)
    leader_epoch: int = field(INT32)
    lag: int = field(INT64, since=1, default=-1)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)


class DescribeShareGroupOffsetsResponseTopic(Message):
    """One topic's results."""

    topic_name: str = field(STRING)
    topic_id: bytes = field(UUID)
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(
        ARRAY(DescribeShareGroupOffsetsResponsePartition)
    )


class DescribeShareGroupOffsetsResponseGroup(Message):
    """One group's results, or its error."""

    group_id: str = field(STRING)
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(
        ARRAY(DescribeShareGroupOffsetsResponseTopic)
    )
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)


class DescribeShareGroupOffsetsResponse(Message, versions=(0, 1), flexible_since=0):
    """One description per requested group."""

    throttle_time_ms: int = field(INT32)
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(
        ARRAY(DescribeShareGroupOffsetsResponseGroup)
    )
