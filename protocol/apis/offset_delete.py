"""OffsetDelete (key 47): deletes committed offsets of a group. Version 0.

Source: KIP-496. Topics to which a member of the group is subscribed are rejected.
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
    """The partitions whose offsets are deleted."""

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
    """The error of the whole request, and one error per partition."""

    error_code: int = field(INT16)
    throttle_time_ms: int = field(INT32)
    topics: list[OffsetDeleteResponseTopic] = field(ARRAY(OffsetDeleteResponseTopic))
