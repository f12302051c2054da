"""DescribeTransactions (key 65): the state of transactional ids (KIP-664). Version 0, flexible."""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, INT64, STRING, Message, field


class DescribeTransactionsRequest(Message, versions=(0, 0), flexible_since=0):
    """The transactional ids; an empty list returns nothing."""

    transactional_ids: list[str] = field(ARRAY(STRING))


class DescribedTransactionTopic(Message):
    """Partitions of one topic in a transaction; once it ends, only partitions without a marker."""

    topic: str = field(STRING)
    partitions: list[int] = field(ARRAY(INT32))


class DescribedTransaction(Message):
    """One transactional id. Times are in ms; the start time is -1 without a transaction."""

    error_code: int = field(INT16)
    transactional_id: str = field(STRING)
    transaction_state: str = field(STRING)
    transaction_timeout_ms: int = field(INT32)
    transaction_start_time_ms: int = field(INT64)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    topics: list[DescribedTransactionTopic] = field(ARRAY(DescribedTransactionTopic))


class DescribeTransactionsResponse(Message, versions=(0, 0), flexible_since=0):
    """The state of each transactional id, or its error code."""

    throttle_time_ms: int = field(INT32)
    transaction_states: list[DescribedTransaction] = field(ARRAY(DescribedTransaction))
