"""The sticky task assignor: tasks stay with their state, as far as the load stays even.

Active tasks are assigned first: to the previous member, else to a member with a copy of the state,
else to the least-loaded process. A copy is a standby task or a reported offset: standby tasks come
first, then larger offsets. Standby tasks of stateful subtopologies follow, each in another process.
Source: StickyTaskAssignor (KIP-1071).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from coordinator_server.core.groups.effects import Pace
from coordinator_server.core.groups.streams.assignors.spec import (
    Assignment,
    MemberTasks,
    StreamsGroupSpec,
    Tasks,
)

if TYPE_CHECKING:
    from coordinator_server.steps import Computation


TaskId = tuple[str, int]
"""Subtopology id and partition."""


class Process:
    """A process: its members, and their tasks so far. A process has each task only once.

    `counts` has the number of tasks by member id, `active` and `standby` the tasks; `load` is the
    number of tasks per member.
    """

    def __init__(self) -> None:
        self.load = 0.0
        self.counts: dict[str, int] = {}
        self.active: dict[str, list[TaskId]] = {}
        self.standby: dict[str, list[TaskId]] = {}
        self._tasks: set[TaskId] = set()
        self._task_count = 0
        self._by_load: LeastFirst[str] | None = None

    def add_member(self, member_id: str) -> None:
        """Add a member, before the first task is added."""
        self.counts[member_id] = 0
        self.active[member_id] = []
        self.standby[member_id] = []

    def has_task(self, task: TaskId) -> bool:
        """Return whether a member of the process has the task, active or standby."""
        return task in self._tasks

    def add_task(self, member_id: str, task: TaskId, *, is_active: bool) -> int:
        """Add a task to a member; return the member's number of tasks."""
        self._by_load = None  # the counts have changed, so the order of the queue is invalid
        return self._add(member_id, task, is_active=is_active)

    def add_task_to_least_loaded(self, task: TaskId, *, is_active: bool) -> int:
        """Add a task to the least-loaded member; return that member's number of tasks."""
        if self._by_load is None:
            self._by_load = LeastFirst(self.counts, self.counts.__getitem__)
        member_id = self._by_load.pop()
        count = self._add(member_id, task, is_active=is_active)
        self._by_load.add(member_id)
        return count

    def _add(self, member_id: str, task: TaskId, *, is_active: bool) -> int:
        (self.active if is_active else self.standby)[member_id].append(task)
        self._tasks.add(task)
        self._task_count += 1
        self.load = self._task_count / len(self.counts)
        self.counts[member_id] += 1
        return self.counts[member_id]


T = TypeVar("T")


class LeastFirst(Generic[T]):
    """A binary heap. The load of a queued item must not change.

    Items with equal load have the same order as in Java's PriorityQueue, so that assignments equal
    Kafka's; the order of `heapq` differs.
    """

    def __init__(self, items: Iterable[T], load: Callable[[T], float]) -> None:
        self._load = load
        self._heap: list[T] = []
        for item in items:
            self.add(item)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, item: T) -> None:
        """Add an item."""
        heap, load = self._heap, self._load
        own_load, place = load(item), len(heap)
        heap.append(item)
        while place:
            above = (place - 1) // 2
            if own_load >= load(heap[above]):
                break
            heap[place] = heap[above]
            place = above
        heap[place] = item

    def pop(self) -> T:
        """Remove and return the item with the lowest load."""
        heap, load = self._heap, self._load
        item = heap.pop()
        if not heap:
            return item
        least = heap[0]
        own_load, place, count = load(item), 0, len(heap)
        while place < count // 2:
            below = 2 * place + 1
            if below + 1 < count and load(heap[below]) > load(heap[below + 1]):
                below += 1
            if own_load <= load(heap[below]):
                break
            heap[place] = heap[below]
            place = below
        heap[place] = item
        return least


def sticky(spec: StreamsGroupSpec) -> Computation[Assignment]:
    """Return the assignment."""
    if not spec.members:
        return {}
    return (yield from _StickyBuilder(spec).build())


class _StickyMember(NamedTuple):
    process: Process
    member_id: str

    @property
    def task_count(self) -> int:
        """The member's number of tasks so far."""
        return self.process.counts[self.member_id]


