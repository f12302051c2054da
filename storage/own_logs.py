"""Compaction of internal topics (`__consumer_offsets` above all), which must stay small.

Kafka compacts its offsets topic when half of the sealed segments is dirty, and a segment has
100 MB. Here the own logs (of internal topics) are checked several times a second, and an active
segment is rolled for compaction, so that all own logs together stay within 1.3 times their live
data. Below `FLOOR_BYTES` nothing is compacted, because compacting small logs would cost as much as
the commits. Several logs are compacted concurrently: one continues while the disk syncs another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple

from storage.cleaner import Cleaning, CleaningResult, dirty_bytes
from storage.errors import StorageError
from storage.log_manager import LogManager
from storage.partition_log import PartitionLog
from storage.worker import Pause

FLOOR_BYTES = 32 << 20
"""Dirty bytes of all own logs together below which nothing is compacted."""

TOTAL_DIRTY_SHARE = 0.3
"""Ratio of dirty to clean bytes in all own logs above which the dirtiest logs are compacted."""

DIRTY_SHARE = 0.2
"""Smallest ratio of dirty to clean bytes for which a log is compacted."""

LEAST_BYTES_AT_START = 1 << 19
"""Dirty bytes for which a log is compacted when the broker starts."""

LEAST_CLEAN_SHARE = 1 / 32
"""Smallest clean size assumed for a log, as a share of the floor: a compaction has fixed costs."""

PASSES_AT_ONCE = 4
RETRY_MS = 15_000
"""Delay before a log is compacted again after a failure."""


class OwnLog(NamedTuple):
    """A log with its dirty bytes (not compacted yet) and its clean bytes.

    `rolls` tells whether the active segment is rolled for compaction and counted as dirty.
    """

    log: PartitionLog
    dirty_bytes: int
    clean_bytes: int
    rolls: bool


Step = CleaningResult | StorageError | Pause | None


def is_own(log: PartitionLog) -> bool:
    """Return whether a log is an own log: open, compacted and of an internal topic."""
    return log.topic.startswith("__") and log.config.compacts and not log.closed


def own_log_of(manager: LogManager, log: PartitionLog, now_ms: int) -> OwnLog:
    """Return the dirty and the clean bytes of an own log."""
    dirty, total = dirty_bytes(log, first_dirty_offset(manager, log), now_ms)
    clean = total - dirty
    # Do not roll an active segment that cannot be compacted yet: it would be rolled repeatedly.
    rolls = (
        log.active_segment.size_bytes > 0
        and log.last_stable_offset == log.log_end_offset
        and not log.config.min_compaction_lag_ms
    )
    if rolls:
        dirty += log.active_segment.size_bytes
    return OwnLog(log, dirty, clean, rolls)


class OwnLogs:
    """The logs of internal topics in one data directory."""

    __slots__ = ("_floor_bytes", "_manager", "_retry_at_ms")

    def __init__(self, manager: LogManager) -> None:
        self._manager = manager
        self._floor_bytes = FLOOR_BYTES
        self._retry_at_ms: dict[tuple[str, int], int] = {}

    def dirty_share(self, now_ms: int) -> float:
        """Return the ratio of dirty to clean bytes in all own logs.

        Compaction begins at TOTAL_DIRTY_SHARE. For small logs more clean bytes are assumed, so that
        TOTAL_DIRTY_SHARE is reached at FLOOR_BYTES.
        """
        return self._dirty_share(self._states(now_ms))

    def _dirty_share(self, states: list[OwnLog]) -> float:
        clean_bytes = sum([own.clean_bytes for own in states])
        least_bytes = max(self._floor_bytes / TOTAL_DIRTY_SHARE, 1)
        return sum([own.dirty_bytes for own in states]) / max(clean_bytes, least_bytes)

    @property
    def are_open(self) -> bool:
        """Whether any own log is open."""
        return any(is_own(log) for log in self._manager.open_logs(own=True))

    def due(self, now_ms: int) -> list[PartitionLog]:
        """Return the logs to compact now, dirtiest first."""
        states = self._states(now_ms)
        total = self._dirty_share(states)
        due: list[PartitionLog] = []
        if total <= TOTAL_DIRTY_SHARE:
            return due
        least_clean_bytes = max(self._floor_bytes * LEAST_CLEAN_SHARE, 1)
        surplus = sum([own.dirty_bytes for own in states]) * (1 - TOTAL_DIRTY_SHARE / total)
        shares = [own.dirty_bytes / max(own.clean_bytes, least_clean_bytes) for own in states]
        for share, own in sorted(zip(shares, states, strict=True), key=itemgetter(0), reverse=True):
            if surplus <= 0 or share < DIRTY_SHARE:
                break
            surplus -= own.dirty_bytes
            key = (own.log.topic, own.log.partition)
            if now_ms >= self._retry_at_ms.get(key, now_ms):
                due.append(own.log)
        return due

    def steps(self, due: list[PartitionLog], now_ms: int) -> Iterator[Step]:
        """Compact these logs, several concurrently."""
        yield from _together(self._pass_over(log, now_ms) for log in due)

    def _states(self, now_ms: int) -> list[OwnLog]:
        manager = self._manager
        return [
            own_log_of(manager, log, now_ms) for log in manager.open_logs(own=True) if is_own(log)
        ]

    def _pass_over(self, log: PartitionLog, now_ms: int) -> Iterator[Step]:
        key = (log.topic, log.partition)
        try:
            yield from own_pass(self._manager, log, now_ms)
            self._retry_at_ms.pop(key, None)
        except StorageError as error:
            self._retry_at_ms[key] = now_ms + RETRY_MS
            yield error


def own_pass(
    manager: LogManager, log: PartitionLog, now_ms: int
) -> Iterator[CleaningResult | Pause | None]:
    """Compact an own log, including its active segment if possible. Raises StorageError."""
    if is_own(log):
        if own_log_of(manager, log, now_ms).rolls:
            log.roll(now_ms)
        yield from clean(manager, log, now_ms)


def first_dirty_offset(manager: LogManager, log: PartitionLog) -> int:
    """Return the offset from which the next compaction of a log reads keys."""
    return min(manager.cleaner_offsets.get((log.topic, log.partition), 0), log.log_end_offset)


def clean(
    manager: LogManager, log: PartitionLog, now_ms: int
) -> Iterator[CleaningResult | Pause | None]:
    """Compact any log and yield the result last; do nothing if a compaction is in progress.

    Raises StorageError.
    """
    key = (log.topic, log.partition)
    if key in manager.being_cleaned:
        return
    manager.being_cleaned.add(key)
    try:
        cleaning = Cleaning(log, first_dirty_offset(manager, log), now_ms)
        result = yield from cleaning.run()
    finally:
        manager.being_cleaned.discard(key)
    if result is not None:
        counts = log.files.counts
        counts.compactions += 1
        counts.compacted_bytes += max(result.bytes_before - result.bytes_after, 0)
        manager.cleaner_offsets[key] = result.first_dirty_offset
        yield result


def _together(passes: Iterator[Iterator[Step]]) -> Iterator[Step]:
    """Run up to PASSES_AT_ONCE compactions concurrently, switching when one waits for the disk."""
    running: deque[Iterator[Step]] = deque()
    waits = 0
    while True:
        while len(running) < PASSES_AT_ONCE and (another := next(passes, None)) is not None:
            running.appendleft(another)
        if not running:
            return
        try:
            step = next(running[0])
        except StopIteration:
            running.popleft()
            waits = 0
            continue
        if step is not Pause.WAITING:
            waits = 0
            yield step
            continue
        running.rotate(-1)
        waits += 1
        if waits >= len(running):
            waits = 0
            yield step
