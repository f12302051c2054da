"""Members that have epochs, as far as all kinds of groups treat them alike.

Which member a request comes from, whether its epoch is right, what it is told if not, and how the
plan of a heartbeat is carried out. Source: GroupMetadataManager's getOrMaybeSubscribe... and
throwIf... methods, and the ends of its heartbeats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from coordinator_server.core.groups.modern.refusal import RefusedError
from protocol.coordinator_errors import client_error
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.core.groups.effects import Effects, Reply, Write
    from coordinator_server.core.groups.modern.modern_group import ModernGroup
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.core.groups.settings import GroupKind
    from coordinator_server.steps import Computation

JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVING_EPOCH = 0, -1, -2
"""The member epoch of who joins, leaves, and leaves for a while (a static member)."""

A = TypeVar("A")


class Heartbeat(Protocol):
    """A request of a member."""

    group_id: str
    member_epoch: int


class HeartbeatPlan(Protocol):
    """What a heartbeat comes to: records, which are written first, and what follows from them."""

    @property
    def records(self) -> list[CoordinatorRecord]:
        """The records to write."""


P = TypeVar("P", bound=HeartbeatPlan)


# --- without a group ------------------------------------------------------------------------------


def creates_group(request: Heartbeat) -> bool:
    """Whether the member joins."""
    return request.member_epoch == JOINING_EPOCH


def no_group(request: Heartbeat, kind: GroupKind) -> str:
    """Kafka's text on a group that is not there: only who joins makes one."""
    is_leaving = request.member_epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH)
    name = "Group" if is_leaving else f"{kind.value.capitalize()} group"
    return f"{name} {request.group_id} not found."


def other_kind(group_id: str, kind: GroupKind) -> str:
    """Kafka's text on a group that is not of the kind that was asked for."""
    return f"Group {group_id} is not a {kind.value} group."


# --- which member it is ---------------------------------------------------------------------------


def check_size(group: ModernGroup, limit: int, member_id: str, instance_id: str | None) -> None:
    """Raise RefusedError if the group is full and has neither the member nor its instance id."""
    is_known = member_id in group.members or instance_id in group.static_ids
    if len(group.members) >= limit and not is_known:
        kind = group.kind.value
        message = f"The {kind} group has reached its maximum capacity of {limit} members."
        raise RefusedError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def known_member(group: ModernGroup, member_id: str) -> Any:
    """Return the member of this id. Raises RefusedError."""
    member = group.members.get(member_id)
    if member is None:
        message = f"Member {member_id} is not a member of group {group.group_id}."
        raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, message)
    return member


def static_member(group: ModernGroup, member_id: str, instance_id: str) -> Any:
    """Return the member of an instance id, which has to be the caller. Raises RefusedError."""
    owner_id = group.static_ids.get(instance_id)
    if owner_id is None:
        raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if owner_id != member_id:
        message = (
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{owner_id}."
        )
        raise RefusedError(ErrorCode.FENCED_INSTANCE_ID, message)
    return known_member(group, member_id)


def caller(group: ModernGroup, member_id: str, instance_id: str | None) -> Any:
    """Return the member that a request which does not join comes from. Raises RefusedError."""
    if instance_id is None:
        return known_member(group, member_id)
    return static_member(group, member_id, instance_id)


def refuse_unreleased(member_id: str, instance_id: str | None, owner_id: str) -> NoReturn:
    """Refuse a static member that joins while the owner of its instance id has not left."""
    message = (
        f"Static member {member_id} with instance id {instance_id} cannot join the group because "
        f"the instance id is owned by {owner_id} member."
    )
    raise RefusedError(ErrorCode.UNRELEASED_INSTANCE_ID, message)


def check_epoch(
    group: ModernGroup, received: int, epoch: int, *, is_lost_answer: bool, note: str = ""
) -> None:
    """Raise RefusedError unless a member says its epoch.

    `is_lost_answer` says that it says the one before, and cannot have got the answer that told it
    the new one. `note` stands behind an epoch that is too small.
    """
    is_larger = received > epoch
    if received == epoch or (is_lost_answer and not is_larger):
        return
    message = (
        f"The {group.kind.value} group member has a {'greater' if is_larger else 'smaller'} member "
        f"epoch ({received}) than the one known by the group coordinator ({epoch})"
        f"{'' if is_larger else note}. The member must abandon all its partitions and rejoin."
    )
    raise RefusedError(ErrorCode.FENCED_MEMBER_EPOCH, message)


# --- heartbeats -----------------------------------------------------------------------------------


def serve_heartbeat(
    group: ModernGroup,
    planning: Computation[P],
    reply: Reply[A],
    refuse: Callable[[ErrorCode, str | None], A],
    finish: Callable[[Any, P, int, Effects], A],
    now_ms: int,
    effects: Effects,
) -> Computation[Write | None]:
    """Plan a heartbeat, write its records, and answer; returns the write, if there is one.

    `finish(group, plan, now_ms, effects)` is called once the records are written: it sets the
    timers, and returns the answer. `refuse(error, message)` makes the answer if it fails.
    """
    try:
        plan = yield from planning
    except RefusedError as refused:
        effects.reply(reply, refuse(refused.error, refused.message))
        return None

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if error is not ErrorCode.NONE:
            effects.reply(reply, refuse(client_error(error), None))
        else:
            effects.reply(reply, finish(effects.group, plan, now_ms, effects))

    if plan.records:
        return effects.write(plan.records, done)
    effects.reply(reply, finish(group, plan, now_ms, effects))
    return None
