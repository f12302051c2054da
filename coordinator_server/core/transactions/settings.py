"""The broker's settings that transactions go by."""

from __future__ import annotations

from typing import NamedTuple


class TransactionSettings(NamedTuple):
    """Settings with Kafka's defaults; times in milliseconds."""

    max_timeout_ms: int = 900_000
    """`transaction.max.timeout.ms`: what a producer may ask for at most."""
    abort_interval_ms: int = 10_000
    """`transaction.abort.timed.out.transaction.cleanup.interval.ms`."""
    id_expiration_ms: int = 604_800_000
    """`transactional.id.expiration.ms`: an id without a transaction is forgotten after it."""
    expiration_interval_ms: int = 3_600_000
    """`transaction.remove.expired.transaction.cleanup.interval.ms`."""
    verifies_partitions: bool = True
    """`transaction.partition.verification.enable`: Produce and TxnOffsetCommit of transactions v1
    are refused for a partition that was not added (KIP-890)."""
