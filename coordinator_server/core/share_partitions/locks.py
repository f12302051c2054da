"""AcquisitionLocks: the acquisition locks of a share partition, by deadline.

A consumer must acknowledge acquired records before the lock expires. A lock covers the records
that one member acquired together and has not acknowledged. The heap entry of a lock without
records is dead, and dead entries are removed before they outnumber live entries. (Kafka has a
timer for each batch, or for each offset of a split batch.)
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.core.share_partitions.in_flight import AcquisitionLock

SMALLEST_SWEEP = 16
"""A heap with fewer entries is not swept."""


class AcquisitionLocks:
    """The locks of one share partition, by deadline."""

    __slots__ = ("_heap", "_pushed", "_sweep_size", "has_new_deadline")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, AcquisitionLock]] = []
        self._pushed = 0
        self._sweep_size = SMALLEST_SWEEP
        self.has_new_deadline = False
        """Set when a lock is added; cleared by the runtime once its timer covers the lock."""

    def __len__(self) -> int:
        """Return the length of the heap, including dead entries."""
        return len(self._heap)

    def add(self, lock: AcquisitionLock) -> None:
        """Add a lock, to expire at its deadline."""
        self._pushed += 1
        heappush(self._heap, (lock.deadline_ms, self._pushed, lock))
        self.has_new_deadline = True
        if len(self._heap) > self._sweep_size:
            self._heap = [entry for entry in self._heap if entry[2].held]
            heapify(self._heap)
            self._sweep_size = max(SMALLEST_SWEEP, 2 * len(self._heap))

    def next_deadline_ms(self) -> int | None:
        """Return the deadline of the first lock, or None without locks."""
        heap = self._heap
        while heap:
            if heap[0][2].held:
                return heap[0][0]
            heappop(heap)
        return None

    def expired(self, now_ms: int) -> list[AcquisitionLock]:
        """Remove and return the locks whose deadline has passed, earliest first."""
        heap = self._heap
        expired: list[AcquisitionLock] = []
        while heap and heap[0][0] <= now_ms:
            lock = heappop(heap)[2]
            if lock.held:
                lock.has_expired = True
                expired.append(lock)
        return expired

    def clear(self) -> None:
        """Remove all locks."""
        self._heap.clear()
