"""The clocks of the broker. Everything that keeps time gets one, so that tests can set the time.

Kafka's SystemTime: one clock in milliseconds since the epoch serves timestamps and timers alike.
docs/clock.md says what goes by the broker's time and what by the machine's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from coordinator_server.clock.timer_heap import TimerHeap, milliseconds

TIMERS_PER_TURN = 100


class Timer(Protocol):
    """What `call_later` returns."""

    def cancel(self) -> None:
        """Forget the call."""


class Scheduler(Protocol):
    """The part of an event loop that calls back."""

    def call_soon(self, callback: Callable[[], None], /) -> object:
        """Call after the callbacks that are due now."""

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """Call after `delay` seconds."""


class Clock(Protocol):
    """The time in milliseconds since the epoch; it never runs backwards."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""


class BrokerClock(Clock, Scheduler, Protocol):
    """A clock with timers: `call_later` counts in its own time."""

    def call_maintenance(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """As `call_later`, for periodic work.

        A clock that is advanced by days leaves out rounds of it.
        """


class SystemClock:
    """The time of day at the start, moved on by the monotonic clock.

    A step of the machine's clock must not expire sessions, so it is not followed. Its timers wait
    in a heap; one timer of the running loop, the alarm, is set for the earliest of them.
    """

    __slots__ = ("_alarm", "_alarm_due_ms", "_offset_ns", "_timers")

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()
        self._timers = TimerHeap()
        self._alarm: Timer | None = None
        self._alarm_due_ms = 0

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000

    def call_soon(self, callback: Callable[[], None], /) -> object:
        """Call after the callbacks that are due now."""
        return asyncio.get_running_loop().call_soon(callback)

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """Call after `delay` seconds, a millisecond late as now may be that far behind."""
        timer = self._timers.add(self.now_ms() + milliseconds(delay) + 1, callback)
        if self._alarm is None or timer.due_ms < self._alarm_due_ms:
            self._set_alarm()
        return timer

    def call_maintenance(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """As `call_later`: this clock cannot be advanced."""
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
        """Have the loop call what is due, TIMERS_PER_TURN at a time. It may be too early."""
        self._alarm = None
        for timer in self._timers.pop_due(self.now_ms(), TIMERS_PER_TURN):
            self.call_soon(timer.fire)
        self._set_alarm()
