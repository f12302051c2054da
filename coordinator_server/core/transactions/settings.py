"""The broker settings of transactions."""

from __future__ import annotations

from typing import NamedTuple


class TransactionSettings(NamedTuple):
    """Settings with Kafka's defaults; times in milliseconds."""

    max_timeout_ms: int = 900_000
    """`transaction.max.timeout.ms`: the largest timeout that a producer may request."""
    abort_interval_ms: int = 10_000
    """`transaction.abort.timed.out.transaction.cleanup.interval.ms`."""
    id_expiration_ms: int = 604_800_000
    """`transactional.id.expiration.ms`: how long an id without a transaction is kept."""
    expiration_interval_ms: int = 3_600_000
    """`transaction.remove.expired.transaction.cleanup.interval.ms`."""
    verifies_partitions: bool = True
    """`transaction.partition.verification.enable`: refuse Produce and TxnOffsetCommit of
    transactions v1 for partitions that are not in the transaction (KIP-890)."""
