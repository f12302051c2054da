"""AlterShareGroupOffsets (key 91): sets start offsets of a share group (KIP-932). Version 0.

The group must be empty.
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, INT64, STRING, UUID, Message, field


class AlterShareGroupOffsetsRequestPartition(Message):
    """The new start offset of one partition."""

    partition_index: int = field(INT32)
    start_offset: int = field(INT64)


class AlterShareGroupOffsetsRequestTopic(Message):
    """Partitions of one topic."""

    topic_name: str = field(STRING)
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field(
        ARRAY(AlterShareGroupOffsetsRequestPartition)
    )


class AlterShareGroupOffsetsRequest(Message, versions=(0, 0), flexible_since=0):
    """The offsets of one group."""

    group_id: str = field(STRING)
    topics: list[AlterShareGroupOffsetsRequestTopic] = field(
        ARRAY(AlterShareGroupOffsetsRequestTopic)
    )


class AlterShareGroupOffsetsResponsePartition(Message):
    """One partition's result."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)


class AlterShareGroupOffsetsResponseTopic(Message):
    """One topic's results."""

    topic_name: str = field(STRING)
    topic_id: bytes = field(UUID)
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field(
        ARRAY(AlterShareGroupOffsetsResponsePartition)
    )


class AlterShareGroupOffsetsResponse(Message, versions=(0, 0), flexible_since=0):
    """One result per partition, or the error of the group."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(
        ARRAY(AlterShareGroupOffsetsResponseTopic)
    )
