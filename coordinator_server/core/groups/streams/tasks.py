"""Tasks of streams groups: sets of them, and what of them a request lists.

A task is a partition of a subtopology. It is active in one member, and may be kept as a copy of its
state by members of other processes (standby and warm-up). Source: TasksTuple, TasksTupleWithEpochs.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from coordinator_server.core.groups.modern.refusal import RefusedError
from coordinator_server.core.groups.streams.assignors.spec import MemberTasks, Tasks
from protocol.errors import ErrorCode

TaskEpochs = Mapping[str, Mapping[int, int]]
"""Subtopology id -> partition -> the member epoch at which the task was assigned (KIP-1251)."""

K = TypeVar("K")
V = TypeVar("V")


class OwnedTasks(NamedTuple):
    """Tasks that a member has: as those of a target, but that the active ones have epochs."""

    active: TaskEpochs = {}
    standby: Tasks = {}
    warmup: Tasks = {}

    @property
    def is_empty(self) -> bool:
        """Whether there is no task in it."""
        return not (self.active or self.standby or self.warmup)

    def copies(self) -> Iterator[tuple[str, int]]:
        """Each standby and warm-up task, as (subtopology id, partition)."""
        for tasks in (self.standby, self.warmup):
            for subtopology_id, partitions in tasks.items():
                for partition in partitions:
                    yield subtopology_id, partition


class ListedTasks(Protocol):
    """Tasks of one subtopology, as messages and records list them."""

    subtopology_id: str
    partitions: list[int]


class TaskLists(NamedTuple):
    """The tasks that a request lists; each list is None if it is not in the request."""

    active: Sequence[ListedTasks] | None
    standby: Sequence[ListedTasks] | None
    warmup: Sequence[ListedTasks] | None

    def owned(self) -> MemberTasks | None:
        """What the member has; None if it does not say so. Raises RefusedError."""
        if self.active is None or self.standby is None or self.warmup is None:
            return None
        return MemberTasks(*map(tasks_by_id, (self.active, self.standby, self.warmup)))

    def are_in(self, tasks: OwnedTasks) -> bool:
        """Whether the member says what it has, and has nothing else than `tasks`."""
        return all(map(_are_in, self, tasks))


def _are_in(listed: Sequence[ListedTasks] | None, tasks: Mapping[str, Container[int]]) -> bool:
    if listed is None:
        return False
    return all(
        one.subtopology_id in tasks
        and all(partition in tasks[one.subtopology_id] for partition in one.partitions)
        for one in listed
    )


def tasks_by_id(listed: Iterable[ListedTasks]) -> Tasks:
    """Tasks by subtopology. Raises RefusedError if one is listed twice."""
    return unique((one.subtopology_id, frozenset(one.partitions)) for one in listed)


def unique(pairs: Iterable[tuple[K, V]]) -> dict[K, V]:
    """The pairs as a mapping. Raises RefusedError if a key comes twice, where Kafka throws."""
    mapping: dict[K, V] = {}
    for key, value in pairs:
        if key in mapping:
            raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        mapping[key] = value
    return mapping


def holds_any(tasks: MemberTasks, others: OwnedTasks) -> bool:
    """Whether a task of the same kind is in both."""
    return any(
        partition in other.get(subtopology_id, ())
        for own, other in zip(tasks, others, strict=True)
        for subtopology_id, partitions in own.items()
        for partition in partitions
    )
