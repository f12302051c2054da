"""Keeps the pauses of the garbage collector short, however many topics and groups there are.

A full collection looks at every object that is there: half a second with a few million of them.
Nearly all of them live as long as their topic or group, and are in no cycle.
"""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

LONG_MS = 10
"""What a collection has looked at for so long it never looks at again. What is in no cycle is freed
all the same."""


class CollectionTimer:
    """One of `gc.callbacks`; `timer_s()` measures collections, in seconds."""

    __slots__ = ("_started_s", "_timer_s")

    def __init__(self, timer_s: Callable[[], float] = time.perf_counter) -> None:
        self._timer_s = timer_s
        self._started_s = 0.0

    def __call__(self, phase: str, _: dict[str, Any]) -> None:
        """A collection starts or stops."""
        if phase == "start":
            self._started_s = self._timer_s()
        elif self._timer_s() - self._started_s > LONG_MS / 1000:
            gc.freeze()
