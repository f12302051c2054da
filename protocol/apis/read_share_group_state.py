"""ReadShareGroupState (key 84): reads share-partition state (KIP-932). Version 0.

Sent by the leader of a partition to the share coordinator, which stores the leader epoch.
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT8, INT16, INT32, INT64, STRING, UUID, Message, field


class ReadPartition(Message):
    """One share partition, and the leader epoch of the sender."""

    partition: int = field(INT32)
    leader_epoch: int = field(INT32)


class ReadStateData(Message):
    """Partitions of one topic."""

    topic_id: bytes = field(UUID)
    partitions: list[ReadPartition] = field(ARRAY(ReadPartition))


class ReadShareGroupStateRequest(Message, versions=(0, 0), flexible_since=0):
    """The share partitions of one group."""

    group_id: str = field(STRING)
    topics: list[ReadStateData] = field(ARRAY(ReadStateData))


class ReadStateBatch(Message):
    """A range of offsets with one state: 0 Available, 2 Acknowledged or 4 Archived."""

    first_offset: int = field(INT64)
    last_offset: int = field(INT64)
    delivery_state: int = field(INT8)
    delivery_count: int = field(INT16)


class ReadPartitionResult(Message):
    """The state of one share partition, or its error; an unknown start offset is -1."""

    partition: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
    state_epoch: int = field(INT32)
    start_offset: int = field(INT64)
    state_batches: list[ReadStateBatch] = field(ARRAY(ReadStateBatch))


class ReadStateResult(Message):
    """One topic's results."""

    topic_id: bytes = field(UUID)
    partitions: list[ReadPartitionResult] = field(ARRAY(ReadPartitionResult))


class ReadShareGroupStateResponse(Message, versions=(0, 0), flexible_since=0):
    """One result per share partition."""

    results: list[ReadStateResult] = field(ARRAY(ReadStateResult))
