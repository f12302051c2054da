"""What the core answers to a request for a transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.transactions.metadata import TransactionMetadata


class TransactionDecision(NamedTuple):
    """`error` for the client, and the metadata to write first, None for no change.

    With an error and metadata, as for InitProducerId while a transaction is open, the change is
    made and the client comes again. `producer_id` and `producer_epoch` go into the answers that
    have them.
    """

    error: ErrorCode
    record: TransactionMetadata | None = None
    producer_id: int = -1
    producer_epoch: int = -1


def refused(error: ErrorCode) -> TransactionDecision:
    """Nothing changes."""
    return TransactionDecision(error)
