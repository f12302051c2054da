"""ReadShareGroupStateSummary (key 87): share-partition state without in-flight records.

Sent by the group coordinator to the share coordinator (KIP-932). Versions 0-1; version 1 adds the
number of offsets whose delivery is complete, for the lag of the group (KIP-1226).
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, INT64, STRING, UUID, Message, field


class ReadSummaryPartition(Message):
    """One share partition; a leader epoch of -1 is not checked."""

    partition: int = field(INT32)
    leader_epoch: int = field(INT32)


class ReadStateSummaryData(Message):
    """Partitions of one topic."""

    topic_id: bytes = field(UUID)
    partitions: list[ReadSummaryPartition] = field(ARRAY(ReadSummaryPartition))


class ReadShareGroupStateSummaryRequest(Message, versions=(0, 1), flexible_since=0):
    """The share partitions of one group."""

    group_id: str = field(STRING)
    topics: list[ReadStateSummaryData] = field(ARRAY(ReadStateSummaryData))


class ReadSummaryResult(Message):
    """Epochs and start offset of one share partition, or its error."""

    partition: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
    state_epoch: int = field(INT32)
    leader_epoch: int = field(INT32)
    start_offset: int = field(INT64)
    delivery_complete_count: int = field(INT32, since=1, default=-1)


class ReadStateSummaryResult(Message):
    """One topic's results."""

    topic_id: bytes = field(UUID)
    partitions: list[ReadSummaryResult] = field(ARRAY(ReadSummaryResult))


class ReadShareGroupStateSummaryResponse(Message, versions=(0, 1), flexible_since=0):
    """One result per share partition."""

    results: list[ReadStateSummaryResult] = field(ARRAY(ReadStateSummaryResult))
