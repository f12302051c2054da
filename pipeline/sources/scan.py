"""Scan the batch headers of a partition for slices, transactions and the last stable offset.

A scan reads each header once, and continues at its last position after an append. If compaction or
deletion replaced a scanned segment, the scan starts again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from mmap import ACCESS_READ, mmap
from typing import NamedTuple

from pipeline.sources.batches import CorruptRange, batches_and_corruption
from pipeline.sources.logdir import LogPartition, SegmentFile, segments_of
from protocol.batch_header import CONTROL, TRANSACTIONAL, BatchHeader, crc_is_valid
from protocol.control_record import end_marker_of
from protocol.errors import ProtocolError

SLICE_BYTES = 8 << 20


class Aborted(NamedTuple):
    """An aborted transaction, from its first offset to the offset of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class OpenTransaction(NamedTuple):
    """A transaction without a marker yet; `since_ms` is the timestamp of its first record.

    `since_ms` is null if the record lies in a segment that was not scanned, or has no timestamp.
    """

    first_offset: int
    producer_id: int
    since_ms: int | None


class Slice(NamedTuple):
    """Batches of a file from `start` to `end`, for offsets `first_offset` to below `end_offset`.

    `due_offset` is the least possible offset of the batch at `start`. `inode` tells a reader
    whether the file is still the one that was planned.
    """

    partition: LogPartition
    path: str
    inode: int
    start: int
    end: int
    due_offset: int
    first_offset: int
    end_offset: int
    aborted: tuple[Aborted, ...]


class _Piece(NamedTuple):
    """A slice before the requested offsets are known."""

    segment: SegmentFile
    start: int
    end: int
    first_offset: int
    next_offset: int


