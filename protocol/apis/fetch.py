"""Fetch (key 1): records from partitions, long polling. Versions 4-18.

Version 5 adds the log start offset, 7 incremental fetch sessions (KIP-227), 9 the leader epoch for
fencing (KIP-320), 11 the rack (KIP-392). Version 12 is flexible and adds the last fetched epoch and
tagged fields. Version 13 identifies topics by id (KIP-516). Version 15 moves the replica id into a
tagged struct (KIP-903). Version 16 returns the leaders' addresses. Versions 17 and 18 only concern
replicas of the metadata quorum.
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT8, INT16, INT32, INT64, RECORDS, STRING, UUID, Message, field


class ReplicaState(Message):
    """The fetching replica; -1 for a consumer (from version 15)."""

    replica_id: int = field(INT32, since=15, default=-1)
    replica_epoch: int = field(INT64, since=15, default=-1)


class FetchPartition(Message):
    """One partition to read, from `fetch_offset`."""

    partition: int = field(INT32)
    current_leader_epoch: int = field(INT32, since=9, default=-1)
    fetch_offset: int = field(INT64)
    last_fetched_epoch: int = field(INT32, since=12, default=-1)
    log_start_offset: int = field(INT64, since=5, default=-1)
    partition_max_bytes: int = field(INT32)
    replica_directory_id: bytes = field(UUID, since=17, tag=0)
    high_watermark: int = field(INT64, since=18, default=2**63 - 1, tag=1)


class FetchTopic(Message):
    """One topic to read: its name up to version 12, its id from 13."""

    topic: str = field(STRING, until=12)
    topic_id: bytes = field(UUID, since=13)
    partitions: list[FetchPartition] = field(ARRAY(FetchPartition))


class ForgottenTopic(Message):
    """Partitions to remove from the fetch session."""

    topic: str = field(STRING, since=7, until=12)
    topic_id: bytes = field(UUID, since=13)
    partitions: list[int] = field(ARRAY(INT32), since=7)


class FetchRequest(Message, versions=(4, 18), flexible_since=12):
    """The partitions to read, and the limits of time and bytes to wait for."""

    cluster_id: str | None = field(STRING, since=12, nullable_since=12, default=None, tag=0)
    replica_id: int = field(INT32, until=14, default=-1)
    replica_state: ReplicaState = field(ReplicaState, since=15, tag=1)
    max_wait_ms: int = field(INT32)
    min_bytes: int = field(INT32)
    max_bytes: int = field(INT32, default=2**31 - 1)
    isolation_level: int = field(INT8)
    session_id: int = field(INT32, since=7)
    session_epoch: int = field(INT32, since=7, default=-1)
    topics: list[FetchTopic] = field(ARRAY(FetchTopic))
    forgotten_topics_data: list[ForgottenTopic] = field(ARRAY(ForgottenTopic), since=7)
    rack_id: str = field(STRING, since=11)


class EpochEndOffset(Message):
    """The end of the common log: the largest common epoch and its end offset."""

    epoch: int = field(INT32, since=12, default=-1)
    end_offset: int = field(INT64, since=12, default=-1)


class LeaderIdAndEpoch(Message):
    """The current leader (KIP-951); -1 if not applicable."""

    leader_id: int = field(INT32, since=12, default=-1)
    leader_epoch: int = field(INT32, since=12, default=-1)


class SnapshotId(Message):
    """The snapshot to fetch instead; only for replicas of the metadata log."""

    end_offset: int = field(INT64, default=-1)
    epoch: int = field(INT32, default=-1)


class AbortedTransaction(Message):
    """An aborted transaction: its producer and its first offset."""

    producer_id: int = field(INT64)
    first_offset: int = field(INT64)


class PartitionData(Message):
    """One partition's batches and offsets; `records` is null or bytes as stored in the log."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    high_watermark: int = field(INT64)
    last_stable_offset: int = field(INT64, default=-1)
    log_start_offset: int = field(INT64, since=5, default=-1)
    diverging_epoch: EpochEndOffset = field(EpochEndOffset, since=12, tag=0)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, since=12, tag=1)
    snapshot_id: SnapshotId = field(SnapshotId, since=12, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field(
        ARRAY(AbortedTransaction), nullable_since=0
    )
    preferred_read_replica: int = field(INT32, since=11, default=-1)
    records: bytes | memoryview | None = field(RECORDS, nullable_since=0)


class FetchableTopicResponse(Message):
    """One topic's results."""

    topic: str = field(STRING, until=12)
    topic_id: bytes = field(UUID, since=13)
    partitions: list[PartitionData] = field(ARRAY(PartitionData))


class NodeEndpoint(Message):
    """The address of a leader that the response names."""

    node_id: int = field(INT32, since=16)
    host: str = field(STRING, since=16)
    port: int = field(INT32, since=16)
    rack: str | None = field(STRING, since=16, nullable_since=16, default=None)


class FetchResponse(Message, versions=(4, 18), flexible_since=12):
    """Batches by partition; in a fetch session, unchanged partitions are left out."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, since=7)
    session_id: int = field(INT32, since=7)
    responses: list[FetchableTopicResponse] = field(ARRAY(FetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(ARRAY(NodeEndpoint), since=16, tag=0)
