"""Keeps garbage collection pauses short, however many topics and groups exist.

A full collection traverses every object, which takes half a second for a few million objects.
Nearly all of these objects live as long as their topic or group and are in no cycle. So after a
long collection, all existing objects are excluded from later collections (gc.freeze).
"""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

LONG_MS = 10
"""After a longer collection, existing objects are excluded from future collections (gc.freeze).
Reference counting still frees them unless they are in a cycle."""


class CollectionTimer:
    """A callback for `gc.callbacks`; `timer_s()` measures collections, in seconds."""

    __slots__ = ("_started_s", "_timer_s")

    def __init__(self, timer_s: Callable[[], float] = time.perf_counter) -> None:
        self._timer_s = timer_s
        self._started_s = 0.0

    def __call__(self, phase: str, _: dict[str, Any]) -> None:
        """Measure a collection at its start and stop; freeze all objects if it took too long."""
        if phase == "start":
            self._started_s = self._timer_s()
        elif self._timer_s() - self._started_s > LONG_MS / 1000:
            gc.freeze()
