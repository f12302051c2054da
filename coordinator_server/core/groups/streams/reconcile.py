"""One reconciliation step: the tasks of a member after a heartbeat.

A member first revokes the tasks outside its target, and confirms by listing the tasks it has. The
member then moves to the target's epoch and gets the free tasks: tasks that no member runs, and of
which no other member of the process has a copy. A task that the member already has in another role
changes its role in one step. Source: CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from coordinator_server.core.groups.streams.member import NOTHING, CurrentTasks
from coordinator_server.core.groups.streams.state import StreamsMemberState
from coordinator_server.core.groups.streams.tasks import OwnedTasks, holds_any

if TYPE_CHECKING:
    from coordinator_server.core.groups.streams.assignors.spec import MemberTasks, Tasks

Held = Mapping[str, Collection[int]]
"""Subtopology id -> partitions."""


class TaskHolders(Protocol):
    """The processes that hold each task or still have to revoke it."""

    def runner(self, subtopology_id: str, partition: int) -> str | None:
        """Return the process in which a task is active, or None."""

    def has_copy(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        """Return whether a process holds a task as standby or warm-up."""


class TaskTarget(NamedTuple):
    """The epoch of the target assignment, and one member's tasks in it."""

    epoch: int
    tasks: MemberTasks


class UnknownTaskStateError(Exception):
    """The member's recorded state is unknown: the member must abandon its tasks and rejoin."""


class TaskReconciliation(NamedTuple):
    """One step of a member that has not reached its target.

    `listed` are the tasks that the member reports, or None without a report.
    """

    process_id: str
    current: CurrentTasks
    target: TaskTarget
    holders: TaskHolders
    listed: MemberTasks | None

    def next(self) -> CurrentTasks:
        """Return the member's next tasks. Raises UnknownTaskStateError."""
        current, listed = self.current, self.listed
        state = current.state
        if state is StreamsMemberState.UNKNOWN:
            if listed is None or any(listed):
                raise UnknownTaskStateError
            return self._advance(self.target.epoch)
        if state is StreamsMemberState.UNREVOKED_TASKS:
            if self._still_has(current.revoking):
                return current
            return self._advance(current.epoch + 1)
        return self._advance(current.epoch)

    def _still_has(self, revoking: OwnedTasks) -> bool:
        """Return whether the member may still have some of `revoking`.

        Returns True if the heartbeat does not report the member's tasks.
        """
        return self.listed is None or holds_any(self.listed, revoking)

    def _advance(self, epoch: int) -> CurrentTasks:
        """Advance to the target: revoke first, at `epoch`, then take the free tasks."""
        assigned, target = self.current.assigned, self.target.tasks
        at = self.target.epoch
        active = _Difference.of(assigned.active, target.active, self._may_not_run)
        standby = _Difference.of(_at(assigned.standby, at), target.standby, self._may_not_copy)
        warmup = _Difference.of(_at(assigned.warmup, at), target.warmup, self._may_not_warm_up)
        standby.convert(assigned.active)
        warmup.convert(assigned.standby, standby)
        standby.convert(assigned.warmup, warmup)
        standby.keep_promoted(target.active)
        warmup.keep_promoted(target.active)
        revoking = OwnedTasks(active.lost, _sets(standby.lost), _sets(warmup.lost))
        if not revoking.is_empty and self._still_has(revoking):
            kept = OwnedTasks(active.kept, _sets(standby.kept), _sets(warmup.kept))
            return self._moved(epoch, StreamsMemberState.UNREVOKED_TASKS, kept, revoking)
        standby.let_go_of(active.free)
        warmup.let_go_of(active.free)
        is_waiting = active.has_to_wait or standby.has_to_wait or warmup.has_to_wait
        gained = OwnedTasks(
            active.with_free(at), _sets(standby.with_free(at)), _sets(warmup.with_free(at))
        )
        state = StreamsMemberState.UNRELEASED_TASKS if is_waiting else StreamsMemberState.STABLE
        return self._moved(at, state, gained, NOTHING)

    def _moved(
        self, epoch: int, state: StreamsMemberState, assigned: OwnedTasks, revoking: OwnedTasks
    ) -> CurrentTasks:
        return CurrentTasks(epoch, self.current.epoch, state, assigned, revoking)

    def _may_not_run(self, subtopology_id: str, partition: int) -> bool:
        """Return whether the task is active, or another member of the process has a copy of it."""
        assigned = self.current.assigned
        return self.holders.runner(subtopology_id, partition) is not None or self._is_copied(
            (assigned.standby, assigned.warmup), subtopology_id, partition
        )

    def _may_not_copy(self, subtopology_id: str, partition: int) -> bool:
        """Return whether the process has the task in a role that this member cannot convert.

        The member can convert its own active and warm-up task to a standby task.
        """
        assigned = self.current.assigned
        if self.holders.runner(subtopology_id, partition) == self.process_id:
            return partition not in assigned.active.get(subtopology_id, ())
        return self._is_copied((assigned.warmup,), subtopology_id, partition)

    def _may_not_warm_up(self, subtopology_id: str, partition: int) -> bool:
        """Return whether the process has the task, except as this member's own standby task."""
        own = (self.current.assigned.standby,)
        return self.holders.runner(subtopology_id, partition) == self.process_id or self._is_copied(
            own, subtopology_id, partition
        )

    def _is_copied(self, own: Iterable[Tasks], subtopology_id: str, partition: int) -> bool:
        """Return whether the process has a copy of the task that is not in `own`."""
        return self.holders.has_copy(self.process_id, subtopology_id, partition) and not any(
            partition in tasks.get(subtopology_id, ()) for tasks in own
        )


