"""DescribeProducers (key 61): the active producers of partitions (KIP-664). Version 0."""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, INT64, STRING, Message, field


class DescribeProducersTopicRequest(Message):
    """Partitions of one topic."""

    name: str = field(STRING)
    partition_indexes: list[int] = field(ARRAY(INT32))


class DescribeProducersRequest(Message, versions=(0, 0), flexible_since=0):
    """The partitions to describe."""

    topics: list[DescribeProducersTopicRequest] = field(ARRAY(DescribeProducersTopicRequest))


class ActiveProducer(Message):
    """The state of a producer in a partition; -1 for unknown values."""

    producer_id: int = field(INT64)
    producer_epoch: int = field(INT32)
    last_sequence: int = field(INT32, default=-1)
    last_timestamp: int = field(INT64, default=-1)
    coordinator_epoch: int = field(INT32)
    current_txn_start_offset: int = field(INT64, default=-1)


class DescribedProducersPartition(Message):
    """The producers of one partition, or its error."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
    active_producers: list[ActiveProducer] = field(ARRAY(ActiveProducer))


class DescribedProducersTopic(Message):
    """The partitions of one topic."""

    name: str = field(STRING)
    partitions: list[DescribedProducersPartition] = field(ARRAY(DescribedProducersPartition))


class DescribeProducersResponse(Message, versions=(0, 0), flexible_since=0):
    """The requested partitions, by topic."""

    throttle_time_ms: int = field(INT32)
    topics: list[DescribedProducersTopic] = field(ARRAY(DescribedProducersTopic))
