"""OffsetDelete (key 47): forget committed offsets of topics a group does not read. Version 0.

KIP-496. Refuses topics that a live member of the group is subscribed to.
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, STRING, Message, field


class OffsetDeleteRequestPartition(Message):
    """One partition."""

    partition_index: int = field(INT32)


class OffsetDeleteRequestTopic(Message):
    """One topic's partitions."""

    name: str = field(STRING)
    partitions: list[OffsetDeleteRequestPartition] = field(ARRAY(OffsetDeleteRequestPartition))


class OffsetDeleteRequest(Message, versions=(0, 0)):
    """The partitions to forget."""

    group_id: str = field(STRING)
    topics: list[OffsetDeleteRequestTopic] = field(ARRAY(OffsetDeleteRequestTopic))


class OffsetDeleteResponsePartition(Message):
    """One partition's result."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)


class OffsetDeleteResponseTopic(Message):
    """One topic's results."""

    name: str = field(STRING)
    partitions: list[OffsetDeleteResponsePartition] = field(ARRAY(OffsetDeleteResponsePartition))


class OffsetDeleteResponse(Message, versions=(0, 0)):
    """The error of the whole request, and one per partition."""

    error_code: int = field(INT16)
    throttle_time_ms: int = field(INT32)
    topics: list[OffsetDeleteResponseTopic] = field(ARRAY(OffsetDeleteResponseTopic))
