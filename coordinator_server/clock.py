"""Where the time comes from. Everything that keeps time gets a `Clock`, so that tests can turn it.

Kafka's SystemTime: one clock in milliseconds since the epoch serves timestamps and timers alike.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time in milliseconds since the epoch; it never runs backwards."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""


class SystemClock:
    """The time of day at the start, moved on by the monotonic clock.

    A step of the machine's clock must not expire sessions, so it is not followed.
    """

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000
