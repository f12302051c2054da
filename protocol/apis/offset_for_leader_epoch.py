"""OffsetForLeaderEpoch (key 23): the end offset of a leader epoch (KIP-101). Versions 2-4.

Version 3 adds the replica id, 4 is flexible.
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, INT64, STRING, Message, field


class OffsetForLeaderPartition(Message):
    """One partition. `current_leader_epoch` is the epoch that the client knows, -1 if none."""

    partition: int = field(INT32)
    current_leader_epoch: int = field(INT32, default=-1)
    leader_epoch: int = field(INT32)


class OffsetForLeaderTopic(Message):
    """One topic's partitions."""

    topic: str = field(STRING)
    partitions: list[OffsetForLeaderPartition] = field(ARRAY(OffsetForLeaderPartition))


class OffsetForLeaderEpochRequest(Message, versions=(2, 4), flexible_since=4):
    """The epochs to look up; replica id -1 is a consumer, -2 a debugging consumer."""

    replica_id: int = field(INT32, since=3, default=-2)
    topics: list[OffsetForLeaderTopic] = field(ARRAY(OffsetForLeaderTopic))


class EpochEndOffset(Message):
    """The largest epoch not above the requested one, and its end offset; -1 if there is none."""

    error_code: int = field(INT16)
    partition: int = field(INT32)
    leader_epoch: int = field(INT32, default=-1)
    end_offset: int = field(INT64, default=-1)


class OffsetForLeaderTopicResult(Message):
    """One topic's results."""

    topic: str = field(STRING)
    partitions: list[EpochEndOffset] = field(ARRAY(EpochEndOffset))


class OffsetForLeaderEpochResponse(Message, versions=(2, 4), flexible_since=4):
    """One result per partition."""

    throttle_time_ms: int = field(INT32)
    topics: list[OffsetForLeaderTopicResult] = field(ARRAY(OffsetForLeaderTopicResult))
