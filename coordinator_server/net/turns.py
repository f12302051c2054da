"""Fair sharing of the event loop: queued steps run in order, within a time budget per iteration."""

from __future__ import annotations

import asyncio
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Turns:
    """A queue of steps; each iteration of the event loop runs them for about `seconds` at most."""

    __slots__ = ("_is_scheduled", "_seconds", "_waiting")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_scheduled = False

    def __bool__(self) -> bool:
        """Return whether a step is waiting."""
        return bool(self._waiting)

    def await_turn(self, step: Callable[[], None]) -> None:
        """Queue a step behind the waiting steps."""
        self._waiting.append(step)
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        """Run queued steps within the time limit; later iterations run the remaining steps."""
        end_s = perf_counter() + self._seconds
        try:
            while self._waiting:
                self._waiting.popleft()()
                if perf_counter() >= end_s:
                    break
        finally:
            self._is_scheduled = bool(self._waiting)
            if self._waiting:
                asyncio.get_running_loop().call_soon(self._run)
