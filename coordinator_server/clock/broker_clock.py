"""The clocks of the broker. All code that needs the time gets a clock, so that tests can set it.

As with Kafka's SystemTime, one clock in milliseconds since 1970 serves both timestamps and timers.
docs/clock.md lists the uses of the broker's time and of the machine's time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Protocol

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

    def __iter__(self) -> Iterator[HeapTimer]:
        """Yield the timers that are set, in no order."""
        return (timer for _, _, timer in self._entries if not timer.is_over)

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


TIMERS_PER_TURN = 100


class Timer(Protocol):
    """A timer, as `call_later` returns it."""

    def cancel(self) -> None:
        """Cancel the call."""


class Scheduler(Protocol):
    """The methods of an event loop that schedule callbacks."""

    def call_soon(self, callback: Callable[[], None], /) -> object:
        """Call back after the callbacks that are due now."""

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """Call back after `delay` seconds."""


class Clock(Protocol):
    """A clock that never runs backwards."""

    def now_ms(self) -> int:
        """Return the milliseconds since 1970-01-01 UTC."""


class BrokerClock(Clock, Scheduler, Protocol):
    """A clock with timers; the delays of `call_later` are in the time of this clock."""

    def call_maintenance(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """Like `call_later`, for periodic work.

        A virtual clock that is advanced by days skips rounds of such work.
        """


class SystemClock:
    """The time of day at creation plus the elapsed monotonic time.

    Later steps of the machine's clock are ignored, because they must not expire sessions. Timers
    are in a heap; one timer of the event loop, the alarm, is set for the earliest timer.
    """

    __slots__ = ("_alarm", "_alarm_due_ms", "_offset_ns", "_timers")

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()
        self._timers = TimerHeap()
        self._alarm: Timer | None = None
        self._alarm_due_ms = 0

    def now_ms(self) -> int:
        """Return the milliseconds since 1970-01-01 UTC."""
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000

    def call_soon(self, callback: Callable[[], None], /) -> object:
        """Call back after the callbacks that are due now."""
        return asyncio.get_running_loop().call_soon(callback)

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """Call back after `delay` seconds plus one millisecond, since `now_ms` rounds down."""
        timer = self._timers.add(self.now_ms() + milliseconds(delay) + 1, callback)
        if self._alarm is None or timer.due_ms < self._alarm_due_ms:
            self._set_alarm()
        return timer

    def call_maintenance(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """Like `call_later`, since this clock cannot be advanced."""
        return self.call_later(delay, callback)

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        due_ms = self._timers.next_due_ms()
        if due_ms is not None:
            self._alarm_due_ms = due_ms
            delay_s = max(due_ms - self.now_ms(), 0) / 1000
            self._alarm = asyncio.get_running_loop().call_later(delay_s, self._on_alarm)

    def _on_alarm(self) -> None:
        """Schedule the callbacks of due timers, at most TIMERS_PER_TURN, and set the next alarm.

        The alarm may come too early, before any timer is due.
        """
        self._alarm = None
        for timer in self._timers.pop_due(self.now_ms(), TIMERS_PER_TURN):
            self.call_soon(timer.fire)
        self._set_alarm()
