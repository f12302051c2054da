"""DescribeLogDirs (key 35): sizes of partitions in log directories (KIP-113). Versions 1-5.

Version 2 is flexible, 3 adds a top-level error, 4 the size of the volume (KIP-827), 5 whether the
directory is cordoned, so that it gets no new partitions (KIP-1066).
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, INT16, INT32, INT64, STRING, Message, field


class DescribableLogDirTopic(Message):
    """One topic's partitions."""

    topic: str = field(STRING)
    partitions: list[int] = field(ARRAY(INT32))


class DescribeLogDirsRequest(Message, versions=(1, 5), flexible_since=2):
    """The partitions to describe; null means all."""

    topics: list[DescribableLogDirTopic] | None = field(
        ARRAY(DescribableLogDirTopic), nullable_since=0
    )


class DescribeLogDirsPartition(Message):
    """One partition's size in bytes."""

    partition_index: int = field(INT32)
    partition_size: int = field(INT64)
    offset_lag: int = field(INT64)
    is_future_key: bool = field(BOOL)


class DescribeLogDirsTopic(Message):
    """One topic's partitions."""

    name: str = field(STRING)
    partitions: list[DescribeLogDirsPartition] = field(ARRAY(DescribeLogDirsPartition))


class DescribeLogDirsResult(Message):
    """One log directory; the sizes are those of its volume, in bytes."""

    error_code: int = field(INT16)
    log_dir: str = field(STRING)
    topics: list[DescribeLogDirsTopic] = field(ARRAY(DescribeLogDirsTopic))
    total_bytes: int = field(INT64, since=4, default=-1)
    usable_bytes: int = field(INT64, since=4, default=-1)
    is_cordoned: bool = field(BOOL, since=5)


class DescribeLogDirsResponse(Message, versions=(1, 5), flexible_since=2):
    """One result per log directory."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, since=3)
    results: list[DescribeLogDirsResult] = field(ARRAY(DescribeLogDirsResult))
