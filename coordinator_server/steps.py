"""Long work as generators that yield where the event loop may run other work."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[None, None, None]
"""A generator that does long work; each `yield` ends a step."""
Computation = Generator[None, None, T]
"""Steps that return a result."""


def run_all(steps: Computation[T]) -> T:
    """Run all steps without a pause and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            returned: T = end.value
            return returned
