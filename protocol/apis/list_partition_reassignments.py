"""ListPartitionReassignments (key 46): running reassignments (KIP-455). Version 0, flexible."""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, STRING, Message, field


class ReassignmentsTopic(Message):
    """Partitions of one topic to list."""

    name: str = field(STRING)
    partition_indexes: list[int] = field(ARRAY(INT32))


class ListPartitionReassignmentsRequest(Message, versions=(0, 0), flexible_since=0):
    """The partitions to list; null means all."""

    timeout_ms: int = field(INT32, default=60000)
    topics: list[ReassignmentsTopic] | None = field(
        ARRAY(ReassignmentsTopic), nullable_since=0, default=None
    )


class OngoingPartitionReassignment(Message):
    """One running reassignment, by node ids: all replicas, the added and the removed ones."""

    partition_index: int = field(INT32)
    replicas: list[int] = field(ARRAY(INT32))
    adding_replicas: list[int] = field(ARRAY(INT32))
    removing_replicas: list[int] = field(ARRAY(INT32))


class OngoingTopicReassignment(Message):
    """One topic's running reassignments."""

    name: str = field(STRING)
    partitions: list[OngoingPartitionReassignment] = field(ARRAY(OngoingPartitionReassignment))


class ListPartitionReassignmentsResponse(Message, versions=(0, 0), flexible_since=0):
    """The running reassignments."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
    topics: list[OngoingTopicReassignment] = field(ARRAY(OngoingTopicReassignment))
