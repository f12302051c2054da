"""InitProducerId (key 22): id and epoch for an idempotent or transactional producer.

Versions 0-5.

Version 2 is flexible, 3 lets a producer send its id and epoch to continue after an error (KIP-360),
4 adds PRODUCER_FENCED, 5 adds TRANSACTION_ABORTABLE (KIP-890). 6 (KIP-939) is unstable and not
supported.
"""

from __future__ import annotations

from protocol.schema import INT16, INT32, INT64, STRING, Message, field


class InitProducerIdRequest(Message, versions=(0, 5), flexible_since=2):
    """The transactional id, or null for a producer that is only idempotent."""

    transactional_id: str | None = field(STRING, nullable_since=0)
    transaction_timeout_ms: int = field(INT32)
    producer_id: int = field(INT64, since=3, default=-1)
    producer_epoch: int = field(INT16, since=3, default=-1)


class InitProducerIdResponse(Message, versions=(0, 5), flexible_since=2):
    """The producer id and epoch."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    producer_id: int = field(INT64, default=-1)
    producer_epoch: int = field(INT16)
