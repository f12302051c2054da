"""LeastFirst, a queue that returns the item with the least load."""

from __future__ import annotations

import random

from coordinator_server.core.groups.streams.assignors.sticky import LeastFirst


def test_the_least_comes_first() -> None:
    """Items come in the order of their loads, for any order of insertion."""
    chosen = random.Random(1)
    numbers = [chosen.randrange(50) for _ in range(300)]
    queue = LeastFirst(numbers, float)
    assert [queue.pop() for _ in numbers] == sorted(numbers)
    assert not queue


def test_which_of_the_same_load_comes_first_is_as_in_java() -> None:
    """Items of equal load are returned in the order of Java's PriorityQueue.

    When the root is removed, the last item of the heap replaces it.
    """
    queue = LeastFirst("abcd", lambda _: 0)
    assert "".join(queue.pop() for _ in range(4)) == "adcb"
