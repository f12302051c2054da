"""The timers of a streams group: sessions, revocations, and the first assignment.

The broker sets the session timeout; the time for revocations is the member's rebalance timeout. The
first assignment of an empty group waits for more members. Source:
scheduleStreamsGroupSessionTimeout, scheduleStreamsGroupRebalanceTimeout and
computeDelayedTargetAssignment of GroupMetadataManager.
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
    revocation_expired,
    session_expired,
)
from coordinator_server.core.groups.purgatory import DelayedOperation
from coordinator_server.core.groups.streams.configs import SESSION_TIMEOUT
from coordinator_server.core.groups.streams.state import StreamsMemberState
from coordinator_server.core.groups.streams.target import first_target

if TYPE_CHECKING:
    from coordinator_server.core.groups.effects import Effects
    from coordinator_server.core.groups.streams.streams_group import StreamsGroup
    from coordinator_server.steps import Steps


class StreamsSession(MemberTimer["StreamsGroup"]):
    """The session timer of a member."""

    def on_expiration(self, group: StreamsGroup, now_ms: int, effects: Effects) -> None:
        """Fence the member; its next request returns an error."""
        timeout_ms = config(group, SESSION_TIMEOUT)
        session_expired(group, self.member_id, timeout_ms, effects)
        _fence(group, self, Trigger.MEMBER_EXPIRED, timeout_ms, effects)


class TaskRevocation(MemberTimer["StreamsGroup"]):
    """Fences a member that does not revoke its tasks in time."""

    def on_expiration(self, group: StreamsGroup, now_ms: int, effects: Effects) -> None:
        """Fence the member."""
        timeout_ms = group.members[self.member_id].rebalance_timeout_ms
        revocation_expired(group, self.member_id, timeout_ms, effects)
        _fence(group, self, Trigger.STALLED, timeout_ms, effects)


def _fence(
    group: StreamsGroup,
    timer: MemberTimer[StreamsGroup],
    trigger: Trigger,
    timeout_ms: int,
    effects: Effects,
) -> None:
    member = group.members[timer.member_id]
    write = effects.write(group.removal(timer.member_id), retried(group, timer))
    write.causes = [cause_of(trigger, member, timeout_ms=timeout_ms)]


class DelayedAssignment(DelayedOperation["StreamsGroup"]):
    """Computes the first assignment after the initial rebalance delay."""

    def on_expiration(self, group: StreamsGroup, now_ms: int, effects: Effects) -> Steps:
        """Compute the assignment, unless the group is empty or its topics are not yet checked."""
        return first_target(group, now_ms, effects)


def renew_session(group: StreamsGroup, member_id: str, now_ms: int) -> None:
    """Start or renew a member's session."""
    renew(group, StreamsSession, member_id, now_ms + config(group, SESSION_TIMEOUT))


def watch_revocation(group: StreamsGroup, member_id: str, now_ms: int) -> None:
    """Restart the revocation timer after a member's current tasks have changed.

    The timer runs only while the member has tasks to revoke.
    """
    if member_id in group.revocations:
        group.purgatory.cancel(group.revocations.pop(member_id))
    if group.current(member_id).state is not StreamsMemberState.UNREVOKED_TASKS:
        return
    revocation = group.revocations[member_id] = TaskRevocation(member_id)
    timeout_ms = group.members[member_id].rebalance_timeout_ms
    group.purgatory.schedule(revocation, now_ms + timeout_ms)


def delay_first_assignment(group: StreamsGroup, delay_ms: int, now_ms: int) -> None:
    """Start the initial rebalance delay."""
    if group.first_assignment is None:
        group.first_assignment = DelayedAssignment()
    group.purgatory.schedule(group.first_assignment, now_ms + delay_ms)


def load_finished(group: StreamsGroup, now_ms: int) -> None:
    """Start a full session for every member after loading. Source: onLoaded."""
    for member_id in group.members:
        renew_session(group, member_id, now_ms)
        watch_revocation(group, member_id, now_ms)
