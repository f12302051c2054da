"""One step of a member towards its target: the tasks that it has after this heartbeat.

A member first gives up what it shall not have any more, and says so by listing what it has. Only
then it moves to the epoch of the target, and gets what is free by then: a task that no member runs,
and of which no other member of its process has a copy. A task that the member has in another role
changes it in one step. Source: CurrentAssignmentBuilder.
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
    """Which processes have a task, or have still to give it up."""

    def runner(self, subtopology_id: str, partition: int) -> str | None:
        """The process in which a task is active."""

    def has_copy(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        """Whether a process has a task as standby or warm-up."""


class TaskTarget(NamedTuple):
    """The epoch of the target assignment, and the tasks of one member in it."""

    epoch: int
    tasks: MemberTasks


class UnknownTaskStateError(Exception):
    """The member is in a state that is not known here: it has to give up all and rejoin."""


class TaskReconciliation(NamedTuple):
    """One step of a member that has not reached its target.

    `listed` is what the member says it has, None when it does not say.
    """

    process_id: str
    current: CurrentTasks
    target: TaskTarget
    holders: TaskHolders
    listed: MemberTasks | None

    def next(self) -> CurrentTasks:
        """What the member has from now on. Raises UnknownStateError."""
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
        """Whether the member has to be taken to have some of `revoking` still."""
        return self.listed is None or holds_any(self.listed, revoking)

    def _advance(self, epoch: int) -> CurrentTasks:
        """Towards the target: give up first, at `epoch`; get what is free, at the target's."""
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
        """Whether the task runs anywhere, or another member of the process has a copy of it."""
        assigned = self.current.assigned
        return self.holders.runner(subtopology_id, partition) is not None or self._is_copied(
            (assigned.standby, assigned.warmup), subtopology_id, partition
        )

    def _may_not_copy(self, subtopology_id: str, partition: int) -> bool:
        """Whether the process has the task, unless this member has it as active or warm-up task."""
        assigned = self.current.assigned
        if self.holders.runner(subtopology_id, partition) == self.process_id:
            return partition not in assigned.active.get(subtopology_id, ())
        return self._is_copied((assigned.warmup,), subtopology_id, partition)

    def _may_not_warm_up(self, subtopology_id: str, partition: int) -> bool:
        """Whether the process has the task, unless this member has it as standby task."""
        own = (self.current.assigned.standby,)
        return self.holders.runner(subtopology_id, partition) == self.process_id or self._is_copied(
            own, subtopology_id, partition
        )

    def _is_copied(self, own: Iterable[Tasks], subtopology_id: str, partition: int) -> bool:
        """Whether the process has a copy of the task that is not in `own`."""
        return self.holders.has_copy(self.process_id, subtopology_id, partition) and not any(
            partition in tasks.get(subtopology_id, ()) for tasks in own
        )


class _Difference(NamedTuple):
    """Tasks of one kind: which a member keeps and loses, and which are `free` for it to get."""

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
        """The way from what is assigned to the target."""
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
        """Grant at once what is free and `held` in another role, which loses it no more."""
        for subtopology_id, partition in _both(held, self.free):
            _move(self.free, subtopology_id, partition, self.kept)
            if giver is not None:
                _move(giver.lost, subtopology_id, partition)

    def keep_promoted(self, target: Tasks) -> None:
        """Keep the copies of tasks that the member is to run, until it gets these."""
        for subtopology_id, partition in _both(target, self.lost):
            _move(self.lost, subtopology_id, partition, self.kept)

    def let_go_of(self, granted: Held) -> None:
        """Drop the copies of tasks that the member gets."""
        for subtopology_id, partition in _both(granted, self.kept):
            _move(self.kept, subtopology_id, partition)

    def with_free(self, epoch: int) -> dict[str, dict[int, int]]:
        """What is kept, and what is free as of `epoch`."""
        tasks = {subtopology_id: dict(kept) for subtopology_id, kept in self.kept.items()}
        for subtopology_id, partitions in self.free.items():
            tasks.setdefault(subtopology_id, {}).update(dict.fromkeys(partitions, epoch))
        return tasks


def _both(some: Held, others: Held) -> list[tuple[str, int]]:
    """Return the tasks that are in both."""
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
    """Take a task out of `source`, if it is in it; what has no tasks any more is not in it."""
    partitions = source.get(subtopology_id, {})
    epoch = partitions.pop(partition, 0)
    if not partitions:
        source.pop(subtopology_id, None)
    if destination is not None:
        destination.setdefault(subtopology_id, {})[partition] = epoch


def _at(tasks: Tasks, epoch: int) -> Mapping[str, Mapping[int, int]]:
    """Tasks of a kind that has no epochs, as if they had."""
    return {one: dict.fromkeys(partitions, epoch) for one, partitions in tasks.items()}


def _sets(tasks: Mapping[str, Mapping[int, int]]) -> Tasks:
    """Tasks without their epochs."""
    return {one: frozenset(partitions) for one, partitions in tasks.items()}
