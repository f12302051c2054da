"""LeastFirst: a priority queue with the lowest load first.

Items with equal load have the same order as in Java's PriorityQueue, so that assignments equal
Kafka's; the order of `heapq` differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class LeastFirst(Generic[T]):
    """A binary heap. The load of a queued item must not change."""

    def __init__(self, items: Iterable[T], load: Callable[[T], float]) -> None:
        self._load = load
        self._heap: list[T] = []
        for item in items:
            self.add(item)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, item: T) -> None:
        """Add an item."""
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
        """Remove and return the item with the lowest load."""
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
