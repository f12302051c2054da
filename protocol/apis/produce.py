"""Produce (key 0): appends record batches to partitions. Versions 3-13.

Version 3 adds the transactional id and record format 2. Version 5 returns the log start offset.
Version 7 allows zstd. Version 8 adds errors of single records (KIP-467). Version 9 is flexible.
Version 10 can return the current leader (KIP-951). Versions 11 and 12 only add error codes and the
implicit AddPartitionsToTxn (KIP-890). Version 13 identifies topics by id (KIP-516). ApiVersions
advertises 0-13, because old versions of librdkafka check for version 0; requests of versions 0-2
are rejected.
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, INT64, RECORDS, STRING, UUID, Message, field


class PartitionProduceData(Message):
    """One partition's record batches, as bytes."""

    index: int = field(INT32)
    records: bytes | memoryview | None = field(RECORDS, nullable_since=0)


class TopicProduceData(Message):
    """One topic's batches; the topic is a name up to version 12, an id from 13."""

    name: str = field(STRING, until=12)
    topic_id: bytes = field(UUID, since=13)
    partition_data: list[PartitionProduceData] = field(ARRAY(PartitionProduceData))


class ProduceRequest(Message, versions=(3, 13), flexible_since=9):
    """Batches to append, by topic and partition; `acks` is 0, 1 or -1 (all)."""

    transactional_id: str | None = field(STRING, nullable_since=0, default=None)
    acks: int = field(INT16)
    timeout_ms: int = field(INT32)
    topic_data: list[TopicProduceData] = field(ARRAY(TopicProduceData))


class BatchIndexAndErrorMessage(Message):
    """A record that caused the error: its index in the batch, and the message (KIP-467)."""

    batch_index: int = field(INT32, since=8)
    batch_index_error_message: str | None = field(STRING, since=8, nullable_since=8, default=None)


class LeaderIdAndEpoch(Message):
    """The current leader (KIP-951); -1 if not applicable."""

    leader_id: int = field(INT32, since=10, default=-1)
    leader_epoch: int = field(INT32, since=10, default=-1)


class PartitionProduceResponse(Message):
    """One partition's result; the append time is -1 unless the log sets timestamps."""

    index: int = field(INT32)
    error_code: int = field(INT16)
    base_offset: int = field(INT64)
    log_append_time_ms: int = field(INT64, default=-1)
    log_start_offset: int = field(INT64, since=5, default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field(
        ARRAY(BatchIndexAndErrorMessage), since=8
    )
    error_message: str | None = field(STRING, since=8, nullable_since=8, default=None)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, since=10, tag=0)


class TopicProduceResponse(Message):
    """One topic's results."""

    name: str = field(STRING, until=12)
    topic_id: bytes = field(UUID, since=13)
    partition_responses: list[PartitionProduceResponse] = field(ARRAY(PartitionProduceResponse))


class NodeEndpoint(Message):
    """The address of a leader that the response names."""

    node_id: int = field(INT32, since=10)
    host: str = field(STRING, since=10)
    port: int = field(INT32, since=10)
    rack: str | None = field(STRING, since=10, nullable_since=10, default=None)


class ProduceResponse(Message, versions=(3, 13), flexible_since=9):
    """The base offset of each partition's batch, or an error. With acks 0 there is no response."""

    responses: list[TopicProduceResponse] = field(ARRAY(TopicProduceResponse))
    throttle_time_ms: int = field(INT32)
    node_endpoints: list[NodeEndpoint] = field(ARRAY(NodeEndpoint), since=10, tag=0)
