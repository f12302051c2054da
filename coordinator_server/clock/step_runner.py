"""Runs long work in steps between turns of the event loop, so that all connections stay served.

One slice of SLICE_MS per turn belongs to such work, whatever asked for it; several pieces of work
take turns. So a request with a million entries takes its time, and a heartbeat on another
connection waits for one slice at most, however many such requests there are.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.clock.broker_clock import Scheduler

SLICE_MS = 5
"""How long one slice takes; a single step of the work may take it a little further."""

SHORT_SLICE_MS = 1
"""How long new work may run at once while other work is under way: enough for what is not long."""

FROZEN_OBJECTS = 100_000
"""When long work leaves more objects, such as topics, the collector never looks at them again: to
look at all of them once would already take longer than a slice may. What is in no cycle is freed
all the same."""


class StepRunner:
    """The long work of one process. `timer_s()` measures slices, in seconds."""

    __slots__ = ("_is_closed", "_is_scheduled", "_scheduler", "_timer_s", "_waiting")

    def __init__(
        self, scheduler: Scheduler, timer_s: Callable[[], float] = time.perf_counter
    ) -> None:
        self._scheduler = scheduler
        self._timer_s = timer_s
        self._waiting: deque[Iterator[None]] = deque()
        self._is_scheduled = self._is_closed = False

    def __len__(self) -> int:
        """How many pieces of work are under way."""
        return len(self._waiting)

    def run_now(self, steps: Iterator[None]) -> bool:
        """Work through `steps` for one slice now, then as `run` does. Whether it is done.

        The slice is short while other work is under way. After `close` the steps are dropped.
        """
        if self._is_closed:
            return True
        slice_ms = SHORT_SLICE_MS if self._waiting else SLICE_MS
        end_s = self._timer_s() + slice_ms / 1000
        for _ in steps:
            if self._timer_s() >= end_s:
                self.run(steps)
                return False
        return True

    def run_long(self, steps: Iterator[None]) -> None:
        """As `run_now`, but not at once while other work is under way: these steps are many."""
        if self._waiting:
            self.run(steps)
        else:
            self.run_now(steps)

    def run(self, steps: Iterator[None]) -> None:
        """Work through `steps`, from the next turn of the loop on. The steps must not raise."""
        if self._is_closed:
            return
        if not self._waiting:
            # Large requests make millions of objects without a cycle among them. The collector
            # would look at all of them again and again, for longer than a slice each time.
            gc.disable()
        self._waiting.append(steps)
        self._schedule()

    def close(self) -> None:
        """Drop the work under way, and what comes: nothing is written any more from now on."""
        self._is_closed = True
        if self._waiting:
            self._waiting.clear()
            gc.enable()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._scheduler.call_soon(self._run_slice)

    def _run_slice(self) -> None:
        self._is_scheduled = False
        if not self._waiting:
            return  # closed meanwhile
        steps = self._waiting.popleft()
        end_s = self._timer_s() + SLICE_MS / 1000
        is_over = True
        try:
            for _ in steps:
                if self._timer_s() >= end_s:
                    is_over = False
                    break
        finally:
            if not is_over:
                self._waiting.append(steps)
            if self._waiting:
                self._schedule()
            else:
                if gc.get_count()[0] > FROZEN_OBJECTS:
                    gc.freeze()
                gc.enable()
