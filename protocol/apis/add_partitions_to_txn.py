"""AddPartitionsToTxn (key 24): adds partitions to a transaction. Versions 0-5.

Versions 0-3 come from producers and contain one transaction; version 2 adds PRODUCER_FENCED, 3 is
flexible. Versions 4 and 5 come from brokers: they contain several transactions, each to add
partitions or only to verify that the partitions are in the transaction (KIP-890). Version 5 adds
TRANSACTION_ABORTABLE. Producers with transactions v2 do not send this request: Produce 12 adds its
partitions itself.
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, INT16, INT32, INT64, STRING, Message, field


class AddPartitionsToTxnTopic(Message):
    """Partitions of one topic."""

    name: str = field(STRING)
    partitions: list[int] = field(ARRAY(INT32))


class AddPartitionsToTxnTransaction(Message):
    """One transaction of a batched request; `verify_only` changes nothing."""

    transactional_id: str = field(STRING, since=4)
    producer_id: int = field(INT64, since=4)
    producer_epoch: int = field(INT16, since=4)
    verify_only: bool = field(BOOL, since=4, default=False)
    topics: list[AddPartitionsToTxnTopic] = field(ARRAY(AddPartitionsToTxnTopic), since=4)


class AddPartitionsToTxnRequest(Message, versions=(0, 5), flexible_since=3):
    """Transactions since version 4; before, the fields of a single transaction."""

    transactions: list[AddPartitionsToTxnTransaction] = field(
        ARRAY(AddPartitionsToTxnTransaction), since=4
    )
    v3_and_below_transactional_id: str = field(STRING, until=3)
    v3_and_below_producer_id: int = field(INT64, until=3)
    v3_and_below_producer_epoch: int = field(INT16, until=3)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(
        ARRAY(AddPartitionsToTxnTopic), until=3
    )


class AddPartitionsToTxnPartitionResult(Message):
    """One partition's error code."""

    partition_index: int = field(INT32)
    partition_error_code: int = field(INT16)


class AddPartitionsToTxnTopicResult(Message):
    """One topic's results."""

    name: str = field(STRING)
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(
        ARRAY(AddPartitionsToTxnPartitionResult)
    )


class AddPartitionsToTxnResult(Message):
    """One transaction's results."""

    transactional_id: str = field(STRING, since=4)
    topic_results: list[AddPartitionsToTxnTopicResult] = field(
        ARRAY(AddPartitionsToTxnTopicResult), since=4
    )


class AddPartitionsToTxnResponse(Message, versions=(0, 5), flexible_since=3):
    """An error code per partition; `error_code` applies to the whole batched request."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, since=4)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(
        ARRAY(AddPartitionsToTxnResult), since=4
    )
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        ARRAY(AddPartitionsToTxnTopicResult), until=3
    )
