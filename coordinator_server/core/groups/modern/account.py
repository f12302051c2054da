"""EpochChange: reports why a group epoch rose and how members reached the target assignment.

A report covers one target assignment. The report begins when the group epoch rises, and ends when
all members have reached the target, when no member is left, or when the next target supersedes it.
If the epoch rises again before the target is computed, the same report continues. Reports are
derived by comparing the group before and after each write (`before_write`, `after_write`). The code
of requests and timers only states why a member was removed (`Write.causes`).
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.core.groups.explain import (
    Cause,
    LateCause,
    Rebalance,
    RebalanceOutcome,
    Rejoin,
    Trigger,
)
from coordinator_server.core.groups.modern.snapshot import (
    GroupSnapshot,
    held,
    instance_id,
    pairs,
    sides,
    subscription,
    wanted,
)
from coordinator_server.core.groups.records import kind_of
from coordinator_server.core.groups.settings import GroupKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from coordinator_server.core.groups.effects import Effects
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.modern.snapshot import DescribableGroup, Indexes, Partition
    from coordinator_server.core.groups.records import CoordinatorRecord

    OwnerOf = Callable[[Partition], str | None]

UNREVOKED, UNRELEASED = "UNREVOKED", "UNRELEASED"
"""Prefixes of the names of member states: the member has to revoke partitions, or waits for other
members to release some. The kinds number these states differently; share groups have neither."""


class Wait:
    """A member's wait for target partitions: start and end in ms, and the partitions' holders."""

    __slots__ = ("ended_ms", "holders", "since_ms")

    def __init__(self, now_ms: int) -> None:
        self.since_ms = now_ms
        self.ended_ms: int | None = None
        self.holders: dict[str, Indexes] = {}

    def lasted_ms(self, now_ms: int) -> int:
        """Return the duration in ms, up to `now_ms` if the wait has not ended."""
        return (now_ms if self.ended_ms is None else self.ended_ms) - self.since_ms


class EpochChange(Rebalance):
    """The report of one target assignment of a group whose members have epochs.

    `generation` is the group epoch. `rejoined` are the members that have reached the target,
    `pending` the members that have not. `revocations` and `waits` are by member id; a revocation
    does not record which members wait for the partitions.
    """

    __slots__ = ("assigned_ms", "environment", "kind", "pending", "revocations", "waits")

    before: GroupSnapshot | None
    after: GroupSnapshot | None

    def __init__(
        self,
        group: DescribableGroup,
        cause: Cause,
        epoch_before: int,
        before: GroupSnapshot,
        now_ms: int,
    ) -> None:
        super().__init__(cause, epoch_before, None, now_ms)
        self.rejoined.clear()
        self.kind = group.kind
        self.environment = group.environment
        self.before = before
        self.generation = group.epoch
        self.assigned_ms: int | None = None
        self.pending: set[str] = set()
        self.revocations: dict[str, Wait] = {}
        self.waits: dict[str, Wait] = {}

    def overtake(self, last: EpochChange, members: Mapping[str, object]) -> None:
        """Carry unfinished revocations and waits over from the superseded report."""
        for mine, theirs in ((self.revocations, last.revocations), (self.waits, last.waits)):
            for member_id, wait in theirs.items():
                if wait.ended_ms is None and member_id in members:
                    mine[member_id] = Wait(wait.since_ms)
                    mine[member_id].holders.update(wait.holders)

    def follow(self, group: DescribableGroup, touched: Mapping[str, object], now_ms: int) -> None:
        """Record the progress of the touched members, or of all members if the target is new."""
        members: Iterable[str] = touched.keys() & group.members.keys()
        if self.assigned_ms is None and group.assignment_epoch >= self.generation:
            self.assigned_ms = now_ms
            members = group.members.keys()
        gone = (self.revocations.keys() | self.waits.keys()) - group.members.keys()
        for member_id in gone:
            self._wait(self.revocations, member_id, now_ms, is_waiting=False)
            self._wait(self.waits, member_id, now_ms, is_waiting=False)
        owner: OwnerOf | None = None
        for member_id in members:
            state = getattr(getattr(group.currents.get(member_id), "state", None), "name", "")
            is_revoking, is_waiting = state.startswith(UNREVOKED), state.startswith(UNRELEASED)
            self._wait(self.revocations, member_id, now_ms, is_waiting=is_revoking)
            wait = self._wait(self.waits, member_id, now_ms, is_waiting=is_waiting)
            if wait is not None:
                owner = owner or owner_of(group)
                for holder, partitions in holders(group, member_id, owner).items():
                    wait.holders.setdefault(holder, partitions)
            if self.assigned_ms is not None:
                self._arrive(group, member_id, now_ms)

    def _wait(
        self, waits: dict[str, Wait], member_id: str, now_ms: int, *, is_waiting: bool
    ) -> Wait | None:
        wait = waits.get(member_id)
        if is_waiting:
            if wait is None:
                wait = waits[member_id] = Wait(now_ms)
            wait.ended_ms = None
            return wait
        if wait is not None and wait.ended_ms is None:
            wait.ended_ms = now_ms
        return None

    def _arrive(self, group: DescribableGroup, member_id: str, now_ms: int) -> None:
        if not has_reached(group, member_id):
            self.pending.add(member_id)
            self.rejoined.pop(member_id, None)
            return
        self.pending.discard(member_id)
        member = group.members[member_id]
        arrival = Rejoin(now_ms - self.started_ms, instance_id(member), member.client_id)
        self.rejoined.setdefault(member_id, arrival)

    def so_far(self, group: DescribableGroup, now_ms: int) -> EpochChange:
        """Return a copy of the report as of `now_ms`, with the outcome UNDER_WAY."""
        return copy(self).close(RebalanceOutcome.UNDER_WAY, GroupSnapshot(group), now_ms)

    def close(
        self, outcome: RebalanceOutcome, after: GroupSnapshot | None, now_ms: int
    ) -> EpochChange:
        """Close the report with `after`, the group's state at the end, and return the report."""
        self.end(outcome, None, now_ms)
        self.after = after
        return self


