"""AddOffsetsToTxn (key 25): adds a group's offsets partition to a transaction.

Versions 0-4.

Version 2 adds PRODUCER_FENCED, 3 is flexible, 4 adds TRANSACTION_ABORTABLE (KIP-890). Producers
with transactions v2 do not send this request: TxnOffsetCommit 5 adds the partition itself.
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
    """The error code, 0 if the offsets partition is in the transaction."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
