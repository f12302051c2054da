"""Retry timers whose records could not be appended. Source: CoordinatorTimerImpl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.groups.effects import Done, Effects
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.purgatory import DelayedOperation

RETRY_BACKOFF_MS = 500


def retried(group: Group, timer: DelayedOperation[Any]) -> Done:
    """Return the callback for a timer's write: if the write fails, fire the timer again later."""

    def done(error: ErrorCode, now_ms: int, _: Effects) -> None:
        if error is not ErrorCode.NONE:
            group.purgatory.schedule(timer, now_ms + RETRY_BACKOFF_MS)

    return done
