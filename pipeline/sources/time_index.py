"""The first record at or after a time, from the indexes of segments and few batches of the log.

`.timeindex` has entries (greatest timestamp so far, relative offset), `.index` has entries
(relative offset, position), one per `index.interval.bytes` of log. Kafka preallocates the indexes
of the last segment, so that zeros follow the last entry. A segment without indexes is scanned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipeline.sources.batches import CorruptRange, batches_and_corruption
from pipeline.sources.logdir import SegmentFile
from pipeline.sources.sampling import Found
from protocol.batch import iterate_records
from protocol.batch_header import BatchHeader
from protocol.errors import ProtocolError

Entries = npt.NDArray[np.void]

_TIMES = np.dtype([("first", ">i8"), ("second", ">i4")])
_POSITIONS = np.dtype([("first", ">i4"), ("second", ">i4")])


def first_since(segments: Sequence[SegmentFile], time_ms: int, log_start: int) -> Found | None:
    """Return the first record with a timestamp of `time_ms` or later; None without one."""
    for segment in segments:
        times = _entries(segment, ".timeindex", _TIMES)
        is_last = segment is segments[-1]
        # The last entry of a closed segment has its greatest timestamp.
        if len(times) and not is_last and times["first"][-1] < time_ms:
            continue
        below = int(np.searchsorted(times["first"], time_ms))
        relative = int(times["second"][below - 1]) if below else 0
        record = _scanned(segment, _position(segment, relative), time_ms, log_start)
        if record is not None:
            return record
    return None


def greatest_ms(segments: Sequence[SegmentFile]) -> int | None:
    """Return the greatest timestamp of a log; None if no record has a timestamp."""
    greatest = -1
    for segment in segments:
        times = _entries(segment, ".timeindex", _TIMES)
        if len(times):
            greatest = max(greatest, int(times["first"][-1]))
        if segment is segments[-1] or not len(times):
            relative = int(times["second"][-1]) if len(times) else 0
            with _opened(segment) as data:
                for batch in _batches(data, segment, _position(segment, relative)):
                    greatest = max(greatest, batch.max_timestamp_ms)
    return greatest if greatest >= 0 else None


def _scanned(segment: SegmentFile, position: int, time_ms: int, log_start: int) -> Found | None:
    """Return the first record at or after a time among the batches from a position on."""
    with _opened(segment) as data:
        for batch in _batches(data, segment, position):
            if batch.max_timestamp_ms < time_ms or batch.next_offset <= log_start:
                continue
            try:
                for record in iterate_records(data, batch):
                    if record.timestamp_ms >= time_ms and record.offset >= log_start:
                        return Found(record.offset, record.timestamp_ms)
            except ProtocolError:  # the batch is damaged
                continue
    return None


def _batches(data: bytes | mmap, segment: SegmentFile, position: int) -> Iterator[BatchHeader]:
    """Yield the batches of a segment from a position on, where a batch begins."""
    end = min(len(data), segment.size_bytes)
    for step in batches_and_corruption(data, position, end, segment.base_offset):
        if not isinstance(step, CorruptRange):
            yield step


@contextmanager
def _opened(segment: SegmentFile) -> Iterator[bytes | mmap]:
    """Map a segment; without data if the file was swapped, deleted or emptied since its listing."""
    try:
        with open(segment.path, "rb") as file:
            data: bytes | mmap = mmap(file.fileno(), 0, access=ACCESS_READ)
    except (FileNotFoundError, ValueError):
        data = b""
    try:
        yield data
    finally:
        if isinstance(data, mmap):
            data.close()


def _position(segment: SegmentFile, relative: int) -> int:
    """Return the position of the last indexed batch at or below a relative offset."""
    entries = _entries(segment, ".index", _POSITIONS)
    number = int(np.searchsorted(entries["first"], relative, side="right"))
    return int(entries["second"][number - 1]) if number else 0


def _entries(segment: SegmentFile, suffix: str, entry: np.dtype[np.void]) -> Entries:
    """Return the entries of an index without the zeros that follow them; none without the file."""
    path = Path(segment.path).with_name(f"{segment.base_offset:020}{suffix}")
    try:
        count = path.stat().st_size // entry.itemsize
        entries = np.memmap(path, entry, "r", shape=(count,)) if count else np.empty(0, entry)
    except FileNotFoundError:
        return np.empty(0, entry)
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if entries["first"][middle] > 0:
            low = middle + 1
        else:
            high = middle
    return entries[:low]
