"""Why a rebalance began and how it went: one structured record per rebalance.

Kept while the rebalance runs and handed out as the fields of the event that ends it
(`group.stabilized` or `group.emptied`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from coordinator_server.group.member import MemberMetadata


class Trigger(StrEnum):
    """What can set off a rebalance."""

    MEMBER_JOINED = "member joined"
    MEMBER_LEFT = "member left"
    MEMBER_EXPIRED = "member expired"
    MEMBER_REPLACED = "static member replaced"
    METADATA_CHANGED = "metadata changed"
    LEADER_REJOINED = "leader rejoined"
    MEMBER_NEVER_SYNCED = "member never synced"
    ASSIGNMENT_NOT_WRITTEN = "assignment not written"
    OVER_CAPACITY = "over capacity after load"


class Cause(NamedTuple):
    """The trigger of a rebalance, who caused it, and the reason the client gave (KIP-800)."""

    trigger: Trigger
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    reason: str = ""


def caused_by(trigger: Trigger, member: MemberMetadata, reason: str | None = None) -> Cause:
    """The cause of a rebalance that `member` set off."""
    return Cause(
        trigger,
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        reason or "",
    )


class Rebalance:
    """One rebalance in the making; times in milliseconds."""

    __slots__ = (
        "cause",
        "dropped",
        "generation_before",
        "joined_ms",
        "members_before",
        "started_ms",
    )

    def __init__(
        self, cause: Cause, generation_before: int, members_before: int, now_ms: int
    ) -> None:
        self.cause = cause
        self.generation_before = generation_before
        self.members_before = members_before
        self.started_ms = now_ms
        self.joined_ms: int | None = None
        self.dropped: list[str] = []

    def fields(self, generation: int, members: int, now_ms: int) -> dict[str, object]:
        """The finished record: cause, generations, members and the time spent in each phase."""
        joined_ms = now_ms if self.joined_ms is None else self.joined_ms
        cause = self.cause
        return {
            "trigger": cause.trigger.value,
            "member": cause.member_id,
            "instance": cause.group_instance_id,
            "client_id": cause.client_id,
            "client_host": cause.client_host,
            "reason": cause.reason,
            "generation_before": self.generation_before,
            "generation": generation,
            "members_before": self.members_before,
            "members": members,
            "dropped": tuple(self.dropped),
            "join_phase_ms": joined_ms - self.started_ms,
            "sync_phase_ms": now_ms - joined_ms,
        }
