"""Loads: the subscribers of a topic with the fewest and the most partitions."""

from __future__ import annotations

from collections.abc import Sequence


class Loads:
    """The subscribers of a topic, sorted by the number of partitions they own in all topics.

    The sorted members begin with a run of least-loaded members and end with a run of most-loaded
    ones. The next member of the first run takes a partition. When every member of the run has taken
    one, the level of the run rises by one, and members already at that level join the run. The
    second run gives partitions and grows downwards in the same way. The caller keeps `sizes` up to
    date.

    Source: MemberAssignmentBalancer of UniformHeterogeneousAssignmentBuilder.
    """

    def __init__(self, readers: Sequence[int], sizes: Sequence[int]) -> None:
        """`readers` are indexes into `sizes`, in ascending order."""
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
        """Whether the levels of the two runs differ by at most one partition."""
        return self._most_level - self._least_level <= 1

    def next_least(self) -> int:
        """Return the member that takes the next partition, and count the partition as taken."""
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
        """Return the member that gives the next partition, or None if no member is left.

        The partition counts as given.
        """
        if self._most_next < self._most_start:
            if self._most_start and self._most_end <= self._most_start:
                # All members of the run were excluded: the run restarts at the next lower level.
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
        """Exclude the member that `next_most` returned last: it owns no partition of this topic."""
        asked, last = self._most_next + 1, self._most_end - 1
        self._sorted[asked], self._sorted[last] = self._sorted[last], self._sorted[asked]
        self._most_end -= 1
