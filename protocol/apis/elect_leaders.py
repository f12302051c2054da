"""ElectLeaders (key 43): elects partition leaders (KIP-183, KIP-460). Versions 0-2.

Version 1 adds the election type and a top-level error, 2 is flexible.
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT8, INT16, INT32, STRING, Message, field


class TopicPartitions(Message):
    """One topic's partitions."""

    topic: str = field(STRING)
    partitions: list[int] = field(ARRAY(INT32))


class ElectLeadersRequest(Message, versions=(0, 2), flexible_since=2):
    """The partitions, null for all; type 0 elects the preferred replica, 1 any running replica."""

    election_type: int = field(INT8, since=1)
    topic_partitions: list[TopicPartitions] | None = field(ARRAY(TopicPartitions), nullable_since=0)
    timeout_ms: int = field(INT32, default=60000)


class PartitionResult(Message):
    """One partition's result."""

    partition_id: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)


class ReplicaElectionResult(Message):
    """One topic's results."""

    topic: str = field(STRING)
    partition_result: list[PartitionResult] = field(ARRAY(PartitionResult))


class ElectLeadersResponse(Message, versions=(0, 2), flexible_since=2):
    """The error of the whole request, and one result per partition."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, since=1)
    replica_election_results: list[ReplicaElectionResult] = field(ARRAY(ReplicaElectionResult))
