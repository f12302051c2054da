"""Which batches of a log hold the same keys, as far as whoever wrote them has said so.

A batch that is followed by another with the same keys holds nothing that compaction keeps, and
that is known without reading either. Known in memory only, of what was appended since the start.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

MOST_BATCHES = 50_000
"""When no pass comes that many batches may be remembered; then all are forgotten."""


class KeySets:
    """The key sets of batches, by ascending base offset; equal ones are the same object."""

    __slots__ = ("_base_offsets", "_key_sets")

    def __init__(self) -> None:
        self._base_offsets = array("q")
        self._key_sets: list[object] = []

    def add(self, base_offset: int, key_set: object) -> None:
        """A batch was appended; it has each key once, and no tombstone."""
        if len(self._key_sets) >= MOST_BATCHES:
            self.clear()
        self._base_offsets.append(base_offset)
        self._key_sets.append(key_set)

    def superseded(self, start: int, end: int) -> set[int]:
        """The base offsets, from `start` and below `end`, of batches that a later one repeats."""
        superseded: set[int] = set()
        seen: set[int] = set()
        first, last = bisect_left(self._base_offsets, start), bisect_left(self._base_offsets, end)
        for number in range(last - 1, first - 1, -1):
            key_set = id(self._key_sets[number])
            if key_set in seen:
                superseded.add(self._base_offsets[number])
            seen.add(key_set)
        return superseded

    def forget_below(self, offset: int) -> None:
        """A pass has seen all below `offset`."""
        first = bisect_left(self._base_offsets, offset)
        del self._base_offsets[:first], self._key_sets[:first]

    def clear(self) -> None:
        """Forget all: the log was cut, and offsets are given again."""
        del self._base_offsets[:], self._key_sets[:]
