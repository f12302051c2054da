"""Logs failed writes of the security state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.events.log import LOG

if TYPE_CHECKING:
    from storage.errors import StorageError


def log_unwritten(error: StorageError) -> None:
    """Log a failed change of users, ACLs, tokens or quotas; the client also gets the error."""
    LOG.emit("security_state.failed", reason=str(error))
