"""Remembers which batches of a log have the same keys, as declared by their writers.

If a later batch has the same keys as a batch, compaction drops the earlier batch and reads
neither. The key sets are in memory only, for batches appended since the start.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

MOST_BATCHES = 50_000
"""Limit of remembered batches; when it is reached without a compaction, all are dropped."""


class KeySets:
    """The key sets of batches by ascending base offset. Equal key sets must be the same object."""

    __slots__ = ("_base_offsets", "_key_sets")

    def __init__(self) -> None:
        self._base_offsets = array("q")
        self._key_sets: list[object] = []

    def add(self, base_offset: int, key_set: object) -> None:
        """Add the key set of an appended batch that has each key once and no tombstones."""
        if len(self._key_sets) >= MOST_BATCHES:
            self.clear()
        self._base_offsets.append(base_offset)
        self._key_sets.append(key_set)

    def superseded(self, start: int, end: int) -> set[int]:
        """Return the base offsets of batches whose key set is repeated by a later batch.

        Only batches with base offsets from `start` to `end` (exclusive) are compared.
        """
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
        """Drop the key sets of batches below `offset`, after a compaction up to this offset."""
        first = bisect_left(self._base_offsets, offset)
        del self._base_offsets[:first], self._key_sets[:first]

    def clear(self) -> None:
        """Drop all key sets, because the log was truncated and its offsets will be reused."""
        del self._base_offsets[:], self._key_sets[:]
