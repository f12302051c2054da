"""Logs to compact, and their contents."""

from __future__ import annotations

from collections.abc import Generator

from storage.cleaner import Cleaning, CleaningResult
from storage.log_config import LogConfig
from storage.partition_log import PartitionLog
from storage.worker import Pause
from tests.unit.storage.support import (
    NOW_MS,
    all_records,
)

CONFIG = LogConfig(cleanup_policy=("compact",), segment_bytes=600, delete_retention_ms=1000)


Contents = list[tuple[int, bytes | None, bytes | None]]


def clean(log: PartitionLog, first_dirty: int = 0, now_ms: int = NOW_MS) -> CleaningResult:
    """Run a whole pass and return its result."""
    return finished(Cleaning(log, first_dirty, now_ms))


def finished(cleaning: Cleaning) -> CleaningResult:
    """Run a pass to its end; return its result."""
    results: list[CleaningResult | None] = []

    def collect() -> Generator[Pause | None, None, None]:
        results.append((yield from cleaning.run()))

    for _ in collect():
        pass
    (result,) = results
    assert result is not None
    return result


def contents(log: PartitionLog) -> Contents:
    """Return (offset, key, value) of every record."""
    return [(record.offset, record.key, record.value) for record in all_records(log)]


def latest(log: PartitionLog) -> dict[bytes | None, bytes | None]:
    """Return the last value of each key without tombstones."""
    table = {key: value for _, key, value in contents(log)}
    return {key: value for key, value in table.items() if value is not None}
