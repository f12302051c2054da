"""AlterPartitionReassignments (key 45): moves partitions to other brokers (KIP-455). Versions 0-1.

Both are flexible. Version 1 can forbid a change of the replication factor.
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, INT16, INT32, STRING, Message, field


class ReassignablePartition(Message):
    """One partition and its replicas by broker id; null cancels an unfinished reassignment."""

    partition_index: int = field(INT32)
    replicas: list[int] | None = field(ARRAY(INT32), nullable_since=0, default=None)


class ReassignableTopic(Message):
    """One topic's partitions."""

    name: str = field(STRING)
    partitions: list[ReassignablePartition] = field(ARRAY(ReassignablePartition))


class AlterPartitionReassignmentsRequest(Message, versions=(0, 1), flexible_since=0):
    """The partitions to reassign."""

    timeout_ms: int = field(INT32, default=60000)
    allow_replication_factor_change: bool = field(BOOL, since=1, default=True)
    topics: list[ReassignableTopic] = field(ARRAY(ReassignableTopic))


class ReassignablePartitionResponse(Message):
    """One partition's result."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)


class ReassignableTopicResponse(Message):
    """One topic's results."""

    name: str = field(STRING)
    partitions: list[ReassignablePartitionResponse] = field(ARRAY(ReassignablePartitionResponse))


class AlterPartitionReassignmentsResponse(Message, versions=(0, 1), flexible_since=0):
    """One result per partition of the request."""

    throttle_time_ms: int = field(INT32)
    allow_replication_factor_change: bool = field(BOOL, since=1, default=True)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
    responses: list[ReassignableTopicResponse] = field(ARRAY(ReassignableTopicResponse))
