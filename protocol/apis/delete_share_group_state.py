"""DeleteShareGroupState (key 86): deletes share-partition state (KIP-932). Version 0.

Sent by the group coordinator to the share coordinator.
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, STRING, UUID, Message, field


class DeletePartition(Message):
    """One share partition."""

    partition: int = field(INT32)


class DeleteStateData(Message):
    """Partitions of one topic."""

    topic_id: bytes = field(UUID)
    partitions: list[DeletePartition] = field(ARRAY(DeletePartition))


class DeleteShareGroupStateRequest(Message, versions=(0, 0), flexible_since=0):
    """The share partitions of one group."""

    group_id: str = field(STRING)
    topics: list[DeleteStateData] = field(ARRAY(DeleteStateData))


class DeletedPartition(Message):
    """One partition's result."""

    partition: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)


class DeleteStateResult(Message):
    """One topic's results."""

    topic_id: bytes = field(UUID)
    partitions: list[DeletedPartition] = field(ARRAY(DeletedPartition))


class DeleteShareGroupStateResponse(Message, versions=(0, 0), flexible_since=0):
    """One result per share partition."""

    results: list[DeleteStateResult] = field(ARRAY(DeleteStateResult))
