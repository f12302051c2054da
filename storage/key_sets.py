"""Which batches of a log hold the same keys, as far as whoever wrote them has said so.

A batch that is followed by another with the same keys holds nothing that compaction keeps, and
that is known without reading either. Known in memory only, of what was appended since the start.
"""

from __future__ import annotations

MOST_BATCHES = 50_000
"""When no pass comes that many batches may be remembered; then all are forgotten."""


class KeySets:
    """The key sets of batches, by base offset; equal ones are the same object."""

    __slots__ = ("_by_offset",)

    def __init__(self) -> None:
        self._by_offset: dict[int, object] = {}

    def add(self, base_offset: int, key_set: object) -> None:
        """A batch was appended; it has each key once, and no tombstone."""
        if len(self._by_offset) >= MOST_BATCHES:
            self._by_offset.clear()
        self._by_offset[base_offset] = key_set

    def superseded(self, start: int, end: int) -> set[int]:
        """The base offsets, from `start` and below `end`, of batches that a later one repeats."""
        superseded: set[int] = set()
        seen: set[int] = set()
        for base_offset in reversed(self._by_offset):
            if start <= base_offset < end:
                key_set = id(self._by_offset[base_offset])
                if key_set in seen:
                    superseded.add(base_offset)
                seen.add(key_set)
        return superseded

    def forget_below(self, offset: int) -> None:
        """A pass has seen all below `offset`."""
        self._by_offset = {
            base_offset: key_set
            for base_offset, key_set in self._by_offset.items()
            if base_offset >= offset
        }

    def clear(self) -> None:
        """Forget all: the log was cut, and offsets are given again."""
        self._by_offset.clear()
