"""DeleteRecords (key 21): deletes the oldest records of partitions. Versions 0-2.

Version 1 may be throttled, 2 is flexible.
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, INT64, STRING, Message, field


class DeleteRecordsPartition(Message):
    """One partition and its new log start offset; -1 is the high watermark."""

    partition_index: int = field(INT32)
    offset: int = field(INT64)


class DeleteRecordsTopic(Message):
    """One topic's partitions."""

    name: str = field(STRING)
    partitions: list[DeleteRecordsPartition] = field(ARRAY(DeleteRecordsPartition))


class DeleteRecordsRequest(Message, versions=(0, 2), flexible_since=2):
    """The partitions and the offsets before which records are deleted."""

    topics: list[DeleteRecordsTopic] = field(ARRAY(DeleteRecordsTopic))
    timeout_ms: int = field(INT32)


class DeleteRecordsPartitionResult(Message):
    """One partition's new low watermark."""

    partition_index: int = field(INT32)
    low_watermark: int = field(INT64)
    error_code: int = field(INT16)


class DeleteRecordsTopicResult(Message):
    """One topic's results."""

    name: str = field(STRING)
    partitions: list[DeleteRecordsPartitionResult] = field(ARRAY(DeleteRecordsPartitionResult))


class DeleteRecordsResponse(Message, versions=(0, 2), flexible_since=2):
    """One result per partition."""

    throttle_time_ms: int = field(INT32)
    topics: list[DeleteRecordsTopicResult] = field(ARRAY(DeleteRecordsTopicResult))