class _Quota:
    """The number of tasks, `each`, below which a member gets tasks whose state it has.

    `each` is an even share of the remaining tasks. A member that has reached this number is no
    longer counted, and neither are its tasks.
    """

    def __init__(self, task_count: int, member_count: int) -> None:
        self._tasks, self._members = task_count, member_count
        self.each = self._share()

    def _share(self) -> int:
        return -(-self._tasks // self._members) if self._members else 0

    def note(self, count: int) -> None:
        """Update the share after a member's number of tasks has risen to `count`."""
        if count == self.each:
            self._tasks -= count
            self._members -= 1
            self.each = self._share()


_BY_PARTITION = itemgetter(1, 0)
_LOAD = attrgetter("load")
_RANK = itemgetter(0, 1)


class _StickyBuilder:
    def __init__(self, spec: StreamsGroupSpec) -> None:
        self._spec = spec
        self._pace = Pace()
        self._replicas = spec.standby_replicas
        counts = {
            subtopology_id: subtopology.task_count
            for subtopology_id, subtopology in spec.subtopologies.items()
        }
        stateful = [
            subtopology_id
            for subtopology_id, subtopology in spec.subtopologies.items()
            if subtopology.is_stateful
        ]
        self._tasks = [
            (subtopology_id, partition)
            for subtopology_id in counts
            for partition in range(counts[subtopology_id])
        ]
        self._stateful = [
            (subtopology_id, partition)
            for subtopology_id in stateful
            for partition in range(counts[subtopology_id])
        ]
        self._active_quota = _Quota(len(self._tasks), len(spec.members))
        all_tasks = len(self._tasks) + self._replicas * len(self._stateful)
        self._quota = _Quota(all_tasks, len(spec.members))
        self._processes: dict[str, Process] = {}
        self._members: list[_StickyMember] = []
        self._last_active: dict[TaskId, _StickyMember] = {}
        self._last_standby: dict[TaskId, list[_StickyMember]] = {}
        self._candidates: dict[TaskId, list[tuple[bool, int, _StickyMember]]] = {}

    def build(self) -> Computation[Assignment]:
        """Build and return the assignment."""
        yield from self._note_members()
        yield from self._assign_active()
        if self._replicas:
            yield from self._assign_standby()
        assignment: dict[str, MemberTasks] = {}
        for process, member_id in self._members:
            active, standby = process.active[member_id], process.standby[member_id]
            assignment[member_id] = MemberTasks(_by_subtopology(active), _by_subtopology(standby))
            if self._pace.is_due(1 + len(active) + len(standby)):
                yield
        return assignment

    def _note_members(self) -> Computation[None]:
        """Collect the members, their previous tasks and their copies of state."""
        reported: set[TaskId] = set()
        for member_spec in self._spec.members.values():
            for task in member_spec.offsets:
                reported.add(task)
                if self._pace.is_due():
                    yield
        for member_id, (process_id, tasks, offsets) in self._spec.members.items():
            process = self._processes.setdefault(process_id, Process())
            process.add_member(member_id)
            member = _StickyMember(process, member_id)
            self._members.append(member)
            for task in _each(tasks.active):
                self._last_active[task] = member
                if self._pace.is_due():
                    yield
            for task in _each(tasks.standby):
                if task in reported:
                    self._add_candidate(task, False, offsets.get(task, 0), member)
                else:
                    self._last_standby.setdefault(task, []).append(member)
                if self._pace.is_due():
                    yield
            for task, offset in offsets.items():
                if task[1] not in tasks.standby.get(task[0], ()):
                    self._add_candidate(task, True, offset, member)
                if self._pace.is_due():
                    yield
        for task, candidates in self._candidates.items():
            candidates.sort(key=_RANK)
            self._last_standby[task] = [member for _, _, member in candidates]
            if self._pace.is_due(len(candidates)):
                yield

    def _add_candidate(
        self, task: TaskId, is_idle: bool, offset: int, member: _StickyMember
    ) -> None:
        """Record a member that has state of a task (Kafka's StandbyCandidate)."""
        self._candidates.setdefault(task, []).append((is_idle, -offset, member))

    # Active tasks

    def _assign_active(self) -> Computation[None]:
        tasks = sorted(self._tasks, key=_BY_PARTITION)
        for goes in (self._goes_back, self._goes_to_its_copy):
            left: list[TaskId] = []
            for task in tasks:
                if not goes(task):
                    left.append(task)
                if self._pace.is_due():
                    yield
            tasks = left
        processes = LeastFirst(self._processes.values(), _LOAD)
        for task in sorted(tasks):
            process = processes.pop()
            self._note_active(process.add_task_to_least_loaded(task, is_active=True))
            processes.add(process)
            if self._pace.is_due():
                yield

    def _goes_back(self, task: TaskId) -> bool:
        """Assign an active task to its previous member, if that member has room.

        Returns whether the task is assigned.
        """
        return self._is_taken(task, self._last_active.get(task))

    def _goes_to_its_copy(self, task: TaskId) -> bool:
        """Assign an active task to a member with a copy of its state, if that member has room.

        Returns whether the task is assigned.
        """
        members = self._last_standby.get(task)
        return self._is_taken(task, _least_loaded(members) if members else None)

    def _is_taken(self, task: TaskId, member: _StickyMember | None) -> bool:
        if member is None or member.task_count >= self._active_quota.each:
            return False
        self._note_active(member.process.add_task(member.member_id, task, is_active=True))
        return True

    def _note_active(self, count: int) -> None:
        self._active_quota.note(count)
        self._quota.note(count)

    # Standby tasks

    def _assign_standby(self) -> Computation[None]:
        missing: list[tuple[TaskId, int]] = []
        for task in sorted(self._stateful, key=_BY_PARTITION, reverse=True):
            for replicas in range(self._replicas, 0, -1):
                member = self._last_keeper(task)
                if member is None:
                    missing.append((task, replicas))
                    break
                self._quota.note(member.process.add_task(member.member_id, task, is_active=False))
            if self._pace.is_due():
                yield
        processes = LeastFirst(self._processes.values(), _LOAD)
        for task, replicas in sorted(missing, reverse=True):
            for _ in range(replicas):
                if not self._has_found_process(task, processes):
                    break  # every process has the task
            if self._pace.is_due(replicas):
                yield

    def _last_keeper(self, task: TaskId) -> _StickyMember | None:
        """Return the previous active member, else a previous standby member, or None.

        The member must have room, and its process must not have the task.
        """
        member = self._last_active.get(task)
        if member is not None and not member.process.has_task(task) and self._has_room(member):
            return member
        members = self._last_standby.get(task)
        member = _least_loaded(members, task) if members else None
        return member if member is not None and self._has_room(member) else None

    def _has_room(self, member: _StickyMember) -> bool:
        return member.task_count < self._quota.each

    def _has_found_process(self, task: TaskId, processes: LeastFirst[Process]) -> bool:
        """Add a standby task to the least-loaded process that does not have the task.

        Returns False if every process has the task.
        """
        asked = [processes.pop()]
        while processes and asked[-1].has_task(task):
            asked.append(processes.pop())
        has_found = not asked[-1].has_task(task)
        if has_found:
            self._quota.note(asked[-1].add_task_to_least_loaded(task, is_active=False))
        for process in reversed(asked):
            processes.add(process)
        return has_found


def _least_loaded(members: list[_StickyMember], task: TaskId | None = None) -> _StickyMember | None:
    """Return the first member, unless a later member and its process both have less load.

    With a `task`, members whose process has the task are ignored. Returns None if no member
    remains. Source: findPrevMemberWithLeastLoad.
    """
    least: _StickyMember | None = None
    load, count = inf, inf
    for member in members:
        if task is not None and member.process.has_task(task):
            continue
        if least is None or (member.process.load < load and member.task_count < count):
            least, load, count = member, member.process.load, member.task_count
    return least


def _each(tasks: Tasks) -> Iterable[TaskId]:
    return (
        (subtopology_id, partition)
        for subtopology_id, partitions in tasks.items()
        for partition in partitions
    )


def _by_subtopology(tasks: Iterable[TaskId]) -> Tasks:
    partitions: dict[str, set[int]] = {}
    for subtopology_id, partition in tasks:
        partitions.setdefault(subtopology_id, set()).add(partition)
    return {
        subtopology_id: frozenset(of_subtopology)
        for subtopology_id, of_subtopology in partitions.items()
    }
