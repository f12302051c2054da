"""Compaction of internal topics (`__consumer_offsets` above all), which must stay small.

Kafka compacts its offsets topic once half of its sealed segments is dirty, and a segment there is
100 MB. Here these logs are looked at several times a second and an active segment is rolled for a
pass, so that all of them together stay within their live data and three tenths of it. Below
`FLOOR_BYTES` nothing is compacted: to keep a small log small would cost as much as the commits.
Several logs are compacted at the same time: while the disk syncs one, the next goes on.
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
"""What all own logs together may gather before any of them is compacted, whatever their size."""

TOTAL_DIRTY_SHARE = 0.3
"""And when what no pass has seen is above this part of what passes left, the dirtiest are."""

DIRTY_SHARE = 0.2
"""The least dirty part of a log for which a pass is worth its while."""

LEAST_BYTES_AT_START = 1 << 19
"""What is worth a pass when the broker starts."""

LEAST_CLEAN_SHARE = 1 / 32
"""A small log counts as if its clean part were so much of the floor: a pass has fixed costs."""

PASSES_AT_ONCE = 4
RETRY_MS = 15_000
"""After a pass failed, how long its log is left alone."""


class OwnLog(NamedTuple):
    """A log, and its bytes: what no pass has seen, active segment included, and the others."""

    log: PartitionLog
    dirty_bytes: int
    clean_bytes: int
    rolls: bool


Step = CleaningResult | StorageError | Pause | None


def is_own(log: PartitionLog) -> bool:
    """Whether a log is the broker's own, and compacted."""
    return log.topic.startswith("__") and log.config.compacts and not log.closed


def own_log_of(manager: LogManager, log: PartitionLog, now_ms: int) -> OwnLog:
    """The state of a log now."""
    dirty, total = dirty_bytes(log, first_dirty_offset(manager, log), now_ms)
    clean = total - dirty
    # An active segment that could not be cleaned is not rolled: it would be rolled again and again.
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
        """The dirty part over the clean one, of all internal logs together.

        Passes begin at TOTAL_DIRTY_SHARE: of small logs at the floor.
        """
        return self._dirty_share(self._states(now_ms))

    def _dirty_share(self, states: list[OwnLog]) -> float:
        clean_bytes = sum([own.clean_bytes for own in states])
        least_bytes = max(self._floor_bytes / TOTAL_DIRTY_SHARE, 1)
        return sum([own.dirty_bytes for own in states]) / max(clean_bytes, least_bytes)

    @property
    def are_open(self) -> bool:
        """Whether there is any to look at."""
        return any(is_own(log) for log in self._manager.open_logs(own=True))

    def due(self, now_ms: int) -> list[PartitionLog]:
        """The logs that are to be compacted now, the dirtiest first."""
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
        """Compact these logs."""
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
    """Compact an own log, with its active segment if that can be cleaned. Raises StorageError."""
    if is_own(log):
        if own_log_of(manager, log, now_ms).rolls:
            log.roll(now_ms)
        yield from clean(manager, log, now_ms)


def first_dirty_offset(manager: LogManager, log: PartitionLog) -> int:
    """Where the next pass over a log begins to read keys."""
    return min(manager.cleaner_offsets.get((log.topic, log.partition), 0), log.log_end_offset)


def clean(
    manager: LogManager, log: PartitionLog, now_ms: int
) -> Iterator[CleaningResult | Pause | None]:
    """One pass over any log, the result last; nothing while another is under way.

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
        manager.cleaner_offsets[key] = result.first_dirty_offset
        yield result


def _together(passes: Iterator[Iterator[Step]]) -> Iterator[Step]:
    """Do some passes at once: one goes on until it waits for the disk, then another does."""
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
