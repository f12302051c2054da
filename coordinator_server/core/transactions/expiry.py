"""Expiry of transactional ids that are not used.

Source: TransactionCoordinator.abortTimedOutTransactions,
TransactionStateManager.removeExpiredTransactionalIds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.core.transactions.metadata import TransactionMetadata


def is_expired(metadata: TransactionMetadata, now_ms: int, expiration_ms: int) -> bool:
    """Return whether an id has had no transaction and no update for `expiration_ms`."""
    return metadata.state.is_idle and metadata.last_update_ms + expiration_ms <= now_ms
