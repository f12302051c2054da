"""A process of a streams application while tasks are assigned. Source: ProcessState."""

from __future__ import annotations

from coordinator_server.core.groups.streams.assignors.least_first import LeastFirst

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
        self._by_load = None  # the queue order is now invalid
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
