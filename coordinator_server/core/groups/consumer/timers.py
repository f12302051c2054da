"""The timers of a consumer group: sessions, revocations, and regular expressions.

The broker sets the session timeout; the time for revocations is the member's rebalance timeout.
Source: scheduleConsumerGroupSessionTimeout and scheduleConsumerGroupRebalanceTimeout of
GroupMetadataManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.groups.consumer.consumer_group import ConsumerGroup
from coordinator_server.core.groups.consumer.leaving import fence
from coordinator_server.core.groups.consumer.member import MemberState
from coordinator_server.core.groups.consumer.subscriptions import resolve_expressions
from coordinator_server.core.groups.explain import Absence, Trigger
from coordinator_server.core.groups.modern.modern_group import config
from coordinator_server.core.groups.modern.timers import (
    MemberTimer,
    revocation_expired,
    session_expired,
)
from coordinator_server.core.groups.purgatory import DelayedOperation

if TYPE_CHECKING:
    from coordinator_server.core.caller import MayDescribe
    from coordinator_server.core.groups.consumer.consumer_group import ConsumerGroup
    from coordinator_server.core.groups.effects import Effects
    from coordinator_server.steps import Steps

SESSION_TIMEOUT, HEARTBEAT_INTERVAL, ASSIGNMENT_INTERVAL = (
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.assignment.interval.ms",
)
"""Names of group configs."""

_TRIGGERS = {
    Absence.NOT_REJOINED: Trigger.NEVER_REJOINED,
    Absence.NEVER_SYNCED: Trigger.MEMBER_NEVER_SYNCED,
}


class ConsumerSession(MemberTimer["ConsumerGroup"]):
    """The session timer of a member."""

    __slots__ = ("timeout_ms",)

    def __init__(self, member_id: str) -> None:
        super().__init__(member_id)
        self.timeout_ms = 0

    def on_expiration(self, group: ConsumerGroup, now_ms: int, effects: Effects) -> Steps:
        """Fence the member."""
        session_expired(group, self.member_id, self.timeout_ms, effects)
        return fence(
            group, self.member_id, self, Trigger.MEMBER_EXPIRED, self.timeout_ms, now_ms, effects
        )


class PartitionRevocation(MemberTimer["ConsumerGroup"]):
    """Fences a member that has not revoked its partitions in time, if it is still at `epoch`."""

    __slots__ = ("epoch",)

    def __init__(self, member_id: str, epoch: int) -> None:
        super().__init__(member_id)
        self.epoch = epoch

    def on_expiration(self, group: ConsumerGroup, now_ms: int, effects: Effects) -> Steps | None:
        """Fence the member, unless its epoch has changed."""
        if group.current(self.member_id).epoch != self.epoch:
            return None
        timeout_ms = group.members[self.member_id].rebalance_timeout_ms
        revocation_expired(group, self.member_id, timeout_ms, effects)
        return fence(group, self.member_id, self, Trigger.STALLED, timeout_ms, now_ms, effects)


class DelayedAbsence(MemberTimer["ConsumerGroup"]):
    """Fences a classic member that does not rejoin or sync within its rebalance timeout."""

    __slots__ = ("why",)

    def __init__(self, member_id: str, why: Absence) -> None:
        super().__init__(member_id)
        self.why = why

    def on_expiration(self, group: ConsumerGroup, now_ms: int, effects: Effects) -> Steps:
        """Fence the member, even if it has switched to the consumer protocol."""
        effects.event(
            "member.dropped", group=group.group_id, member=self.member_id, reason=self.why.value
        )
        timeout_ms = group.members[self.member_id].rebalance_timeout_ms
        return fence(group, self.member_id, self, _TRIGGERS[self.why], timeout_ms, now_ms, effects)


class DelayedResolution(DelayedOperation["ConsumerGroup"]):
    """Resolves the regular expressions of members, right after a heartbeat that needs them."""

    def on_expiration(self, group: ConsumerGroup, now_ms: int, effects: Effects) -> Steps:
        """Resolve the expressions; a change of the matching topics raises the group epoch."""
        return resolve_expressions(group, now_ms, effects)


def renew_session(
    group: ConsumerGroup, member_id: str, now_ms: int, timeout_ms: int | None = None
) -> None:
    """Start or renew a member's session; `timeout_ms` overrides the broker's session timeout."""
    session = group.sessions.get(member_id)
    if not isinstance(session, ConsumerSession):
        session = group.sessions[member_id] = ConsumerSession(member_id)
    if timeout_ms is None:
        timeout_ms = config(group, SESSION_TIMEOUT)
    session.timeout_ms = timeout_ms
    group.purgatory.schedule(session, now_ms + timeout_ms)


def await_rejoin(group: ConsumerGroup, member_id: str, now_ms: int) -> None:
    """Start the rejoin timer of a classic-protocol member, unless the timer is running."""
    rejoin = group.rejoins.get(member_id)
    if rejoin is None:
        rejoin = group.rejoins[member_id] = DelayedAbsence(member_id, Absence.NOT_REJOINED)
    if rejoin.deadline_ms is None:
        timeout_ms = group.members[member_id].rebalance_timeout_ms
        group.purgatory.schedule(rejoin, now_ms + timeout_ms)


def await_sync(group: ConsumerGroup, member_id: str, now_ms: int, timeout_ms: int) -> None:
    """Start the sync timer of a classic-protocol member that has joined."""
    rejoin = group.rejoins.get(member_id)
    if rejoin is not None:
        group.purgatory.cancel(rejoin)
    sync = group.syncs.get(member_id)
    if sync is None:
        sync = group.syncs[member_id] = DelayedAbsence(member_id, Absence.NEVER_SYNCED)
    group.purgatory.schedule(sync, now_ms + timeout_ms)


def has_synced(group: ConsumerGroup, member_id: str) -> None:
    """Cancel the sync timer of a classic-protocol member that has its assignment."""
    sync = group.syncs.get(member_id)
    if sync is not None:
        group.purgatory.cancel(sync)


def watch_revocation(group: ConsumerGroup, member_id: str, now_ms: int) -> None:
    """Restart the revocation timer after a member's current assignment has changed.

    The timer runs only while the member has partitions to revoke.
    """
    current = group.current(member_id)
    if member_id in group.revocations:
        group.purgatory.cancel(group.revocations.pop(member_id))
    if current.state is not MemberState.UNREVOKED_PARTITIONS:
        return
    revocation = group.revocations[member_id] = PartitionRevocation(member_id, current.epoch)
    timeout_ms = group.members[member_id].rebalance_timeout_ms
    group.purgatory.schedule(revocation, now_ms + timeout_ms)


def resolve_soon(group: ConsumerGroup, may_describe: MayDescribe | None, now_ms: int) -> None:
    """Schedule the resolution of expressions, with the describe permissions of a member."""
    if group.resolution is None:
        group.resolution = DelayedResolution()
    group.may_describe = may_describe
    group.purgatory.schedule(group.resolution, now_ms)


def load_finished(group: ConsumerGroup, now_ms: int, effects: Effects) -> None:
    """Start a full session for every member after loading. Source: onLoaded."""
    for member_id in group.members:
        renew_session(group, member_id, now_ms)
        watch_revocation(group, member_id, now_ms)
