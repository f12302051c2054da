"""EndTxn: commit or abort, by the producer or by the coordinator.

An end takes two records. The first decides it (PREPARE_COMMIT, PREPARE_ABORT); once the markers are
in all partitions the second ends it (COMPLETE_COMMIT, COMPLETE_ABORT). Source:
TransactionCoordinator.endTransaction; KIP-98, KIP-890 (transactions v2 take a new epoch with every
end, so that nothing of the old transaction can come late).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.transactions.decision import TransactionDecision, refused
from coordinator_server.core.transactions.metadata import (
    EPOCH_EXHAUSTED,
    NO_PRODUCER_ID,
    TRANSACTIONS_V2,
    TransactionMetadata,
)
from coordinator_server.core.transactions.state import TransactionState
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
    """Decide the end that a producer asks for; a repeated request gets the same answer.

    `new_producer_id` is called when the epochs are exhausted; what it raises goes through.
    """
    if metadata is None or metadata.is_new:
        return refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_v2 = client_version >= TRANSACTIONS_V2
    if is_v2 and metadata.state.is_ending:  # in v2 before the producer is looked at, in v1 after
        return refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    is_retry = is_v2 and _is_retry(metadata, producer_id, producer_epoch)
    if metadata.producer_id != producer_id and not is_retry:
        return refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if metadata.producer_epoch != producer_epoch and not is_retry:
        return refused(ErrorCode.PRODUCER_FENCED)
    if metadata.state.is_ending:
        return refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if metadata.state is TransactionState.ONGOING:
        if is_retry:  # of an end before the transaction that is open now
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
    """No transaction is open: it has just ended, or none ever began."""
    ended_so = metadata.state is (
        TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT
    )
    if not is_v2:
        return _unchanged(metadata, ErrorCode.NONE if ended_so else ErrorCode.INVALID_TXN_STATE)
    if is_retry:
        return _unchanged(metadata, ErrorCode.NONE if ended_so else ErrorCode.INVALID_TXN_STATE)
    if commits:
        return refused(ErrorCode.INVALID_TXN_STATE)
    # A client of transactions v2 aborts when it does not know, for the new epoch.
    return _decided(prepare_abort(), is_v2=True)


def _unchanged(metadata: TransactionMetadata, error: ErrorCode) -> TransactionDecision:
    if error is not ErrorCode.NONE:
        return refused(error)
    return TransactionDecision(error, None, metadata.producer_id, metadata.producer_epoch)


def _is_retry(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> bool:
    """Return whether a request of v2 has the epoch or id from before the latest end.

    Like Kafka, take any epoch before the current one for it, also if that end was one of v1.
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
    """The record that decides an end."""
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
    """The answer has what the producer goes on with, in transactions v2."""
    producer_id, producer_epoch = metadata.producer_id, metadata.producer_epoch
    if is_v2 and metadata.next_producer_id != NO_PRODUCER_ID:
        producer_id, producer_epoch = metadata.next_producer_id, 0
    return TransactionDecision(ErrorCode.NONE, metadata, producer_id, producer_epoch)


def fence(
    metadata: TransactionMetadata, now_ms: int, new_producer_id: Callable[[], int]
) -> TransactionMetadata:
    """The record that aborts an open transaction on behalf of another producer, or of time.

    The epoch goes up with it, so that the producer that left it open finds itself fenced; it may go
    on with InitProducerId (KIP-588). An exhausted producer id gives way to a new one. The version
    is that of the broker, whatever the producer speaks. Source: prepareFenceProducerEpoch.
    """
    return metadata.to(TransactionState.PREPARE_ABORT, now_ms)._replace(
        producer_epoch=metadata.producer_epoch + 1,
        last_producer_epoch=metadata.producer_epoch,
        next_producer_id=new_producer_id() if metadata.is_epoch_exhausted else NO_PRODUCER_ID,
        client_version=TRANSACTIONS_V2,
    )


def completed(metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """The record that ends a transaction whose markers are all written."""
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
