"""EndTxn (key 26): commits or aborts a transaction. Versions 0-5.

Version 2 adds PRODUCER_FENCED, 3 is flexible, 4 adds TRANSACTION_ABORTABLE (KIP-890). Version 5 is
for transactions v2: each end increases the producer epoch, and the response has the producer id and
epoch of the next transaction.
"""

from __future__ import annotations

from protocol.schema import BOOL, INT16, INT32, INT64, STRING, Message, field


class EndTxnRequest(Message, versions=(0, 5), flexible_since=3):
    """The transaction, and whether to commit or abort it."""

    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    committed: bool = field(BOOL)


class EndTxnResponse(Message, versions=(0, 5), flexible_since=3):
    """Without an error, the outcome is decided, but markers may not be written yet."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    producer_id: int = field(INT64, since=5, default=-1)
    producer_epoch: int = field(INT16, since=5, default=-1)
