"""The clocks of the broker. All code that needs the time gets a clock, so that tests can set it.

As with Kafka's SystemTime, one clock in milliseconds since 1970 serves both timestamps and timers.
docs/clock.md lists the uses of the broker's time and of the machine's time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from coordinator_server.clock.timer_heap import TimerHeap, milliseconds

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
    """A clock with timers, which `call_later` sets in this clock's time."""

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
