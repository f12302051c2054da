"""LeastFirst: a queue that gives what has the least load.

The heap of `heapq` would do, but which of several with the same load comes first is another one
there. This is the order of Java's PriorityQueue, so that the assignment is that of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class LeastFirst(Generic[T]):
    """A binary heap. The load of what is in it must not change."""

    def __init__(self, items: Iterable[T], load: Callable[[T], float]) -> None:
        self._load = load
        self._heap: list[T] = []
        for item in items:
            self.add(item)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, item: T) -> None:
        """Put it in."""
        heap, load = self._heap, self._load
        own_load, place = load(item), len(heap)
        heap.append(item)
        while place:
            above = (place - 1) // 2
            if own_load >= load(heap[above]):
                break
            heap[place] = heap[above]
            place = above
        heap[place] = item

    def pop(self) -> T:
        """Take the least one out."""
        heap, load = self._heap, self._load
        item = heap.pop()
        if not heap:
            return item
        least = heap[0]
        own_load, place, count = load(item), 0, len(heap)
        while place < count // 2:
            below = 2 * place + 1
            if below + 1 < count and load(heap[below]) > load(heap[below + 1]):
                below += 1
            if own_load <= load(heap[below]):
                break
            heap[place] = heap[below]
            place = below
        heap[place] = item
        return least
