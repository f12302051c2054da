"""A clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.unit.topics.fakes import FakeClock


class ManualClock(FakeClock):
    """A clock whose timers fire when a test advances it."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: list[ManualTimer] = []

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Any:
        """Store the callback for `pass_time`."""
        timer = ManualTimer(self.time_ms + int(delay * 1000), callback)
        self.timers.append(timer)
        return timer

    call_maintenance = call_later

    def pass_time(self, time_ms: int) -> None:
        """Advance the time and fire the timers that are due."""
        self.time_ms += time_ms
        due = [one for one in self.timers if one.due_ms <= self.time_ms]
        self.timers = [one for one in self.timers if one not in due]
        for timer in due:
            if not timer.is_cancelled:
                timer.callback()


class ManualTimer:
    """A timer of the clock."""

    def __init__(self, due_ms: int, callback: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        """Cancel the timer."""
        self.is_cancelled = True
