"""CreatePartitions (key 37): adds partitions to topics. Versions 0-3.

Version 2 is flexible, 3 may be throttled (KIP-599).
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, INT16, INT32, STRING, Message, field


class CreatePartitionsAssignment(Message):
    """Manually assigned replicas of one new partition."""

    broker_ids: list[int] = field(ARRAY(INT32))


class CreatePartitionsTopic(Message):
    """One topic and its new partition count."""

    name: str = field(STRING)
    count: int = field(INT32)
    assignments: list[CreatePartitionsAssignment] | None = field(
        ARRAY(CreatePartitionsAssignment), nullable_since=0
    )


class CreatePartitionsRequest(Message, versions=(0, 3), flexible_since=2):
    """The topics to which partitions are added."""

    topics: list[CreatePartitionsTopic] = field(ARRAY(CreatePartitionsTopic))
    timeout_ms: int = field(INT32)
    validate_only: bool = field(BOOL)


class CreatePartitionsTopicResult(Message):
    """One topic's result."""

    name: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)


class CreatePartitionsResponse(Message, versions=(0, 3), flexible_since=2):
    """One result per topic."""

    throttle_time_ms: int = field(INT32)
    results: list[CreatePartitionsTopicResult] = field(ARRAY(CreatePartitionsTopicResult))