class _Difference(NamedTuple):
    """The difference between a member's tasks of one role and the tasks in the target.

    `kept` tasks are in the target, `lost` tasks are not. `free` are tasks of the target that the
    member can get now; `has_to_wait` is set if further tasks of the target are still held.
    """

    kept: dict[str, dict[int, int]]
    lost: dict[str, dict[int, int]]
    free: dict[str, dict[int, int]]
    has_to_wait: bool

    @classmethod
    def of(
        cls,
        assigned: Mapping[str, Mapping[int, int]],
        target: Tasks,
        is_held: Callable[[str, int], bool],
    ) -> _Difference:
        """Return the difference between the assigned tasks and the target."""
        kept: dict[str, dict[int, int]] = {}
        lost: dict[str, dict[int, int]] = {}
        free: dict[str, dict[int, int]] = {}
        has_to_wait = False
        for subtopology_id in {**target, **assigned}:
            wanted = target.get(subtopology_id, frozenset())
            has = assigned.get(subtopology_id, {})
            for partition, epoch in has.items():
                side = kept if partition in wanted else lost
                side.setdefault(subtopology_id, {})[partition] = epoch
            for partition in sorted(wanted - has.keys()):
                if is_held(subtopology_id, partition):
                    has_to_wait = True
                else:
                    free.setdefault(subtopology_id, {})[partition] = 0
        return cls(kept, lost, free, has_to_wait)

    def convert(self, held: Held, giver: _Difference | None = None) -> None:
        """Keep the free tasks that the member has `held` in another role.

        The converted tasks are removed from the lost tasks of `giver`, the difference of that
        role.
        """
        for subtopology_id, partition in _both(held, self.free):
            _move(self.free, subtopology_id, partition, self.kept)
            if giver is not None:
                _move(giver.lost, subtopology_id, partition)

    def keep_promoted(self, target: Tasks) -> None:
        """Keep the copies of tasks that become active, until the member gets the active tasks."""
        for subtopology_id, partition in _both(target, self.lost):
            _move(self.lost, subtopology_id, partition, self.kept)

    def let_go_of(self, granted: Held) -> None:
        """Drop the copies of granted active tasks."""
        for subtopology_id, partition in _both(granted, self.kept):
            _move(self.kept, subtopology_id, partition)

    def with_free(self, epoch: int) -> dict[str, dict[int, int]]:
        """Return the kept tasks, plus the free tasks at `epoch`."""
        tasks = {subtopology_id: dict(kept) for subtopology_id, kept in self.kept.items()}
        for subtopology_id, partitions in self.free.items():
            tasks.setdefault(subtopology_id, {}).update(dict.fromkeys(partitions, epoch))
        return tasks


def _both(some: Held, others: Held) -> list[tuple[str, int]]:
    """Return the tasks that are in both mappings."""
    return [
        (subtopology_id, partition)
        for subtopology_id, partitions in some.items()
        if subtopology_id in others
        for partition in partitions
        if partition in others[subtopology_id]
    ]


def _move(
    source: dict[str, dict[int, int]],
    subtopology_id: str,
    partition: int,
    destination: dict[str, dict[int, int]] | None = None,
) -> None:
    """Remove a task from `source`, if present, and add it to `destination`.

    Subtopologies without tasks are removed from `source`.
    """
    partitions = source.get(subtopology_id, {})
    epoch = partitions.pop(partition, 0)
    if not partitions:
        source.pop(subtopology_id, None)
    if destination is not None:
        destination.setdefault(subtopology_id, {})[partition] = epoch


def _at(tasks: Tasks, epoch: int) -> Mapping[str, Mapping[int, int]]:
    """Return `tasks` with `epoch` as the epoch of every task."""
    return {
        subtopology_id: dict.fromkeys(partitions, epoch)
        for subtopology_id, partitions in tasks.items()
    }


def _sets(tasks: Mapping[str, Mapping[int, int]]) -> Tasks:
    """Return the tasks without their epochs."""
    return {subtopology_id: frozenset(partitions) for subtopology_id, partitions in tasks.items()}
