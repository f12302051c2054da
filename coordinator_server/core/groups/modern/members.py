"""Members with epochs: checks that all kinds of groups share.

The functions look up the member of a request, check its epoch, build the error messages, and carry
out the plan of a heartbeat. Source: GroupMetadataManager's getOrMaybeSubscribe... and throwIf...
methods, and the ends of its heartbeats.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar

from coordinator_server.core.groups.effects import STEP_ITEMS, Pace
from protocol.coordinator_errors import client_error
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.effects import Effects, Reply, Write
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.modern.modern_group import ModernGroup
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.core.groups.settings import GroupKind
    from coordinator_server.steps import Computation


def is_blank(text: str) -> bool:
    """Return whether Java's trim() leaves an empty string.

    trim() removes characters up to and including the space, but no other white space. Source:
    Utils.throwIfEmptyString.
    """
    return all(character <= " " for character in text)


class RefusedError(Exception):
    """Refuses a heartbeat: the response has `error` and `message`, no record is written."""

    def __init__(self, error: ErrorCode, message: str | None) -> None:
        super().__init__(error, message)
        self.error = error
        self.message = message


JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVING_EPOCH = 0, -1, -2
"""The member epochs of a member that joins, leaves, or (static members) leaves temporarily."""

A = TypeVar("A")


class Heartbeat(Protocol):
    """A heartbeat request."""

    group_id: str
    member_epoch: int


class HeartbeatPlan(Protocol):
    """The outcome of a heartbeat: records, which are written first, and follow-up actions."""

    @property
    def records(self) -> list[CoordinatorRecord]:
        """The records to write."""


P = TypeVar("P", bound=HeartbeatPlan)
G = TypeVar("G")
Q = TypeVar("Q", bound=Heartbeat)


# --- checks of the request ------------------------------------------------------------------------


def creates_group(request: Heartbeat) -> bool:
    """Return whether the heartbeat joins, and so creates a missing group."""
    return request.member_epoch == JOINING_EPOCH


def no_group(request: Heartbeat, kind: GroupKind) -> str:
    """Return Kafka's message for a missing group; only joining members create groups."""
    is_leaving = request.member_epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH)
    name = "Group" if is_leaving else f"{kind.value.capitalize()} group"
    return f"{name} {request.group_id} not found."


def other_kind(group_id: str, kind: GroupKind) -> str:
    """Return Kafka's message for a group that is not of the requested kind."""
    return f"Group {group_id} is not a {kind.value} group."


# --- member look-up -------------------------------------------------------------------------------


def check_size(group: ModernGroup, limit: int, member_id: str, instance_id: str | None) -> None:
    """Raise RefusedError if the group is full and knows neither the member nor its instance id."""
    is_known = member_id in group.members or instance_id in group.static_ids
    if len(group.members) >= limit and not is_known:
        kind = group.kind.value
        message = f"The {kind} group has reached its maximum capacity of {limit} members."
        raise RefusedError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def known_member(group: ModernGroup, member_id: str) -> Any:
    """Return the member with this id. Raises RefusedError if the id is unknown."""
    member = group.members.get(member_id)
    if member is None:
        message = f"Member {member_id} is not a member of group {group.group_id}."
        raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, message)
    return member


def static_member(group: ModernGroup, member_id: str, instance_id: str) -> Any:
    """Return the static member with an instance id.

    Raises RefusedError if the instance id is unknown or belongs to another member id.
    """
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
    """Return the member that sent a request, for requests that do not join.

    Raises RefusedError if the member is unknown or fenced.
    """
    if instance_id is None:
        return known_member(group, member_id)
    return static_member(group, member_id, instance_id)


def refuse_unreleased(member_id: str, instance_id: str | None, owner_id: str) -> NoReturn:
    """Raise RefusedError for a static member whose instance id has an owner that has not left."""
    message = (
        f"Static member {member_id} with instance id {instance_id} cannot join the group because "
        f"the instance id is owned by {owner_id} member."
    )
    raise RefusedError(ErrorCode.UNRELEASED_INSTANCE_ID, message)


def check_epoch(
    group: ModernGroup, received: int, epoch: int, *, is_lost_answer: bool, note: str = ""
) -> None:
    """Raise RefusedError unless a member sends its current epoch.

    With `is_lost_answer`, a smaller epoch is accepted too: the caller has verified that the member
    sent its previous epoch, because the response with the new epoch was lost. `note` is appended to
    the message for a smaller epoch.
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


class HeartbeatComputation(Generic[G, Q]):
    """Computes the plan of a heartbeat that does not leave.

    The records of the plan follow `records`, which create the group.
    """

    def __init__(
        self, group: G, records: list[CoordinatorRecord], request: Q, caller: Caller, now_ms: int
    ) -> None:
        self._group = group
        self._records = records
        self._request = request
        self._caller = caller
        self._now_ms = now_ms
        self._is_joining = request.member_epoch == JOINING_EPOCH


def serve_heartbeat(
    group: ModernGroup,
    planning: Computation[P],
    reply: Reply[A],
    refuse: Callable[[ErrorCode, str | None], A],
    finish: Callable[[Any, P, int, Effects], A],
    now_ms: int,
    effects: Effects,
) -> Computation[Write | None]:
    """Plan a heartbeat, write its records and reply; return the write, or None without records.

    `finish(group, plan, now_ms, effects)` is called after the records are written: it sets timers
    and returns the response. `refuse(error, message)` builds the response if the heartbeat fails.
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


def topic_names(group: Group, names: Sequence[str]) -> Computation[tuple[str, ...]]:
    """Return the sorted, distinct topic names that a member subscribes to.

    Raises RefusedError if the names exceed the largest record, with the same error as when the log
    refuses the record: such a subscription would take too long to process.
    """
    if len(names) <= STEP_ITEMS:
        return tuple(sorted(set(names)))
    left_bytes = group.environment.largest_write_bytes()
    existing: set[str] = set()
    runs: deque[list[str]] = deque()
    for start in range(0, len(names), STEP_ITEMS):
        new = set(names[start : start + STEP_ITEMS]) - existing
        left_bytes -= sum(map(len, new)) + len(new)
        if left_bytes < 0:
            error = client_error(ErrorCode.MESSAGE_TOO_LARGE)
            raise RefusedError(error, "The member subscribes to too many topics.")
        existing |= new
        runs.append(sorted(new))
        yield
    pace = Pace()
    while len(runs) > 1:
        run = runs.popleft()
        run += runs.popleft()
        run.sort()  # fast: sort() merges two sorted runs in linear time
        runs.append(run)
        if pace.is_due(len(run)):
            yield
    return tuple(runs[0])
