"""Why a rebalance began and how it went: one account per rebalance, kept while it runs.

The core only notes who came, who was lost and when; it looks into no assignment. When the
rebalance has ended its account goes out as an effect (`Effects.explain`), and the shell makes a
record of it (`coordinator_server.rebalances`). A rebalance that another one overtakes has an
account of its own. What happens to a group without a rebalance (its coordinator has loaded it, it
ends) is recorded in the same form.
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
    """What can set off a rebalance; the last five change a group without one."""

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
"""Who causes it this way waits in JoinGroup from then on."""

_BY_REJOINING = frozenset({Trigger.METADATA_CHANGED, Trigger.LEADER_REJOINED})
"""No news while all members are asked to rejoin anyhow."""


class RebalanceOutcome(StrEnum):
    """How a rebalance can end. `UNDER_WAY` is that of an account before its end."""

    STABLE = "stable"
    EMPTY = "empty"
    SUPERSEDED = "superseded"
    UNLOADED = "unloaded"
    DEAD = "dead"
    UNDER_WAY = "under way"


class Absence(StrEnum):
    """Why a member was dropped."""

    NOT_REJOINED = "not rejoined"
    NEVER_SYNCED = "never synced"
    SESSION_EXPIRED = "session expired"
    NO_ROOM = "no room"
    ID_NEVER_USED = "member id never used"


class NamedMember(Protocol):
    """A member of a group of any kind, as far as it is named in an account."""

    @property
    def member_id(self) -> str:
        """Its member id."""

    @property
    def group_instance_id(self) -> str | None:
        """Its group instance id, if it is static (KIP-345)."""

    @property
    def client_id(self) -> str:
        """What the client calls itself."""

    @property
    def client_host(self) -> str:
        """Where it connected from, as Kafka prints it."""


class Cause(NamedTuple):
    """A trigger, who pulled it, and the reason the client gave (KIP-800).

    `timeout_ms` is the timeout that was missed, `error` that of an append that failed.
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
    """What would have set off a rebalance, had there not been one already."""

    cause: Cause
    after_ms: int


class Rejoin(NamedTuple):
    """When a member joined, counted from the start of the rebalance."""

    after_ms: int
    group_instance_id: str | None
    client_id: str


class Dropped(NamedTuple):
    """A member that the group went on without; an id that was never used has no client."""

    why: Absence
    member_id: str
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""

    @classmethod
    def of(cls, why: Absence, member: NamedMember) -> Dropped:
        """`member`, as one that was dropped."""
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
    """The cause of a rebalance that `member` set off."""
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
    """The account of one rebalance; times in milliseconds.

    `before` and `after` are the records of the group in the log with the assignments that held and
    hold; None where there is none. `members`, `leader_id` and `protocol_name` are those of the
    generation that the join phase made; a rebalance that ends before has none. The kinds of group
    whose members have epochs have accounts of their own (`modern.account`).
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
        """A member waits in JoinGroup; one that was not waited for is a cause of its own."""
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
        """Members have left, or their sessions have expired, while all were asked to rejoin."""
        after_ms = now_ms - self.started_ms
        for cause in causes:
            self.also.append(LateCause(cause, after_ms))
            self.rejoined.pop(cause.member_id, None)

    def join_phase_ended(
        self, generation: int, members: int, leader_id: str | None, protocol_name: str, now_ms: int
    ) -> None:
        """There is a new generation, whose members now sync."""
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
        """Close the account; `generation` is given where no join phase has made one."""
        self.outcome = outcome
        self.protocol_type = protocol_type
        self.ended_ms = now_ms
        self.after = after
        if generation is not None:
            self.generation = generation
        return self

    def _rejoin(self, cause: Cause, after_ms: int) -> None:
        self.rejoined[cause.member_id] = Rejoin(after_ms, cause.group_instance_id, cause.client_id)
