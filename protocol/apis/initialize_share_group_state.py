"""InitializeShareGroupState (key 83): initializes share-partition state (KIP-932). Version 0.

Sent by the group coordinator to the share coordinator.
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, INT64, STRING, UUID, Message, field


class InitializePartition(Message):
    """One share partition; the start offset is -1 until a member has read from the partition."""

    partition: int = field(INT32)
    state_epoch: int = field(INT32)
    start_offset: int = field(INT64)


class InitializeStateData(Message):
    """Partitions of one topic."""

    topic_id: bytes = field(UUID)
    partitions: list[InitializePartition] = field(ARRAY(InitializePartition))


class InitializeShareGroupStateRequest(Message, versions=(0, 0), flexible_since=0):
    """The share partitions of one group."""

    group_id: str = field(STRING)
    topics: list[InitializeStateData] = field(ARRAY(InitializeStateData))


class InitializedPartition(Message):
    """One partition's result."""

    partition: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)


class InitializeStateResult(Message):
    """One topic's results."""

    topic_id: bytes = field(UUID)
    partitions: list[InitializedPartition] = field(ARRAY(InitializedPartition))


class InitializeShareGroupStateResponse(Message, versions=(0, 0), flexible_since=0):
    """One result per share partition."""

    results: list[InitializeStateResult] = field(ARRAY(InitializeStateResult))
