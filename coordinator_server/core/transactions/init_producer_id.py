"""InitProducerId for a transactional id: start a producer and fence its predecessors.

Source: TransactionCoordinator.handleInitProducerId, prepareIncrementProducerEpoch and
prepareProducerIdRotation of TransactionMetadata; KIP-98, KIP-360 (a producer that sends its id and
epoch continues after an error).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.transactions.end_transaction import fence
from coordinator_server.core.transactions.metadata import (
    EPOCH_EXHAUSTED,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TransactionDecision,
    TransactionMetadata,
    TransactionState,
    refused,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable


class ProducerIdAndEpoch(NamedTuple):
    """The id and epoch that a continuing producer sends."""

    producer_id: int
    producer_epoch: int


def init_producer_id(
    metadata: TransactionMetadata,
    timeout_ms: int,
    expected: ProducerIdAndEpoch | None,
    now_ms: int,
    new_producer_id: Callable[[], int],
) -> TransactionDecision:
    """Return the decision that gives the transactional id to the requesting producer.

    An open transaction of the predecessor is aborted first, and the response is
    CONCURRENT_TRANSACTIONS, so that the client retries. `new_producer_id` is called when the
    epochs are exhausted; its exceptions are not caught.
    """
    if metadata.state.is_ending:  # as in Kafka, check the state before the producer id and epoch
        return refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if expected is not None and not _may_go_on(metadata, expected):
        return refused(ErrorCode.PRODUCER_FENCED)
    if metadata.state is TransactionState.ONGOING:
        return TransactionDecision(
            ErrorCode.CONCURRENT_TRANSACTIONS, fence(metadata, now_ms, new_producer_id)
        )
    if metadata.is_epoch_exhausted and (
        expected is None or expected.producer_epoch == metadata.producer_epoch
    ):
        return _begun(
            metadata.to(TransactionState.EMPTY, now_ms)._replace(
                producer_id=new_producer_id(),
                next_producer_id=NO_PRODUCER_ID,
                producer_epoch=0,
                last_producer_epoch=(
                    NO_PRODUCER_EPOCH if expected is None else metadata.producer_epoch
                ),
                timeout_ms=timeout_ms,
                start_ms=NO_TIMESTAMP,
            )
        )
    epochs = _next_epochs(metadata, expected)
    if epochs is None:
        return refused(ErrorCode.PRODUCER_FENCED)
    return _begun(
        metadata.to(TransactionState.EMPTY, now_ms)._replace(
            producer_epoch=epochs[0],
            last_producer_epoch=epochs[1],
            timeout_ms=timeout_ms,
            start_ms=NO_TIMESTAMP,
        )
    )


def _begun(metadata: TransactionMetadata) -> TransactionDecision:
    return TransactionDecision(
        ErrorCode.NONE, metadata, metadata.producer_id, metadata.producer_epoch
    )


def _may_go_on(metadata: TransactionMetadata, expected: ProducerIdAndEpoch) -> bool:
    """Return whether the producer may continue with the producer id that it sends.

    The id must be the latest id, or the previous id if the producer exhausted its epochs and may
    have missed the response with the latest id.

    Source: isValidProducerId.
    """
    return (
        metadata.is_new
        or expected.producer_id == metadata.producer_id
        or (
            expected.producer_id == metadata.previous_producer_id
            and expected.producer_epoch >= EPOCH_EXHAUSTED
        )
    )


def _next_epochs(
    metadata: TransactionMetadata, expected: ProducerIdAndEpoch | None
) -> tuple[int, int] | None:
    """Return the next epoch and the epoch before it, or None for a fenced producer.

    A producer that sends the epoch before the last bump did not get the response to the bump: it
    gets the same epoch again.
    """
    current, last = metadata.producer_epoch, metadata.last_producer_epoch
    if expected is None:
        return current + 1, NO_PRODUCER_EPOCH
    if metadata.is_new or expected.producer_epoch == current:
        return current + 1, current
    if expected.producer_epoch == last:
        return current, last
    return None
