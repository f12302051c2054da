"""EndTxn: commit or abort, by the producer or by the coordinator.

The end of a transaction takes two records. The first decides the outcome (PREPARE_COMMIT,
PREPARE_ABORT); once the markers are in all partitions, the second completes the transaction
(COMPLETE_COMMIT, COMPLETE_ABORT). Source: TransactionCoordinator.endTransaction; KIP-98, KIP-890
(transactions v2 raise the epoch with every end, so that late writes of the old transaction are
fenced).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.transactions.metadata import (
    EPOCH_EXHAUSTED,
    NO_PRODUCER_ID,
    TRANSACTIONS_V2,
    TransactionDecision,
    TransactionMetadata,
    TransactionState,
    refused,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable


def end_transaction(
    metadata: TransactionMetadata | None,
    producer_id: int,
    producer_epoch: int,
    *,
    commits: bool,
    client_version: int,
    now_ms: int,
    new_producer_id: Callable[[], int],
) -> TransactionDecision:
    """Return the decision on a producer's EndTxn; a retried request gets the same response.

    `new_producer_id` is called when the epochs are exhausted; its exceptions are not caught.
    """
    if metadata is None or metadata.is_new:
        return refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_v2 = client_version >= TRANSACTIONS_V2
    if is_v2 and metadata.state.is_ending:  # v2 checks the state before producer id and epoch
        return refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    is_retry = is_v2 and _is_retry(metadata, producer_id, producer_epoch)
    if metadata.producer_id != producer_id and not is_retry:
        return refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if metadata.producer_epoch != producer_epoch and not is_retry:
        return refused(ErrorCode.PRODUCER_FENCED)
    if metadata.state.is_ending:
        return refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if metadata.state is TransactionState.ONGOING:
        if is_retry:  # the client retries the end of an earlier transaction
            return refused(ErrorCode.PRODUCER_FENCED)
        return _decided(
            _prepared(metadata, commits, client_version, now_ms, new_producer_id), is_v2=is_v2
        )
    return _without_transaction(
        metadata,
        commits=commits,
        is_v2=is_v2,
        is_retry=is_retry,
        prepare_abort=lambda: _prepared(
            metadata, False, client_version, now_ms, new_producer_id
        )._replace(start_ms=now_ms),
    )


def _without_transaction(
    metadata: TransactionMetadata,
    *,
    commits: bool,
    is_v2: bool,
    is_retry: bool,
    prepare_abort: Callable[[], TransactionMetadata],
) -> TransactionDecision:
    """Return the decision on an EndTxn while no transaction is open."""
    ended_so = metadata.state is (
        TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT
    )
    if not is_v2:
        return _unchanged(metadata, ErrorCode.NONE if ended_so else ErrorCode.INVALID_TXN_STATE)
    if is_retry:
        return _unchanged(metadata, ErrorCode.NONE if ended_so else ErrorCode.INVALID_TXN_STATE)
    if commits:
        return refused(ErrorCode.INVALID_TXN_STATE)
    # A v2 client that does not know the outcome of its transaction sends an abort to get a new
    # epoch.
    return _decided(prepare_abort(), is_v2=True)


def _unchanged(metadata: TransactionMetadata, error: ErrorCode) -> TransactionDecision:
    if error is not ErrorCode.NONE:
        return refused(error)
    return TransactionDecision(error, None, metadata.producer_id, metadata.producer_epoch)


def _is_retry(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> bool:
    """Return whether a v2 request has the producer id and epoch from before the latest EndTxn.

    As in Kafka, any request with the previous epoch counts as a retry, even if the latest EndTxn
    used transactions v1.
    """
    if metadata.state is TransactionState.EMPTY:
        return False
    if metadata.producer_id == producer_id:
        return metadata.producer_epoch == producer_epoch + 1
    return (
        metadata.previous_producer_id == producer_id
        and producer_epoch == EPOCH_EXHAUSTED
        and metadata.producer_epoch == 0
    )


def _prepared(
    metadata: TransactionMetadata,
    commits: bool,
    client_version: int,
    now_ms: int,
    new_producer_id: Callable[[], int],
) -> TransactionMetadata:
    """Return the metadata that decides the outcome, before the markers are written."""
    state = TransactionState.PREPARE_COMMIT if commits else TransactionState.PREPARE_ABORT
    if client_version < TRANSACTIONS_V2:
        return metadata.to(state, now_ms)._replace(client_version=client_version)
    return metadata.to(state, now_ms)._replace(
        next_producer_id=new_producer_id() if metadata.is_epoch_exhausted else NO_PRODUCER_ID,
        producer_epoch=metadata.producer_epoch + 1,
        last_producer_epoch=metadata.producer_epoch,
        client_version=client_version,
    )


def _decided(metadata: TransactionMetadata, *, is_v2: bool) -> TransactionDecision:
    """Return the decision; with transactions v2 it has the producer's next id and epoch."""
    producer_id, producer_epoch = metadata.producer_id, metadata.producer_epoch
    if is_v2 and metadata.next_producer_id != NO_PRODUCER_ID:
        producer_id, producer_epoch = metadata.next_producer_id, 0
    return TransactionDecision(ErrorCode.NONE, metadata, producer_id, producer_epoch)


def fence(
    metadata: TransactionMetadata, now_ms: int, new_producer_id: Callable[[], int]
) -> TransactionMetadata:
    """Return the record that aborts an open transaction for another producer or after its timeout.

    The record raises the epoch, so that the old producer is fenced; that producer may continue
    with InitProducerId (KIP-588). A new producer id replaces an exhausted producer id. The
    transaction version is the broker's, whatever the producer's version. Source:
    prepareFenceProducerEpoch.
    """
    return metadata.to(TransactionState.PREPARE_ABORT, now_ms)._replace(
        producer_epoch=metadata.producer_epoch + 1,
        last_producer_epoch=metadata.producer_epoch,
        next_producer_id=new_producer_id() if metadata.is_epoch_exhausted else NO_PRODUCER_ID,
        client_version=TRANSACTIONS_V2,
    )


def completed(metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """Return the record that completes a transaction whose markers are all written."""
    commits = metadata.state is TransactionState.PREPARE_COMMIT
    state = TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT
    ended = metadata.to(state, now_ms)._replace(partitions=frozenset())
    if metadata.next_producer_id == NO_PRODUCER_ID:
        return ended
    return ended._replace(
        producer_id=metadata.next_producer_id,
        next_producer_id=NO_PRODUCER_ID,
        producer_epoch=0,
    )
