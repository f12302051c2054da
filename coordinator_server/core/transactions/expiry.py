"""What time does to transactional ids: open transactions time out, unused ids are forgotten.

Source: TransactionCoordinator.abortTimedOutTransactions,
TransactionStateManager.removeExpiredTransactionalIds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.core.transactions.metadata import TransactionMetadata


def is_expired(metadata: TransactionMetadata, now_ms: int, expiration_ms: int) -> bool:
    """Whether an id is to be forgotten: nothing is under way, and nothing was for so long."""
    return metadata.state.is_idle and metadata.last_update_ms + expiration_ms <= now_ms
