"""The clocks of the broker. Everything that keeps time gets one, so that tests can set the time.

Kafka's SystemTime: one clock in milliseconds since the epoch serves timestamps and timers alike.
docs/clock.md says what goes by the broker's time and what by the machine's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

_SLACK_SECONDS = 0.001


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

    A step of the machine's clock must not expire sessions, so it is not followed. Its timers are
    those of the running loop.
    """

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000

    def call_soon(self, callback: Callable[[], None], /) -> object:
        """Call after the callbacks that are due now."""
        return asyncio.get_running_loop().call_soon(callback)

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """Call after `delay` seconds; a millisecond late, as the loop rounds differently."""
        return asyncio.get_running_loop().call_later(delay + _SLACK_SECONDS, callback)

    def call_maintenance(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """As `call_later`: this clock cannot be advanced."""
        return self.call_later(delay, callback)
