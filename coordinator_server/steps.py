"""Long work in steps: generators that yield where other work may run in between."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[None, None, None]
"""Work that other work may run in between: a step ends with each `yield`."""
Computation = Generator[None, None, T]
"""Steps that return what they have computed."""


def run_all(steps: Computation[T]) -> T:
    """Work through `steps` at once, and return what they return."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            returned: T = end.value
            return returned
