"""Member timers that all kinds of groups share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator_server.core.groups.purgatory import DelayedOperation, G_contra
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from typing import Any

    from coordinator_server.core.groups.effects import Done, Effects
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.modern.modern_group import ModernGroup
    from coordinator_server.core.groups.purgatory import DelayedOperation


class MemberTimer(DelayedOperation[G_contra]):
    """A timer of one member."""

    __slots__ = ("member_id",)

    def __init__(self, member_id: str) -> None:
        super().__init__()
        self.member_id = member_id


def renew(
    group: ModernGroup, new_session: type[MemberTimer[Any]], member_id: str, deadline_ms: int
) -> None:
    """Start or renew a member's session timer."""
    session = group.sessions.get(member_id)
    if session is None:
        session = group.sessions[member_id] = new_session(member_id)
    group.purgatory.schedule(session, deadline_ms)


def session_expired(group: ModernGroup, member_id: str, timeout_ms: int, effects: Effects) -> None:
    """Log that a member's session has expired."""
    effects.event(
        "member.expired", group=group.group_id, member=member_id, session_timeout_ms=timeout_ms
    )


def revocation_expired(
    group: ModernGroup, member_id: str, timeout_ms: int, effects: Effects
) -> None:
    """Log that a member did not revoke its partitions within the rebalance timeout."""
    effects.event(
        "revocation.expired",
        group=group.group_id,
        member=member_id,
        rebalance_timeout_ms=timeout_ms,
    )


RETRY_BACKOFF_MS = 500


def retried(group: Group, timer: DelayedOperation[Any]) -> Done:
    """Return the callback for a timer's write: if the write fails, fire the timer again later."""

    def done(error: ErrorCode, now_ms: int, _: Effects) -> None:
        if error is not ErrorCode.NONE:
            group.purgatory.schedule(timer, now_ms + RETRY_BACKOFF_MS)

    return done
