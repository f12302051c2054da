"""AddOffsetsToTxn (key 25): a group's partition of `__consumer_offsets` joins a transaction.

Versions 0-4.

Version 2 knows PRODUCER_FENCED, 3 is flexible, 4 knows TRANSACTION_ABORTABLE (KIP-890). Producers
of transactions v2 do not send it: TxnOffsetCommit 5 adds the partition itself.
"""

from __future__ import annotations

from protocol.schema import INT16, INT32, INT64, STRING, Message, field


class AddOffsetsToTxnRequest(Message, versions=(0, 4), flexible_since=3):
    """The group whose offsets the transaction is about to commit."""

    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    group_id: str = field(STRING)


class AddOffsetsToTxnResponse(Message, versions=(0, 4), flexible_since=3):
    """An error code."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
