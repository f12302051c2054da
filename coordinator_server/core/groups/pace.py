"""Long computations in steps: an assignment of very many partitions must not hold others up.

What computes is a generator that yields whenever its `Pace` says so. A computation that is not long
yields nothing, so that it costs no more than a plain function.
"""

from __future__ import annotations

from coordinator_server.core.groups.effects import STEP_ITEMS

PER_MEMBER = 25
"""How many items a member counts for that is converted, described or written down."""


class Pace:
    """Counts what a computation has done since its last step."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done = 0

    def is_due(self, items: int = 1) -> bool:
        """So many more items are done: whether it is time for the next step."""
        self._done += items
        if self._done < STEP_ITEMS:
            return False
        self._done = 0
        return True
