"""The session timers of share group members, and the names of the timing configs.

Source: scheduleShareGroupSessionTimeout of GroupMetadataManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.groups.explain import Trigger
from coordinator_server.core.groups.modern.account import cause_of
from coordinator_server.core.groups.modern.modern_group import config
from coordinator_server.core.groups.modern.timers import (
    MemberTimer,
    renew,
    retried,
    session_expired,
)
from coordinator_server.core.groups.share.leaving import removal

if TYPE_CHECKING:
    from coordinator_server.core.groups.effects import Effects
    from coordinator_server.core.groups.share.share_group import ShareGroup
    from coordinator_server.steps import Steps

SESSION_TIMEOUT, HEARTBEAT_INTERVAL, ASSIGNMENT_INTERVAL = (
    "share.session.timeout.ms",
    "share.heartbeat.interval.ms",
    "share.assignment.interval.ms",
)
"""Names of group configs."""


class ShareMemberSession(MemberTimer["ShareGroup"]):
    """The session timer of a member."""

    def on_expiration(self, group: ShareGroup, now_ms: int, effects: Effects) -> Steps:
        """Fence the member; its next request returns an error."""
        timeout_ms = config(group, SESSION_TIMEOUT)
        session_expired(group, self.member_id, timeout_ms, effects)
        member = group.members[self.member_id]
        records = yield from removal(group, member)
        write = effects.write(records, retried(group, self))
        write.causes = [cause_of(Trigger.MEMBER_EXPIRED, member, timeout_ms=timeout_ms)]


def renew_session(group: ShareGroup, member_id: str, now_ms: int) -> None:
    """Start or renew a member's session."""
    renew(group, ShareMemberSession, member_id, now_ms + config(group, SESSION_TIMEOUT))


def load_finished(group: ShareGroup, now_ms: int) -> None:
    """Start a full session for every member after loading. Source: onLoaded."""
    group.asked_at_ms = now_ms
    for member_id in group.members:
        renew_session(group, member_id, now_ms)
