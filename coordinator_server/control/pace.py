"""Long work of a request in steps, so that the event loop serves clients meanwhile."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Collection, Generator, Iterable, Iterator
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from coordinator_server.steps import Computation, Steps

SLICE_SECONDS = 0.005
"""How long the steps of a request run before other work gets a turn."""

_SHORT_LIST, _SHORT_TEXT = 50, 1 << 16
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


def listed(items: Iterable[T]) -> Generator[None, None, list[T]]:
    """Return the items of an iterator, one in each step."""
    collected = []
    for item in items:
        collected.append(item)
        yield
    return collected


async def encoded(answer: object) -> bytes:
    """Return JSON, made in steps."""
    pieces = await in_steps(listed(_pieces(answer)))
    return "".join(pieces).encode()


def _pieces(value: object) -> Iterator[str]:
    """Yield JSON in pieces that take a short time each."""
    if isinstance(value, dict) and not _is_short(value.values()):
        separator = "{"
        for name, item in value.items():
            yield f"{separator}{json.dumps(name)}: "
            separator = ", "
            yield from _pieces(item)
        yield "}"
    elif isinstance(value, list) and not _is_short(value):
        separator = "["
        for item in value:
            yield separator
            separator = ", "
            yield from _pieces(item)
        yield "]"
    elif isinstance(value, str) and len(value) > _SHORT_TEXT:
        yield '"'
        for start in range(0, len(value), _SHORT_TEXT):
            yield json.dumps(value[start : start + _SHORT_TEXT])[1:-1]
        yield '"'
    else:
        yield json.dumps(value)


def _is_short(items: Collection[object]) -> bool:
    """Return whether items are few short texts and numbers."""
    return len(items) <= _SHORT_LIST and not any(
        isinstance(item, dict | list) or (isinstance(item, str) and len(item) > _SHORT_TEXT)
        for item in items
    )
