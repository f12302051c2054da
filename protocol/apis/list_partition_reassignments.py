"""ListPartitionReassignments (key 46): partitions that move (KIP-455). Version 0, flexible."""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, STRING, Message, field


class ReassignmentsTopic(Message):
    """Partitions of a topic to look at."""

    name: str = field(STRING)
    partition_indexes: list[int] = field(ARRAY(INT32))


class ListPartitionReassignmentsRequest(Message, versions=(0, 0), flexible_since=0):
    """Which partitions; null means all."""

    timeout_ms: int = field(INT32, default=60000)
    topics: list[ReassignmentsTopic] | None = field(
        ARRAY(ReassignmentsTopic), nullable_since=0, default=None
    )


class OngoingPartitionReassignment(Message):
    """One partition that moves, by node ids: all replicas, and those that come and go."""

    partition_index: int = field(INT32)
    replicas: list[int] = field(ARRAY(INT32))
    adding_replicas: list[int] = field(ARRAY(INT32))
    removing_replicas: list[int] = field(ARRAY(INT32))


class OngoingTopicReassignment(Message):
    """One topic's partitions that move."""

    name: str = field(STRING)
    partitions: list[OngoingPartitionReassignment] = field(ARRAY(OngoingPartitionReassignment))


class ListPartitionReassignmentsResponse(Message, versions=(0, 0), flexible_since=0):
    """What moves at the moment."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
    topics: list[OngoingTopicReassignment] = field(ARRAY(OngoingTopicReassignment))
