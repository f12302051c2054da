"""WriteShareGroupState (key 85): updates share-partition state (KIP-932).

Sent by the leader of a partition to the share coordinator. Versions 0-1; version 1 adds the number
of offsets whose delivery is complete, for the lag of the group (KIP-1226).
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT8, INT16, INT32, INT64, STRING, UUID, Message, field


class WriteStateBatch(Message):
    """A range of offsets with one state: 0 Available, 2 Acknowledged or 4 Archived."""

    first_offset: int = field(INT64)
    last_offset: int = field(INT64)
    delivery_state: int = field(INT8)
    delivery_count: int = field(INT16)


class WritePartition(Message):
    """The changes of one share partition; a start offset of -1 keeps the current one."""

    partition: int = field(INT32)
    state_epoch: int = field(INT32)
    leader_epoch: int = field(INT32)
    start_offset: int = field(INT64)
    delivery_complete_count: int = field(INT32, since=1, default=-1)
    state_batches: list[WriteStateBatch] = field(ARRAY(WriteStateBatch))


class WriteStateData(Message):
    """Partitions of one topic."""

    topic_id: bytes = field(UUID)
    partitions: list[WritePartition] = field(ARRAY(WritePartition))


class WriteShareGroupStateRequest(Message, versions=(0, 1), flexible_since=0):
    """The share partitions of one group."""

    group_id: str = field(STRING)
    topics: list[WriteStateData] = field(ARRAY(WriteStateData))


class WrittenPartition(Message):
    """One partition's result."""

    partition: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)


class WriteStateResult(Message):
    """One topic's results."""

    topic_id: bytes = field(UUID)
    partitions: list[WrittenPartition] = field(ARRAY(WrittenPartition))


class WriteShareGroupStateResponse(Message, versions=(0, 1), flexible_since=0):
    """One result per share partition."""

    results: list[WriteStateResult] = field(ARRAY(WriteStateResult))
