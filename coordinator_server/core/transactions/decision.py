"""TransactionDecision: the core's answer to a request for a transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.transactions.metadata import TransactionMetadata


class TransactionDecision(NamedTuple):
    """The `error` for the client, and the metadata to write first, or None for no change.

    A decision can have both an error and metadata: InitProducerId during an open transaction writes
    the change, and the client retries. `producer_id` and `producer_epoch` are for responses with
    these fields.
    """

    error: ErrorCode
    record: TransactionMetadata | None = None
    producer_id: int = -1
    producer_epoch: int = -1


def refused(error: ErrorCode) -> TransactionDecision:
    """Return a decision with an error and no change."""
    return TransactionDecision(error)
