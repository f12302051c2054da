"""ListOffsets (key 2): finds offsets by time. Versions 1-11.

Negative timestamps are special positions: -1 latest, -2 earliest, -3 the record with the highest
timestamp (version 7, KIP-734), -4 earliest local (version 8, KIP-405), -5 last tiered (version 9,
KIP-1005), -6 earliest that is not tiered yet (version 11, KIP-1023). Version 2 adds the isolation
level, 4 the leader epoch, 6 is flexible, 10 adds a timeout (KIP-1075).
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT8, INT16, INT32, INT64, STRING, Message, field


class ListOffsetsPartition(Message):
    """One partition and a timestamp in ms, or a negative special position."""

    partition_index: int = field(INT32)
    current_leader_epoch: int = field(INT32, since=4, default=-1)
    timestamp: int = field(INT64)


class ListOffsetsTopic(Message):
    """One topic to look up."""

    name: str = field(STRING)
    partitions: list[ListOffsetsPartition] = field(ARRAY(ListOffsetsPartition))


class ListOffsetsRequest(Message, versions=(1, 11), flexible_since=6):
    """Timestamps to look up, by partition."""

    replica_id: int = field(INT32)
    isolation_level: int = field(INT8, since=2)
    topics: list[ListOffsetsTopic] = field(ARRAY(ListOffsetsTopic))
    timeout_ms: int = field(INT32, since=10)


class ListOffsetsPartitionResponse(Message):
    """One partition's offset and its timestamp in ms; -1 if there is none."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    timestamp: int = field(INT64, default=-1)
    offset: int = field(INT64, default=-1)
    leader_epoch: int = field(INT32, since=4, default=-1)


class ListOffsetsTopicResponse(Message):
    """One topic's results."""

    name: str = field(STRING)
    partitions: list[ListOffsetsPartitionResponse] = field(ARRAY(ListOffsetsPartitionResponse))


class ListOffsetsResponse(Message, versions=(1, 11), flexible_since=6):
    """The offset for each requested timestamp, by topic and partition."""

    throttle_time_ms: int = field(INT32, since=2)
    topics: list[ListOffsetsTopicResponse] = field(ARRAY(ListOffsetsTopicResponse))
