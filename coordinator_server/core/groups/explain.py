"""Rebalance reports: why a rebalance began and how it went.

The core only records which members joined or were lost, and when; it does not decode assignments.
When a rebalance ends, its report is published as an effect (`Effects.explain`), and
`coordinator_server.rebalances` stores it. A rebalance that is superseded by another has its own
report. Changes of a group without a rebalance (the coordinator loads the group, or the group is
deleted or expires) are recorded in the same form.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from coordinator_server.core.groups.settings import GroupKind

if TYPE_CHECKING:
    from coordinator_server.core.groups.modern.snapshot import GroupSnapshot
    from protocol.offsets_log import GroupMetadataValue


class Trigger(StrEnum):
    """The triggers of rebalances, and of changes without a rebalance (WITHOUT_REBALANCE)."""

    MEMBER_JOINED = "member joined"
    MEMBER_LEFT = "member left"
    MEMBER_EXPIRED = "member expired"
    MEMBER_REPLACED = "static member replaced"
    METADATA_CHANGED = "metadata changed"
    LEADER_REJOINED = "leader rejoined"
    MEMBER_NEVER_SYNCED = "member never synced"
    ASSIGNMENT_NOT_WRITTEN = "assignment not written"
    OVER_CAPACITY = "over capacity after load"
    NEVER_REJOINED = "member never rejoined"
    STALLED = "revocation timed out"
    TOPICS_CHANGED = "topics changed"
    SETTINGS_CHANGED = "settings changed"
    GROUP_UPGRADED = "group upgraded"
    GROUP_DOWNGRADED = "group downgraded"
    COORDINATOR_LOADED = "coordinator loaded"
    DELIVERY_LIMIT = "delivery limit reached"
    RECORDS_REJECTED = "records rejected"
    GROUP_DELETED = "group deleted"
    GROUP_EXPIRED = "group expired"


WITHOUT_REBALANCE = frozenset(
    {
        Trigger.COORDINATOR_LOADED,
        Trigger.DELIVERY_LIMIT,
        Trigger.RECORDS_REJECTED,
        Trigger.GROUP_DELETED,
        Trigger.GROUP_EXPIRED,
    }
)

_BY_JOINING = frozenset(
    {
        Trigger.MEMBER_JOINED,
        Trigger.MEMBER_REPLACED,
        Trigger.METADATA_CHANGED,
        Trigger.LEADER_REJOINED,
    }
)
"""After these triggers the member that caused the rebalance waits in JoinGroup."""

_BY_REJOINING = frozenset({Trigger.METADATA_CHANGED, Trigger.LEADER_REJOINED})
"""Not recorded as a further cause while all members are asked to rejoin."""


class RebalanceOutcome(StrEnum):
    """How a rebalance ended; `UNDER_WAY` marks a report made before the end."""

    STABLE = "stable"
    EMPTY = "empty"
    SUPERSEDED = "superseded"
    UNLOADED = "unloaded"
    DEAD = "dead"
    UNDER_WAY = "under way"


class Absence(StrEnum):
    """Why a member was removed."""

    NOT_REJOINED = "not rejoined"
    NEVER_SYNCED = "never synced"
    SESSION_EXPIRED = "session expired"
    NO_ROOM = "no room"
    ID_NEVER_USED = "member id never used"


class NamedMember(Protocol):
    """The attributes by which a report names a member of a group of any kind."""

    @property
    def member_id(self) -> str:
        """The member id."""

    @property
    def group_instance_id(self) -> str | None:
        """The group instance id, or None for a dynamic member (KIP-345)."""

    @property
    def client_id(self) -> str:
        """The client id."""

    @property
    def client_host(self) -> str:
        """The client host, as Kafka prints it."""


class Cause(NamedTuple):
    """A trigger, the member that caused it, and the reason the client gave (KIP-800).

    `timeout_ms` is the timeout that expired, `error` the error of a failed append.
    """

    trigger: Trigger
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    reason: str = ""
    timeout_ms: int | None = None
    error: str = ""


class LateCause(NamedTuple):
    """A cause that arose while a rebalance was already under way."""

    cause: Cause
    after_ms: int


class Rejoin(NamedTuple):
    """A member's join, `after_ms` milliseconds after the start of the rebalance."""

    after_ms: int
    group_instance_id: str | None
    client_id: str


