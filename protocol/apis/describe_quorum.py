"""DescribeQuorum (key 55): the quorum of controllers (KIP-595). Versions 0-2, all flexible.

Version 1 adds fetch times (KIP-836), 2 adds directory ids, nodes and messages (KIP-853).
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, INT64, STRING, UINT16, UUID, Message, field


class QuorumPartition(Message):
    """One partition to describe."""

    partition_index: int = field(INT32)


class QuorumTopic(Message):
    """One topic to describe."""

    topic_name: str = field(STRING)
    partitions: list[QuorumPartition] = field(ARRAY(QuorumPartition))


class DescribeQuorumRequest(Message, versions=(0, 2), flexible_since=0):
    """The partitions to describe: partition 0 of `__cluster_metadata`."""

    topics: list[QuorumTopic] = field(ARRAY(QuorumTopic))


class ReplicaState(Message):
    """One replica of the metadata log; the times are in ms, -1 if unknown."""

    replica_id: int = field(INT32)
    replica_directory_id: bytes = field(UUID, since=2)
    log_end_offset: int = field(INT64)
    last_fetch_timestamp: int = field(INT64, since=1, default=-1)
    last_caught_up_timestamp: int = field(INT64, since=1, default=-1)


class DescribedQuorumPartition(Message):
    """One partition: its leader, its voters and its observers."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, since=2, nullable_since=2)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)
    high_watermark: int = field(INT64)
    current_voters: list[ReplicaState] = field(ARRAY(ReplicaState))
    observers: list[ReplicaState] = field(ARRAY(ReplicaState))


class DescribedQuorumTopic(Message):
    """One topic's partitions."""

    topic_name: str = field(STRING)
    partitions: list[DescribedQuorumPartition] = field(ARRAY(DescribedQuorumPartition))


class QuorumListener(Message):
    """A listener of a quorum node."""

    name: str = field(STRING)
    host: str = field(STRING)
    port: int = field(UINT16)


class QuorumNode(Message):
    """One node of the quorum."""

    node_id: int = field(INT32, since=2)
    listeners: list[QuorumListener] = field(ARRAY(QuorumListener), since=2)


class DescribeQuorumResponse(Message, versions=(0, 2), flexible_since=0):
    """The quorum: its partition with voters and observers, and its nodes."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, since=2, nullable_since=2)
    topics: list[DescribedQuorumTopic] = field(ARRAY(DescribedQuorumTopic))
    nodes: list[QuorumNode] = field(ARRAY(QuorumNode), since=2)
