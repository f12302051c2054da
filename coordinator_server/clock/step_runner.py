"""Runs long work in steps between turns of the event loop, so that all connections stay served.

Each turn of the event loop has one slice of SLICE_MS for long work; several pieces of work take
turns. So a heartbeat waits for one slice at most, however many large requests are being handled.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.clock.broker_clock import Scheduler, Timer

SLICE_MS = 5
"""Length of a slice; its last step may exceed the slice a little."""

SHORT_SLICE_MS = 1
"""Length of the first slice of new work while other work is in progress: enough for short work."""

FROZEN_OBJECTS = 100_000
"""If long work leaves more new objects, such as topics, they are excluded from garbage collection
(gc.freeze), because one collection of them would exceed a slice. Reference counting still frees
them unless they are in a cycle."""


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
        """Return the number of pieces of work in progress."""
        return len(self._waiting)

    def run_now(self, steps: Iterator[None]) -> bool:
        """Run `steps` for one slice now, and the rest like `run`; return whether all are done.

        The slice is short while other work is in progress. After `close` the steps are dropped.
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
        """Like `run_now`, but queue the steps if other work is in progress.

        Use this for many steps.
        """
        if self._waiting:
            self.run(steps)
        else:
            self.run_now(steps)

    def run(self, steps: Iterator[None]) -> None:
        """Run `steps` from the next turn of the event loop on. The steps must not raise."""
        if self._is_closed:
            return
        if not self._waiting:
            # Large requests create millions of objects without cycles. Each garbage collection
            # would traverse these objects and block the event loop for longer than a slice.
            gc.disable()
        self._waiting.append(steps)
        self._schedule()

    def run_later(self, delay_s: float, steps: Iterator[None]) -> Timer:
        """Like `run`, after a delay in seconds. A cancelled timer drops the steps."""
        return self._scheduler.call_later(delay_s, partial(self.run, steps))

    def close(self) -> None:
        """Drop work in progress and future work, so that nothing is written any more."""
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
            return  # the runner was closed after this call was scheduled
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