class PartitionScan:
    """The state of one partition; `refresh` reads new data."""

    def __init__(
        self, partition: LogPartition, cleaned_offset: int = 0, slice_bytes: int = SLICE_BYTES
    ) -> None:
        self.partition = partition
        self._cleaned_offset = cleaned_offset
        self._slice_bytes = slice_bytes
        self._forget()

    def _forget(self) -> None:
        self.log_start: int | None = None
        self.log_end = 0
        self.torn_bytes = 0
        self._pieces: list[_Piece] = []
        self._seen: list[SegmentFile] = []
        self._position = 0
        self._open: dict[int, OpenTransaction] = {}
        self._aborted: list[Aborted] = []

    @property
    def last_stable_offset(self) -> int:
        """Return the first offset of the oldest open transaction, or the log end."""
        return min(
            [self.log_end, *(transaction.first_offset for transaction in self._open.values())]
        )

    @property
    def oldest_open(self) -> OpenTransaction | None:
        """Return the transaction that is open at the last stable offset; None without one."""
        return min(
            self._open.values(), key=lambda transaction: transaction.first_offset, default=None
        )

    def refresh(
        self,
        segments: list[SegmentFile] | None = None,
        begun: Mapping[int, int] | None = None,
    ) -> None:
        """Read the headers of new batches; those of all batches if a scanned segment changed.

        `segments` are the segments to scan, by default all of the partition. `begun` are the
        transactions that are open where the first segment begins: first offset by producer id.
        """
        segments = segments_of(self.partition) if segments is None else segments
        if not self._continues(segments):
            self._forget()
        if segments and self.log_start is None:
            self.log_start = self.log_end = segments[0].base_offset
            for producer_id, offset in (begun or {}).items():
                self._open[producer_id] = OpenTransaction(offset, producer_id, None)
        first = max(len(self._seen) - 1, 0)
        for number, segment in enumerate(segments[first:], first):
            self.log_end = max(self.log_end, segment.base_offset)
            same = number < len(self._seen)
            self._scan(segment, self._position if same else 0, number == len(segments) - 1)
        self._seen = segments

    def _continues(self, segments: Sequence[SegmentFile]) -> bool:
        """Return whether the segments only extend those scanned before."""
        if len(segments) < len(self._seen):
            return False
        pairs = list(zip(self._seen, segments, strict=False))
        return all(
            old.inode == new.inode
            and old.base_offset == new.base_offset
            and (old.size_bytes == new.size_bytes or number == len(pairs) - 1)
            and old.size_bytes <= new.size_bytes
            for number, (old, new) in enumerate(pairs)
        )

    def _scan(self, segment: SegmentFile, position: int, is_last: bool) -> None:
        """Scan a segment from `position` on."""
        self._position, self.torn_bytes = position, 0
        if segment.size_bytes <= position:
            return
        try:
            with open(segment.path, "rb") as file:
                data = mmap(file.fileno(), 0, access=ACCESS_READ)
        except (FileNotFoundError, ValueError):
            # The file was swapped or emptied; the next refresh reads it.
            return
        with data:
            self._scan_batches(data, segment, position, min(len(data), segment.size_bytes), is_last)

    def _scan_batches(
        self, data: mmap, segment: SegmentFile, position: int, end: int, is_last: bool
    ) -> None:
        start, first_offset = position, self.log_end
        border = start + self._slice_bytes
        last: BatchHeader | None = None
        for step in batches_and_corruption(data, position, end, self.log_end):
            stop = step.end
            if is_last and stop == end and not _is_whole(data, step):
                # The last batch may be incomplete: still being written, or cut off.
                self.torn_bytes = end - step.position
                end = step.position
                break
            if isinstance(step, CorruptRange):
                continue
            last = step
            if step.attributes & (TRANSACTIONAL | CONTROL) and crc_is_valid(data, step):
                self._transaction(data, step)
            if stop >= border:
                offset = step.next_offset
                self._pieces.append(_Piece(segment, start, stop, first_offset, offset))
                start, first_offset = stop, offset
                border = start + self._slice_bytes
        if last is not None:
            self.log_end = last.next_offset
        if start < end:
            self._pieces.append(_Piece(segment, start, end, first_offset, self.log_end))
        self._position = end

    def _transaction(self, data: mmap, batch: BatchHeader) -> None:
        """Record the start or end of a transaction.

        Below the cleaner's checkpoint, no transaction is open and aborted records have been
        removed, so data there counts even if the cleaner has removed the marker as well.
        """
        producer_id, offset = batch.producer_id, batch.base_offset
        if not batch.is_control:
            if offset >= self._cleaned_offset:
                begun = OpenTransaction(offset, producer_id, first_timestamp_ms(batch))
                self._open.setdefault(producer_id, begun)
            return
        try:
            marker = end_marker_of(data, batch)
        except ProtocolError:
            return
        if marker is None:
            return
        ended = self._open.pop(producer_id, None)
        if not marker.commits and ended is not None:
            self._aborted.append(Aborted(producer_id, ended.first_offset, offset))

    def slices(self, first_offset: int | None = None, end_offset: int | None = None) -> list[Slice]:
        """Return the slices with offsets from `first_offset` to below `end_offset`.

        None means the log start and the last stable offset.
        """
        first = self.log_start or 0 if first_offset is None else first_offset
        end = self.last_stable_offset if end_offset is None else end_offset
        return [
            Slice(
                self.partition,
                piece.segment.path,
                piece.segment.inode,
                piece.start,
                piece.end,
                piece.first_offset,
                max(first, piece.first_offset),
                min(end, piece.next_offset),
                tuple(
                    transaction
                    for transaction in self._aborted
                    if transaction.first_offset < piece.next_offset
                    and transaction.last_offset >= piece.first_offset
                ),
            )
            for piece in self._pieces
            if piece.first_offset < end and piece.next_offset > first
        ]


def first_timestamp_ms(batch: BatchHeader) -> int | None:
    """Return the timestamp of a batch's first record; None if it has no timestamp."""
    stamp = batch.max_timestamp_ms if batch.log_append_time else batch.base_timestamp_ms
    return stamp if stamp >= 0 else None


def timestamp_at(segments: Sequence[SegmentFile], offset: int) -> int | None:
    """Return the first timestamp of the batch with an offset; None if it cannot be read."""
    below = [segment for segment in segments if segment.base_offset <= offset]
    if not below:
        return None
    try:
        with open(below[-1].path, "rb") as file:
            data = mmap(file.fileno(), 0, access=ACCESS_READ)
    except (FileNotFoundError, ValueError):  # the file was swapped or emptied since it was listed
        return None
    with data:
        for step in batches_and_corruption(data, 0, len(data), below[-1].base_offset):
            if isinstance(step, BatchHeader) and step.next_offset > offset:
                return first_timestamp_ms(step)
    return None


def _is_whole(data: mmap, step: BatchHeader | CorruptRange) -> bool:
    return isinstance(step, BatchHeader) and crc_is_valid(data, step)