class Dropped(NamedTuple):
    """A member that was removed, or a member id that was given out but never used.

    An unused id has no client attributes.
    """

    why: Absence
    member_id: str
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""

    @classmethod
    def of(cls, why: Absence, member: NamedMember) -> Dropped:
        """Return the Dropped entry of `member`, with the reason `why`."""
        instance_id = member.group_instance_id
        return cls(why, member.member_id, instance_id, member.client_id, member.client_host)


def caused_by(
    trigger: Trigger,
    member: NamedMember,
    reason: str | None = None,
    *,
    timeout_ms: int | None = None,
    error: str = "",
) -> Cause:
    """Return the cause of a rebalance that `member` set off."""
    return Cause(
        trigger,
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        reason or "",
        timeout_ms,
        error,
    )


class Rebalance:
    """The report of one rebalance; times in milliseconds.

    `before` and `after` are the group's records in the log, with the assignment of that time, or
    None without a record. `members`, `leader_id` and `protocol_name` are set by the end of the join
    phase; a rebalance that ends earlier leaves them unset. Consumer, share and streams groups have
    their own reports (`modern.account`).
    """

    kind = GroupKind.CLASSIC

    __slots__ = (
        "after",
        "also",
        "before",
        "cause",
        "delay_ended_ms",
        "dropped",
        "ended_ms",
        "generation",
        "generation_before",
        "joined_ms",
        "leader_id",
        "members",
        "outcome",
        "protocol_name",
        "protocol_type",
        "rejoined",
        "started_ms",
    )

    def __init__(
        self,
        cause: Cause,
        generation_before: int,
        before: GroupMetadataValue | GroupSnapshot | None,
        now_ms: int,
    ) -> None:
        self.cause = cause
        self.generation_before = self.generation = generation_before
        self.before = before
        self.after: GroupMetadataValue | GroupSnapshot | None = None
        self.started_ms = self.ended_ms = now_ms
        self.delay_ended_ms: int | None = None
        self.joined_ms: int | None = None
        self.also: list[LateCause] = []
        self.rejoined: dict[str, Rejoin] = {}
        self.dropped: list[Dropped] = []
        self.members = 0
        self.leader_id: str | None = None
        self.protocol_name: str | None = None
        self.protocol_type: str | None = None
        self.outcome = RebalanceOutcome.STABLE
        if cause.trigger in _BY_JOINING:
            self._rejoin(cause, 0)

    def member_joined(self, cause: Cause, now_ms: int) -> None:
        """Record a member that waits in JoinGroup.

        A join that is not a mere rejoin is also recorded as a further cause of the rebalance.
        """
        after_ms = now_ms - self.started_ms
        if cause.trigger not in _BY_REJOINING:
            self.also.append(LateCause(cause, after_ms))
        if cause.trigger is Trigger.MEMBER_REPLACED:
            former = [
                member_id
                for member_id, rejoin in self.rejoined.items()
                if rejoin.group_instance_id == cause.group_instance_id
            ]
            for member_id in former:
                del self.rejoined[member_id]
        self._rejoin(cause, after_ms)

    def members_lost(self, causes: Sequence[Cause], now_ms: int) -> None:
        """Record members that left or expired while all members were asked to rejoin."""
        after_ms = now_ms - self.started_ms
        for cause in causes:
            self.also.append(LateCause(cause, after_ms))
            self.rejoined.pop(cause.member_id, None)

    def join_phase_ended(
        self, generation: int, members: int, leader_id: str | None, protocol_name: str, now_ms: int
    ) -> None:
        """Record the new generation, whose members now send SyncGroup."""
        self.generation = generation
        self.members = members
        self.leader_id = leader_id
        self.protocol_name = protocol_name
        self.joined_ms = now_ms

    def end(
        self,
        outcome: RebalanceOutcome,
        protocol_type: str | None,
        now_ms: int,
        *,
        generation: int | None = None,
        after: GroupMetadataValue | GroupSnapshot | None = None,
    ) -> Rebalance:
        """Close the report; pass `generation` if no join phase completed."""
        self.outcome = outcome
        self.protocol_type = protocol_type
        self.ended_ms = now_ms
        self.after = after
        if generation is not None:
            self.generation = generation
        return self

    def _rejoin(self, cause: Cause, after_ms: int) -> None:
        self.rejoined[cause.member_id] = Rejoin(after_ms, cause.group_instance_id, cause.client_id)
