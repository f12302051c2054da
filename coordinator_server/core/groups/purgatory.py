"""Delayed operations of one group on a lazy heap.

A purgatory holds operations that wait for a condition or a deadline (Kafka's
DelayedOperationPurgatory). Every heartbeat moves a deadline further away, which only sets a number:
the heap entry stays, and is pushed again when it reaches its old time. So a heartbeat costs no heap
operation, and neither does a rebalance that renews each member's session. Dead entries are removed
before they outnumber live entries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coordinator_server.core.groups.effects import Effects
    from coordinator_server.steps import Steps

G = TypeVar("G")
"""The type of the group."""

G_contra = TypeVar("G_contra", contravariant=True)

SMALLEST_SWEEP = 16
"""A heap with fewer entries is not swept."""


class DelayedOperation(ABC, Generic[G_contra]):
    """An operation that runs at `deadline_ms` unless it is completed or cancelled first.

    `queued_ms` is the time of the operation's live heap entry, never later than the deadline.
    """

    __slots__ = ("deadline_ms", "queued_ms")

    def __init__(self) -> None:
        self.deadline_ms: int | None = None
        self.queued_ms: int | None = None

    @abstractmethod
    def on_expiration(self, group: G_contra, now_ms: int, effects: Effects) -> Steps | None:
        """Run when the deadline passes; return steps if the work may be long."""


class Purgatory(Generic[G]):
    """The delayed operations of one group, by deadline."""

    __slots__ = ("_heap", "_pushed", "_sweep_size", "has_new_deadline")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, DelayedOperation[G]]] = []
        self._pushed = 0
        self._sweep_size = SMALLEST_SWEEP
        self.has_new_deadline = False
        """Set when an entry is pushed; cleared by the task once its timer covers the entry."""

    def __len__(self) -> int:
        """Return the number of operations, including recently cancelled operations."""
        return len(self._heap)

    def __iter__(self) -> Iterator[DelayedOperation[G]]:
        """Yield the operations that have a heap entry, in no order; each once."""
        return (
            operation for queued_ms, _, operation in self._heap if operation.queued_ms == queued_ms
        )

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
        """Disarm all operations."""
        for _, _, operation in self._heap:
            operation.deadline_ms = operation.queued_ms = None
        self._heap.clear()

    def next_look_ms(self) -> int | None:
        """Return when to check for expired operations; None without operations.

        The time is the earliest deadline, or an earlier time if a deadline was extended. A check
        that is too early finds no expired operation; the caller then calls this method again.
        """
        heap = self._heap
        while heap:
            queued_ms, _, operation = heap[0]
            if operation.queued_ms == queued_ms:
                if operation.deadline_ms is not None:
                    return queued_ms
                operation.queued_ms = None
            heappop(heap)
        return None

    def expired(self, now_ms: int) -> Iterator[DelayedOperation[G]]:
        """Remove and yield the operations whose deadline has passed, earliest first.

        Operations that are scheduled during the iteration are included.
        """
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            queued_ms, _, operation = heappop(heap)
            if operation.queued_ms != queued_ms:
                continue  # a dead entry: the operation was queued again with an earlier deadline
            deadline_ms, operation.queued_ms = operation.deadline_ms, None
            if deadline_ms is None:
                continue
            if deadline_ms > queued_ms:
                self._push(operation, deadline_ms)
                continue
            operation.deadline_ms = None
            yield operation

    def _push(self, operation: DelayedOperation[G], deadline_ms: int) -> None:
        operation.queued_ms = deadline_ms
        self.has_new_deadline = True
        self._pushed += 1
        heappush(self._heap, (deadline_ms, self._pushed, operation))
        if len(self._heap) > self._sweep_size:
            self._sweep()

    def _sweep(self) -> None:
        """Remove all dead entries; the next sweep is when the heap has doubled."""
        live: list[tuple[int, int, DelayedOperation[G]]] = []
        for entry in self._heap:
            queued_ms, _, operation = entry
            if operation.queued_ms != queued_ms:
                continue
            if operation.deadline_ms is None:
                operation.queued_ms = None
            else:
                live.append(entry)
        heapify(live)
        # Keep the list object, because an `expired` generator may be iterating over it.
        self._heap[:] = live
        self._sweep_size = max(SMALLEST_SWEEP, 2 * len(live))
