"""AddPartitionsToTxn and AddOffsetsToTxn: begin or extend a transaction, and verify partitions.

Source: TransactionCoordinator.handleAddPartitionsToTransaction and
handleVerifyPartitionsInTransaction; KIP-98, KIP-890.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.transactions.metadata import (
    TopicPartition,
    TransactionDecision,
    TransactionMetadata,
    TransactionState,
    refused,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection


def add_partitions(
    metadata: TransactionMetadata | None,
    producer_id: int,
    producer_epoch: int,
    partitions: Collection[TopicPartition],
    client_version: int,
    now_ms: int,
) -> TransactionDecision:
    """Add partitions to the transaction of an id; the first partition begins a transaction."""
    # As in Kafka, check the state of the transaction first, then the producer id and epoch.
    if metadata is not None and metadata.state.is_ending:
        return refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    error = _error(metadata, producer_id, producer_epoch)
    if error is not ErrorCode.NONE:
        return refused(error)
    assert metadata is not None
    if metadata.state is TransactionState.ONGOING and metadata.partitions.issuperset(partitions):
        return TransactionDecision(ErrorCode.NONE)
    is_open = metadata.state is TransactionState.ONGOING
    return TransactionDecision(
        ErrorCode.NONE,
        metadata.to(TransactionState.ONGOING, now_ms)._replace(
            partitions=metadata.partitions.union(partitions),
            start_ms=metadata.start_ms if is_open else now_ms,
            client_version=client_version,
        ),
    )


def missing_partitions(
    metadata: TransactionMetadata | None,
    producer_id: int,
    producer_epoch: int,
    partitions: Collection[TopicPartition],
) -> tuple[ErrorCode, Collection[TopicPartition]]:
    """Return an error for all partitions, or the `partitions` that are not in the transaction."""
    error = _error(metadata, producer_id, producer_epoch)
    if error is not ErrorCode.NONE:
        return error, ()
    assert metadata is not None
    return ErrorCode.NONE, [
        partition for partition in partitions if partition not in metadata.partitions
    ]


def _error(
    metadata: TransactionMetadata | None, producer_id: int, producer_epoch: int
) -> ErrorCode:
    if metadata is None or metadata.is_new or metadata.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if metadata.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if metadata.state.is_ending:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.NONE
