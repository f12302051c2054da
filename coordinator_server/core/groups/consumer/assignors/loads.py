"""Loads: who of a topic's readers has least, and who has most, while partitions move."""

from __future__ import annotations

from collections.abc import Sequence


class Loads:
    """The readers of a topic by how many partitions they own of all topics.

    Sorted by load, they begin with a run of those that have least and end with one of those that
    have most. Whoever is next in the first run takes a partition; when all of it have taken one,
    its level is one higher, and it grows by those who were at that level before. The second run
    gives and grows the other way. `sizes` is the caller's, who keeps it up to date.

    Source: MemberAssignmentBalancer of UniformHeterogeneousAssignmentBuilder.
    """

    def __init__(self, readers: Sequence[int], sizes: Sequence[int]) -> None:
        """`readers` are places in `sizes`, in ascending order."""
        self._sizes = sizes
        self._sorted = sorted(readers, key=sizes.__getitem__)
        count = len(self._sorted)
        self._least_level = sizes[self._sorted[0]] - 1
        self._least_end = self._least_next = 0
        self._most_level = sizes[self._sorted[-1]] + 1
        self._most_start = self._most_end = count
        self._most_next = count - 1

    @property
    def are_even(self) -> bool:
        """Whether the two runs are at most one partition apart."""
        return self._most_level - self._least_level <= 1

    def next_least(self) -> int:
        """Who takes the next partition; it counts as taken."""
        if self._least_next >= self._least_end:
            self._least_level += 1
            while (
                self._least_end < len(self._sorted)
                and self._sizes[self._sorted[self._least_end]] == self._least_level
            ):
                self._least_end += 1
            self._least_next = 0
        index = self._sorted[self._least_next]
        self._least_next += 1
        return index

    def next_most(self) -> int | None:
        """Who gives the next partition, which counts as given; None if nobody is left to ask."""
        if self._most_next < self._most_start:
            if self._most_start and self._most_end <= self._most_start:
                # All of the run were excluded: the next lower member is the run now.
                self._most_level = self._sizes[self._sorted[self._most_start - 1]]
            else:
                self._most_level -= 1
            while (
                self._most_start
                and self._sizes[self._sorted[self._most_start - 1]] == self._most_level
            ):
                self._most_start -= 1
            self._most_next = self._most_end - 1
        if self._most_next < 0:
            return None
        index = self._sorted[self._most_next]
        self._most_next -= 1
        return index

    def exclude_most(self) -> None:
        """Whom `next_most` has just named has nothing of this topic to give: ask it no more."""
        asked, last = self._most_next + 1, self._most_end - 1
        self._sorted[asked], self._sorted[last] = self._sorted[last], self._sorted[asked]
        self._most_end -= 1
