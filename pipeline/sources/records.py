"""Parse the records of a slice with numpy: one operation per field for all records of a chunk.

A loop over the record lengths finds where records begin; everything after the loop is vectorised. A
chunk lies in one buffer: the bytes of the file, or the concatenated decompressed batches.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.decode.fields import FieldReader, Flags, Integers, Slices
from pipeline.sources.batches import CorruptRange, batches_and_corruption, resume_at
from pipeline.sources.scan import Aborted, PartitionScan, Slice
from protocol.batch import iterate_records
from protocol.batch_header import (
    BASE_TIMESTAMP_POSITION,
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAX_TIMESTAMP_POSITION,
    TRANSACTIONAL,
    BatchHeader,
    crc_mismatch,
    unpack_header,
)
from protocol.errors import ProtocolError
from protocol.raw_records import records_section
from protocol.varint import unsigned_varint_tail

CHUNK_RECORDS = 1 << 16
CHUNK_BYTES = 32 << 20


class Damage(NamedTuple):
    """Bytes that could not be read; `offset` is the next expected offset at their start."""

    offset: int
    reason: str


class RecordColumns(NamedTuple):
    """The records of one chunk. `keys` and `values` share a buffer and are in its order."""

    offset: Integers
    timestamp_ms: Integers
    has_timestamp: Flags
    keys: Slices
    values: Slices


def read_slice(part: Slice) -> Iterator[RecordColumns | Damage]:
    """Yield the records and damage of a slice.

    If the file was replaced since the slice was planned, its offsets are looked up in the new
    files.
    """
    try:
        with open(part.path, "rb") as file:
            if os.fstat(file.fileno()).st_ino == part.inode:
                file.seek(part.start)
                data = file.read(part.end - part.start)
                yield from _read(data, part)
                return
    except FileNotFoundError:
        pass
    scan = PartitionScan(part.partition)
    scan.refresh()
    for piece in scan.slices(part.first_offset, part.end_offset):
        # Keep the planned list of aborted transactions: compaction may have removed the markers.
        yield from read_slice(piece._replace(aborted=part.aborted))


class _Chunk:
    """Batches to be parsed together, either from `data` or decompressed.

    Only the positions of the headers in `data` are stored; `fields` reads their values at once.
    """

    def __init__(self, data: bytes, *, compressed: bool) -> None:
        self.data = data
        self.compressed = compressed
        self.pieces: list[bytes] = []
        self.size_bytes = 0
        self.headers: list[int] = []
        self.starts: list[int] = []
        self.stops: list[int] = []
        self.counts: list[int] = []

    @property
    def is_full(self) -> bool:
        """Return whether the chunk is large enough to be parsed."""
        return len(self.starts) >= CHUNK_RECORDS or self.size_bytes >= CHUNK_BYTES

    def add(self, header: int, count: int, position: int, end: int) -> str | None:
        """Add an uncompressed batch of `data`; return the reason if its records do not fit it."""
        if count == 1:
            self.starts.append(position)
        else:
            starts = _record_starts(self.data, position, end, count)
            if starts is None:
                return _misfit(count, end - position)
            self.starts += starts
        self.headers.append(header)
        self.counts.append(count)
        self.stops.append(end)
        return None

    def add_section(self, header: int, count: int, section: bytes) -> str | None:
        """Like `add`, for a batch whose records have been decompressed."""
        starts = _record_starts(section, 0, len(section), count)
        if starts is None:
            return _misfit(count, len(section))
        self.headers.append(header)
        self.counts.append(count)
        self.starts += [start + self.size_bytes for start in starts]
        self.size_bytes += len(section)
        self.stops.append(self.size_bytes)
        self.pieces.append(section)
        return None

    def fields(self, width: int, at: int) -> Integers:
        """Read an integer of `width` bytes at position `at` of every batch header."""
        view: npt.NDArray[np.int64] = np.ndarray(
            (len(self.data) - width + 1,), f">i{width}", self.data, strides=(1,)
        )
        return view[np.array(self.headers, np.int64) + at].astype(np.int64)


def _misfit(count: int, size_bytes: int) -> str:
    return f"its {count} records do not fill its {size_bytes} bytes"


def _read(data: bytes, part: Slice) -> Iterator[RecordColumns | Damage]:
    first_offset, end_offset = part.first_offset, part.end_offset
    chunk = _Chunk(data, compressed=False)
    for step in _checked(data, part.due_offset):
        if isinstance(step, CorruptRange):
            yield from _damage(step, part)
            continue
        base_offset, attributes = step.base_offset, step.attributes
        if base_offset >= end_offset or base_offset + step.last_offset_delta < first_offset:
            continue
        if attributes & (CONTROL | TRANSACTIONAL) and not _counts(step, part.aborted):
            continue
        try:
            if step.magic < 2:
                yield from _legacy(data, step, part)
                continue
            count, position = step.record_count, step.position
            compressed = attributes & COMPRESSION_MASK != 0 and count > 0
            if compressed is not chunk.compressed or chunk.is_full:
                yield from _parse(chunk, part)
                chunk = _Chunk(data, compressed=compressed)
            if compressed:
                reason = chunk.add_section(position, count, records_section(data, step))
            else:
                reason = chunk.add(position, count, position + HEADER_BYTES, step.end)
        except ProtocolError as error:
            reason = str(error)
        if reason is not None:
            yield from _damage(_whole_range(step, reason), part)
    yield from _parse(chunk, part)


def _checked(data: bytes, offset: int) -> Iterator[BatchHeader | CorruptRange]:
    """Yield batches with a valid CRC and the corrupt ranges between them.

    After a batch with a wrong CRC, the next valid batch is searched for from the following byte on,
    since the length in its header may be the damaged part.
    """
    position, end = 0, len(data)
    while position < end:
        good: BatchHeader | None = None
        start, position = position, end
        for step in batches_and_corruption(data, start, end, offset):
            if isinstance(step, CorruptRange):
                yield step
                continue
            reason = crc_mismatch(data, step)
            if reason is None:
                good = step
                yield step
                continue
            if good is not None:
                offset = good.next_offset
            position = step.end
            if step.magic == 2:
                position = resume_at(data, step.position + 1, end, offset)
            yield CorruptRange(step.position, position, offset, reason)
            break


def _whole_range(batch: BatchHeader, reason: str) -> CorruptRange:
    return CorruptRange(batch.position, batch.end, batch.base_offset, reason)


def _damage(corrupt: CorruptRange, part: Slice) -> Iterator[Damage]:
    if part.first_offset <= corrupt.offset < part.end_offset:
        name = os.path.relpath(part.path, os.path.dirname(part.partition.path))
        size_bytes, position = corrupt.end - corrupt.position, part.start + corrupt.position
        yield Damage(
            corrupt.offset, f"{size_bytes} bytes at {position} of {name}: {corrupt.reason}"
        )


def _counts(batch: BatchHeader, aborted: tuple[Aborted, ...]) -> bool:
    """Return whether a transactional batch is visible to consumers: no marker, not aborted."""
    if batch.is_control:
        return False
    return not any(
        transaction.producer_id == batch.producer_id
        and transaction.first_offset <= batch.base_offset <= transaction.last_offset
        for transaction in aborted
    )


def _record_starts(data: bytes, position: int, end: int, count: int) -> list[int] | None:
    """Return where each record begins; None if the records do not end where the batch ends."""
    starts: list[int] = []
    try:
        for _ in range(count):
            starts.append(position)
            length = data[position]
            position += 1
            if length > 127:
                length, position = unsigned_varint_tail(data, position, length)
            position += length >> 1
            if position > end:
                return None
    except IndexError:
        return None
    return starts if position == end and count >= 0 else None


def _parse(chunk: _Chunk, part: Slice) -> Iterator[RecordColumns | Damage]:
    """Yield all records of a chunk, and damage for batches with a malformed record."""
    if not chunk.starts:
        return
    whole = b"".join(chunk.pieces) if chunk.compressed else chunk.data
    data = np.frombuffer(whole, np.uint8)
    batch = np.repeat(np.arange(len(chunk.counts)), chunk.counts)
    starts = np.array(chunk.starts, np.int64)
    walk = FieldReader(data, starts, np.array(chunk.stops)[batch], np.ones(len(starts), np.bool_))
    walk.stop = walk.zigzags() + walk.position
    walk.alive &= walk.stop <= np.array(chunk.stops)[batch]
    walk.skip(np.ones(len(starts), np.int64))  # skip the attributes
    timestamp_delta = walk.zigzags(bits=64)
    offset_delta = walk.zigzags()
    keys = _sized(walk, starts)
    values = _sized(walk, keys.stop)
    # A record with a wrong length can overlap the next record. Such a record is bad, because
    # Arrow's offsets must not decrease.
    bad = ~walk.alive
    bad[1:] |= starts[1:] < values.stop[:-1]
    base_offset = chunk.fields(8, 0)
    if bad.any():
        for number in np.unique(batch[bad]).tolist():
            header = unpack_header(chunk.data, chunk.headers[number])
            yield from _damage(_whole_range(header, "its records do not parse"), part)
    append_time = chunk.fields(2, CRC_START) & LOG_APPEND_TIME != 0
    base_ms = chunk.fields(8, BASE_TIMESTAMP_POSITION)
    max_ms = chunk.fields(8, MAX_TIMESTAMP_POSITION)
    timestamp_ms = np.where(append_time[batch], max_ms[batch], base_ms[batch] + timestamp_delta)
    offset = base_offset[batch] + offset_delta
    good = ~np.isin(batch, batch[bad]) & (offset >= part.first_offset) & (offset < part.end_offset)
    yield _select(offset, timestamp_ms, keys, values, None if good.all() else good)


def _sized(walk: FieldReader, before: Integers) -> Slices:
    """Read bytes after a zigzag length; null if the length is negative."""
    length = walk.zigzags()
    valid = length >= 0
    start = walk.skip(np.maximum(length, 0))
    start = np.where(walk.alive, start, before)
    return Slices(walk.data, start, np.where(walk.alive, walk.position, before), valid)


def _select(
    offset: Integers, timestamp_ms: Integers, keys: Slices, values: Slices, good: Flags | None
) -> RecordColumns:
    if good is not None:
        offset, timestamp_ms = offset[good], timestamp_ms[good]
        keys, values = (
            Slices(field.data, field.start[good], field.stop[good], field.valid[good])
            for field in (keys, values)
        )
    return RecordColumns(offset, timestamp_ms, timestamp_ms >= 0, keys, values)


def _legacy(data: bytes, entry: BatchHeader, part: Slice) -> Iterator[RecordColumns]:
    """Yield the records of an entry of an old format (before version 2), one by one."""
    records = [
        record
        for record in iterate_records(data, entry)
        if part.first_offset <= record.offset < part.end_offset
    ]
    parts: list[bytes] = []
    for record in records:
        parts += [record.key or b"", record.value or b""]
    places = np.cumsum([0, *map(len, parts)])
    joined: npt.NDArray[np.uint8] = np.frombuffer(b"".join(parts), np.uint8)
    has_key = np.array([record.key is not None for record in records], np.bool_)
    has_value = np.array([record.value is not None for record in records], np.bool_)
    yield _select(
        np.array([record.offset for record in records], np.int64),
        np.array([record.timestamp_ms for record in records], np.int64),
        Slices(joined, places[0:-1:2], places[1::2], has_key),
        Slices(joined, places[1::2], places[2::2], has_value),
        None,
    )