def has_reached(group: DescribableGroup, member_id: str) -> bool:
    """Return whether a member has reached the target assignment."""
    current = group.currents.get(member_id)
    if current is None:
        return False
    if group.kind is GroupKind.SHARE:
        return bool(current.epoch == group.assignment_epoch)
    return bool(current.is_reconciled_to(group.assignment_epoch))


def holders(group: Any, member_id: str, owner: OwnerOf) -> dict[str, Indexes]:
    """Return the partitions of a member's target that other members hold, by holder."""
    kind = group.kind
    assigned, revoking = sides(kind, group.currents.get(member_id))
    by_holder: dict[str, dict[Any, list[int]]] = {}
    for topic, index in pairs(wanted(kind, group.targets.get(member_id))):
        if index not in assigned.get(topic, ()) and index not in revoking.get(topic, ()):
            holder = owner((topic, index))
            if holder is not None:
                by_holder.setdefault(holder, {}).setdefault(topic, []).append(index)
    return dict(by_holder)


def owner_of(group: Any) -> OwnerOf:
    """Return a function that looks up the member that holds a partition."""
    if group.kind is GroupKind.CONSUMER:
        return lambda partition: group.owners.get(partition[0], {}).get(partition[1])
    owners = {
        partition: member_id
        for member_id, current in group.currents.items()
        for partition in held(group.kind, current)
    }
    return owners.get


# --- reports that written records begin, continue or close --------------------------------------


class Before(NamedTuple):
    """The state of a group before a write.

    `touched` has the members that the records will change, as they were before the write.
    `snapshot` is None if the write cannot raise the epoch or the group was a classic group.
    """

    group: Any
    epoch: int
    metadata_hash: int
    touched: dict[str, Any]
    snapshot: GroupSnapshot | None


def before_write(group: Group, records: Sequence[CoordinatorRecord]) -> Before | None:
    """Return the group's state before `records` are replayed, for the comparison in `after_write`.

    Returns None if the records are offsets, or belong only to the classic protocol.
    """
    modern: Any = group
    is_classic = group.kind is GroupKind.CLASSIC
    if not records or (is_classic and kind_of(records[-1][0]) is GroupKind.CLASSIC):
        return None
    if is_classic:
        touched = dict.fromkeys(_member_ids(records))
        return Before(modern, modern.generation_id, 0, touched, None)
    members = modern.members
    touched = {member_id: members.get(member_id) for member_id in _member_ids(records)}
    may_rise = len(records) > 1 or hasattr(records[0][1], "epoch")
    snapshot = GroupSnapshot(modern) if may_rise else None
    return Before(modern, modern.epoch, modern.metadata_hash, touched, snapshot)


def _member_ids(records: Sequence[CoordinatorRecord]) -> list[str]:
    return [key.member_id for key, _ in records if hasattr(key, "member_id")]


def after_write(
    before: Before,
    group: Group,
    causes: Sequence[Cause],
    now_ms: int,
    effects: Effects,
) -> None:
    """Begin, continue or end a group's report after its records were replayed."""
    account = before.group.rebalance
    # An upgraded group still has the report of a classic rebalance: close this report.
    if account is not None and not isinstance(account, EpochChange):
        last = account.end(RebalanceOutcome.SUPERSEDED, before.group.protocol_type, now_ms)
        effects.explain(last)
        before.group.rebalance = account = None
    if group.kind is GroupKind.CLASSIC:
        if account is not None:
            effects.explain(account.close(RebalanceOutcome.SUPERSEDED, before.snapshot, now_ms))
            before.group.rebalance = None
        return
    modern: Any = group
    if group is not before.group or before.snapshot is not None:
        account = _risen(before, modern, causes, account, now_ms, effects)
        group.rebalance = account
    if account is not None:
        account.follow(modern, before.touched, now_ms)
        _end_if_reached(modern, account, now_ms, effects)


