"""Pace: split long computations into steps, so that they do not block the event loop.

A computation is a generator that yields whenever its `Pace` says so. A short computation never
yields, and costs no more than a plain function.
"""

from __future__ import annotations

from coordinator_server.core.groups.effects import STEP_ITEMS

PER_MEMBER = 25
"""The number of items that converting, describing or encoding one member counts for."""


class Pace:
    """Counts the items that a computation has processed since its last step."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done = 0

    def is_due(self, items: int = 1) -> bool:
        """Count `items` more as processed; return whether the next step is due."""
        self._done += items
        if self._done < STEP_ITEMS:
            return False
        self._done = 0
        return True
