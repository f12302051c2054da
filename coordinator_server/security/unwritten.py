"""A line for what could not be kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.events.log import LOG

if TYPE_CHECKING:
    from storage.errors import StorageError


def log_unwritten(error: StorageError) -> None:
    """Log that a change of users, ACLs, tokens or quotas failed; the client is told as well."""
    LOG.emit("security_state.failed", reason=str(error))
