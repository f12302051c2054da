"""Long work of a request in steps, so that the event loop serves clients meanwhile."""

from __future__ import annotations

import asyncio
import gc
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from coordinator_server.steps import Computation, Steps

SLICE_SECONDS = 0.005
"""How long the steps of a request run before other work gets a turn."""

_LONG: set[int] = set()
"""The ids of the computations in progress that need more than a slice."""

T = TypeVar("T")


async def in_steps(steps: Computation[T]) -> T:
    """Run steps, with a turn of the event loop after each slice, and return their result.

    Long work creates many objects without cycles, so the garbage collector is off until the last of
    several long requests has ended: one collection with many groups takes longer than a slice.
    """
    end_s, is_long = perf_counter() + SLICE_SECONDS, False
    try:
        while True:
            try:
                next(steps)
            except StopIteration as end:
                returned: T = end.value
                return returned
            if perf_counter() >= end_s:
                if not is_long:
                    is_long = True
                    _LONG.add(id(steps))
                gc.disable()
                await asyncio.sleep(0)
                end_s = perf_counter() + SLICE_SECONDS
    finally:
        if is_long:
            _LONG.discard(id(steps))
            if not _LONG:
                gc.enable()


async def timed_steps(steps: Steps) -> float:
    """Run steps like `in_steps`; return the seconds that the steps themselves took."""
    seconds, began_s = 0.0, perf_counter()
    for _ in steps:
        now_s = perf_counter()
        if now_s - began_s >= SLICE_SECONDS:
            seconds += now_s - began_s
            await asyncio.sleep(0)
            began_s = perf_counter()
    return seconds + perf_counter() - began_s
