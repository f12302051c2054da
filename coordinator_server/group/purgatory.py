"""Delayed operations of one group on a lazy heap.

A purgatory holds what waits for a condition or a deadline (Kafka's DelayedOperationPurgatory).
Moving a deadline further away, which every heartbeat does, only sets a number: the heap entry stays
where it is, and is pushed again when it reaches the top too early. So a heartbeat costs no heap
operation, and the heap holds about one entry per operation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coordinator_server.group.effects import Effects

G = TypeVar("G")
"""The kind of group."""

G_contra = TypeVar("G_contra", contravariant=True)


class DelayedOperation(ABC, Generic[G_contra]):
    """Something that happens at `deadline_ms` unless it is completed or cancelled before.

    `queued_ms` is the time of its live heap entry, never later than the deadline.
    """

    __slots__ = ("deadline_ms", "queued_ms")

    def __init__(self) -> None:
        self.deadline_ms: int | None = None
        self.queued_ms: int | None = None

    @abstractmethod
    def on_expiration(self, group: G_contra, now_ms: int, effects: Effects) -> None:
        """What happens when the deadline passes."""


class Purgatory(Generic[G]):
    """The delayed operations of one group, by deadline."""

    __slots__ = ("_heap", "_pushed", "has_new_deadline")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, DelayedOperation[G]]] = []
        self._pushed = 0
        self.has_new_deadline = False
        """Set when an entry is pushed; unset by the task, once its timer counts with it."""

    def schedule(self, operation: DelayedOperation[G], deadline_ms: int) -> None:
        """Arm `operation`, or move its deadline."""
        operation.deadline_ms = deadline_ms
        queued_ms = operation.queued_ms
        if queued_ms is None or deadline_ms < queued_ms:
            self._push(operation, deadline_ms)

    def cancel(self, operation: DelayedOperation[G]) -> None:
        """Disarm `operation`; its heap entry is dropped when it reaches the top."""
        operation.deadline_ms = None

    def clear(self) -> None:
        """Disarm everything."""
        for _, _, operation in self._heap:
            operation.deadline_ms = operation.queued_ms = None
        self._heap.clear()

    def next_deadline_ms(self) -> int | None:
        """Earliest deadline, None when nothing waits."""
        self._clean_top()
        return self._heap[0][0] if self._heap else None

    def expired(self, now_ms: int) -> Iterator[DelayedOperation[G]]:
        """Take out the operations whose deadline has come, earliest first.

        What an operation schedules while it runs counts as well.
        """
        while True:
            self._clean_top()
            if not self._heap or self._heap[0][0] > now_ms:
                return
            operation = heappop(self._heap)[2]
            operation.deadline_ms = operation.queued_ms = None
            yield operation

    def _push(self, operation: DelayedOperation[G], deadline_ms: int) -> None:
        operation.queued_ms = deadline_ms
        self.has_new_deadline = True
        self._pushed += 1
        heappush(self._heap, (deadline_ms, self._pushed, operation))

    def _clean_top(self) -> None:
        """Drop dead entries from the top and push early ones again, until the top is a deadline."""
        heap = self._heap
        while heap:
            queued_ms, _, operation = heap[0]
            if operation.deadline_ms == queued_ms and operation.queued_ms == queued_ms:
                return
            heappop(heap)
            if operation.queued_ms != queued_ms:
                continue  # another, earlier entry has taken its place
            operation.queued_ms = None
            if operation.deadline_ms is not None:
                self._push(operation, operation.deadline_ms)
