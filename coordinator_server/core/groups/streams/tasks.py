"""Task sets of streams groups, and the task lists of requests.

A task is a partition of a subtopology. A task is active in one member; members of other processes
may keep copies of its state (standby and warm-up). Source: TasksTuple, TasksTupleWithEpochs.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from coordinator_server.core.groups.modern.members import RefusedError
from coordinator_server.core.groups.streams.assignors.spec import MemberTasks, Tasks
from protocol.errors import ErrorCode

TaskEpochs = Mapping[str, Mapping[int, int]]
"""Subtopology id -> partition -> the member epoch at which the task was assigned (KIP-1251)."""

K = TypeVar("K")
V = TypeVar("V")


class OwnedTasks(NamedTuple):
    """The tasks of a member; unlike in a target, active tasks have epochs."""

    active: TaskEpochs = {}
    standby: Tasks = {}
    warmup: Tasks = {}

    @property
    def is_empty(self) -> bool:
        """Whether there are no tasks."""
        return not (self.active or self.standby or self.warmup)

    def copies(self) -> Iterator[tuple[str, int]]:
        """Yield each standby and warm-up task, as (subtopology id, partition)."""
        for tasks in (self.standby, self.warmup):
            for subtopology_id, partitions in tasks.items():
                for partition in partitions:
                    yield subtopology_id, partition


class ListedTasks(Protocol):
    """The tasks of one subtopology, as messages and records list them."""

    subtopology_id: str
    partitions: list[int]


class TaskLists(NamedTuple):
    """The task lists of a request; each list is None if the field is null."""

    active: Sequence[ListedTasks] | None
    standby: Sequence[ListedTasks] | None
    warmup: Sequence[ListedTasks] | None

    def owned(self) -> MemberTasks | None:
        """Return the reported tasks, or None without a report.

        Raises RefusedError if a subtopology is listed twice.
        """
        if self.active is None or self.standby is None or self.warmup is None:
            return None
        return MemberTasks(*map(tasks_by_id, (self.active, self.standby, self.warmup)))

    def are_in(self, tasks: OwnedTasks) -> bool:
        """Return whether the member reports its tasks, and all of them are in `tasks`."""
        return all(map(_are_in, self, tasks))


def _are_in(listed: Sequence[ListedTasks] | None, tasks: Mapping[str, Container[int]]) -> bool:
    if listed is None:
        return False
    return all(
        entry.subtopology_id in tasks
        and all(partition in tasks[entry.subtopology_id] for partition in entry.partitions)
        for entry in listed
    )


def tasks_by_id(listed: Iterable[ListedTasks]) -> Tasks:
    """Return the tasks by subtopology. Raises RefusedError if a subtopology is listed twice."""
    return unique((entry.subtopology_id, frozenset(entry.partitions)) for entry in listed)


def unique(pairs: Iterable[tuple[K, V]]) -> dict[K, V]:
    """Return the pairs as a dict. Raises RefusedError for a duplicate key, where Kafka throws."""
    mapping: dict[K, V] = {}
    for key, value in pairs:
        if key in mapping:
            raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        mapping[key] = value
    return mapping


def holds_any(tasks: MemberTasks, others: OwnedTasks) -> bool:
    """Return whether a task is in both arguments in the same role."""
    return any(
        partition in other.get(subtopology_id, ())
        for own, other in zip(tasks, others, strict=True)
        for subtopology_id, partitions in own.items()
        for partition in partitions
    )
