"""Long work of a request in steps, so that the event loop serves clients meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator, Iterable, Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from coordinator_server.steps import Computation, Steps

SLICE_SECONDS = 0.005
"""How long the steps of a request run before other work gets a turn."""

_SHORT_LIST = 50
T = TypeVar("T")


async def in_steps(steps: Computation[T]) -> T:
    """Run steps, with a turn of the event loop after each slice, and return their result."""
    end_s = perf_counter() + SLICE_SECONDS
    while True:
        try:
            next(steps)
        except StopIteration as end:
            returned: T = end.value
            return returned
        if perf_counter() >= end_s:
            await asyncio.sleep(0)
            end_s = perf_counter() + SLICE_SECONDS


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


def _pieces(answer: object) -> Iterator[str]:
    """Yield the JSON of an object; items of long lists are pieces of their own."""
    if not isinstance(answer, dict):
        yield json.dumps(answer)
        return
    separator = "{"
    for name, value in answer.items():
        yield f"{separator}{json.dumps(name)}: "
        separator = ", "
        if isinstance(value, list) and len(value) > _SHORT_LIST:
            yield from _items(value)
        else:
            yield json.dumps(value)
    yield "}" if answer else "{}"


def _items(values: list[Any]) -> Iterator[str]:
    separator = "["
    for value in values:
        yield separator + json.dumps(value)
        separator = ", "
    yield "]"
