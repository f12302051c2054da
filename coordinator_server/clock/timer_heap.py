"""A heap of timers by due time. A timer takes a fifth of the memory of an event loop's timer."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_CANCELLED_KEPT = 64


def milliseconds(delay: float) -> int:
    """Return a delay in seconds as whole milliseconds, rounded up; 0 for a negative delay."""
    # Round to microseconds first: 0.3 s as a float may be slightly more than 300 ms.
    return max(-(-round(delay * 1_000_000) // 1000), 0)


class HeapTimer:
    """A timer whose callback is due at `due_ms` of a clock."""

    __slots__ = ("_callback", "due_ms", "heap")

    def __init__(self, due_ms: int, callback: Callable[[], None], heap: TimerHeap) -> None:
        self.due_ms = due_ms
        self.heap: TimerHeap | None = heap
        self._callback: Callable[[], None] | None = callback

    @property
    def is_over(self) -> bool:
        """Whether the timer was cancelled or has fired."""
        return self._callback is None

    def cancel(self) -> None:
        """Cancel the timer."""
        if self._callback is not None:
            self._callback = None
            if self.heap is not None:
                self.heap.count_cancelled()

    def fire(self) -> None:
        """Call the callback unless the timer was cancelled."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class TimerHeap:
    """Timers by due time; timers of the same millisecond stay in the order they were set."""

    __slots__ = ("_cancelled", "_entries", "_sequence")

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, HeapTimer]] = []
        self._sequence = 0
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, due_ms: int, callback: Callable[[], None]) -> HeapTimer:
        """Add a timer and return it."""
        timer = HeapTimer(due_ms, callback, self)
        self._sequence += 1
        heappush(self._entries, (due_ms, self._sequence, timer))
        return timer

    def next_due_ms(self) -> int | None:
        """Return the earliest due time; None if no timer is set."""
        entries = self._entries
        while entries and entries[0][2].is_over:
            heappop(entries)
            self._cancelled -= 1
        return entries[0][0] if entries else None

    def pop_due(self, now_ms: int, most: int | None = None) -> list[HeapTimer]:
        """Remove and return the timers that are due, in order, at most `most` of them."""
        due: list[HeapTimer] = []
        while (due_ms := self.next_due_ms()) is not None and due_ms <= now_ms and len(due) != most:
            timer = heappop(self._entries)[2]
            timer.heap = None
            due.append(timer)
        return due

    def shift(self, shift_ms: int) -> None:
        """Add `shift_ms` to all due times."""
        for _, _, timer in self._entries:
            timer.due_ms += shift_ms
        self._entries = [(timer.due_ms, sequence, timer) for _, sequence, timer in self._entries]

    def count_cancelled(self) -> None:
        """Count a cancelled timer; drop cancelled timers once they are most of the heap."""
        self._cancelled += 1
        if self._cancelled > _CANCELLED_KEPT and 2 * self._cancelled > len(self._entries):
            self._entries = [entry for entry in self._entries if not entry[2].is_over]
            heapify(self._entries)
            self._cancelled = 0