def _risen(
    before: Before,
    group: Any,
    causes: Sequence[Cause],
    account: EpochChange | None,
    now_ms: int,
    effects: Effects,
) -> EpochChange | None:
    """Return the report after a write that may have raised the epoch."""
    is_new = group is not before.group
    causes = causes or _causes(before, group, is_new=is_new)
    is_replaced = causes[0].trigger is Trigger.MEMBER_REPLACED
    if not is_new and group.epoch == before.epoch and not is_replaced:
        return account
    snapshot = before.snapshot
    # The group was upgraded from a classic group, whose members keep their assignments.
    if snapshot is None:
        snapshot = GroupSnapshot(group).without(
            {member.member_id for member in group.members.values() if _classic(member) is None}
        )
    if account is not None and account.assigned_ms is None:
        after_ms = now_ms - account.started_ms
        account.also += [LateCause(cause, after_ms) for cause in causes]
        account.generation = group.epoch
        return account
    begun = EpochChange(group, causes[0], before.epoch, snapshot, now_ms)
    begun.also += [LateCause(cause, 0) for cause in causes[1:]]
    if account is not None:
        begun.overtake(account, group.members)
        effects.explain(account.close(RebalanceOutcome.SUPERSEDED, snapshot, now_ms))
    return begun


def _classic(member: Any) -> object:
    return getattr(member, "classic", None)


def _causes(before: Before, group: Any, *, is_new: bool) -> list[Cause]:
    """Infer the causes of an epoch change from the changes of the members."""
    touched, members = before.touched, group.members
    gone = [was for member_id, was in touched.items() if was and member_id not in members]
    came = [
        members[member_id]
        for member_id, was in touched.items()
        if was is None and member_id in members
    ]
    static = {instance_id(member) for member in gone} - {None}
    if is_new and any(_classic(member) is not None for member in came):
        return [
            cause_of(Trigger.GROUP_UPGRADED, member) for member in came if _classic(member) is None
        ]
    causes = [
        cause_of(
            Trigger.MEMBER_REPLACED if instance_id(member) in static else Trigger.MEMBER_JOINED,
            member,
        )
        for member in came
    ]
    back = {instance_id(member) for member in came}
    causes += [
        cause_of(Trigger.MEMBER_LEFT, member)
        for member in gone
        if instance_id(member) is None or instance_id(member) not in back
    ]
    if not causes:
        causes = [
            cause_of(Trigger.METADATA_CHANGED, members[member_id])
            for member_id, was in touched.items()
            if member_id in members and _asks_for(was) != _asks_for(members[member_id])
        ]
    if not causes:
        is_same = group.metadata_hash == before.metadata_hash and group.kind is GroupKind.STREAMS
        causes = [Cause(Trigger.SETTINGS_CHANGED if is_same else Trigger.TOPICS_CHANGED)]
    return causes


def _asks_for(member: Any) -> object:
    """Return the attributes whose change raises the epoch; in a streams group, all attributes."""
    return subscription(member) if hasattr(member, "topics") else member


def cause_of(trigger: Trigger, member: Any, *, timeout_ms: int | None = None) -> Cause:
    """Return a Cause that names the member whose request or timeout triggered the change."""
    return Cause(
        trigger,
        member.member_id,
        instance_id(member),
        member.client_id,
        member.client_host,
        timeout_ms=timeout_ms,
    )


def _end_if_reached(group: Any, account: EpochChange, now_ms: int, effects: Effects) -> None:
    if not group.members:
        outcome = RebalanceOutcome.EMPTY
    elif account.assigned_ms is not None and not account.pending:
        outcome = RebalanceOutcome.STABLE
    else:
        return
    effects.explain(account.close(outcome, GroupSnapshot(group), now_ms))
    group.rebalance = None


# --- reports that begin or close without a written record ---------------------------------------


def loaded(group: Any, now_ms: int, effects: Effects) -> None:
    """Start a report for a loaded group that has members."""
    if not group.members:
        return
    cause = Cause(Trigger.COORDINATOR_LOADED)
    account = EpochChange(group, cause, group.epoch, GroupSnapshot(group), now_ms)
    account.follow(group, group.members, now_ms)
    group.rebalance = account
    _end_if_reached(group, account, now_ms, effects)


def unloaded(group: Any, now_ms: int, effects: Effects) -> None:
    """Close the report of a group that the coordinator unloads."""
    if group.rebalance is not None:
        effects.explain(
            group.rebalance.close(RebalanceOutcome.UNLOADED, GroupSnapshot(group), now_ms)
        )
        group.rebalance = None


def ended(group: Any, trigger: Trigger, now_ms: int, effects: Effects) -> None:
    """Report that a group was deleted or expired; classic groups publish their own report."""
    if group.kind is not GroupKind.CLASSIC:
        nothing = GroupSnapshot(group)
        change = EpochChange(group, Cause(trigger), group.epoch, nothing, now_ms)
        effects.explain(change.close(RebalanceOutcome.DEAD, None, now_ms))
