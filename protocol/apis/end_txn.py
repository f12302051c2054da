"""EndTxn (key 26): commit or abort a transaction. Versions 0-5.

Version 2 knows PRODUCER_FENCED, 3 is flexible, 4 knows TRANSACTION_ABORTABLE (KIP-890). Version 5
is that of transactions v2: every end raises the producer's epoch, and the answer carries the
producer id and epoch of the next transaction.
"""

from __future__ import annotations

from protocol.schema import BOOL, INT16, INT32, INT64, STRING, Message, field


class EndTxnRequest(Message, versions=(0, 5), flexible_since=3):
    """Which transaction, and whether to commit or to abort it."""

    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    committed: bool = field(BOOL)


class EndTxnResponse(Message, versions=(0, 5), flexible_since=3):
    """The outcome is decided; the markers may still be on their way."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    producer_id: int = field(INT64, since=5, default=-1)
    producer_epoch: int = field(INT16, since=5, default=-1)
