"""One partition by its headers: slices to read, transactions, and how far it is stable.

A scan reads the header of each batch once and goes on where it stopped when more was appended. When
a segment that it has seen is no longer the same one (compaction, deletion) it begins again.
"""

from __future__ import annotations

from collections.abc import Sequence
from mmap import ACCESS_READ, mmap
from typing import NamedTuple

from pipeline.sources.batches import CorruptRange, batches_and_corruption
from pipeline.sources.logdir import LogPartition, SegmentFile, segments_of
from protocol.batch_header import CONTROL, TRANSACTIONAL, BatchHeader, crc_is_valid
from protocol.control_record import end_marker_of
from protocol.errors import ProtocolError

SLICE_BYTES = 8 << 20


class Aborted(NamedTuple):
    """A transaction whose records do not count: from its first offset to that of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class Slice(NamedTuple):
    """Batches of one file from `start` to `end`; wanted are `first_offset` to below `end_offset`.

    `due_offset` is where the batch at `start` may begin at the least. `inode` shows a reader
    whether it is still the file that was planned.
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
    """A slice before it is known what of it is asked for."""

    segment: SegmentFile
    start: int
    end: int
    first_offset: int
    next_offset: int


class PartitionScan:
    """What is known of one partition; `refresh` looks again."""

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
        self._open: dict[int, int] = {}
        self._aborted: list[Aborted] = []

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction has ended; the log's end if none is open."""
        return min([self.log_end, *self._open.values()])

    @property
    def holder(self) -> str | None:
        """The producer whose open transaction is at the last stable offset; None without one."""
        first = min(self._open.items(), key=lambda pair: pair[1], default=None)
        return None if first is None else f"producer {first[0]}"

    def refresh(self, segments: list[SegmentFile] | None = None) -> None:
        """Read the headers of what is new; of everything if what was seen has changed.

        `segments` are those to look at, all of the partition's unless some are given.
        """
        segments = segments_of(self.partition) if segments is None else segments
        if not self._continues(segments):
            self._forget()
        if segments and self.log_start is None:
            self.log_start = self.log_end = segments[0].base_offset
        first = max(len(self._seen) - 1, 0)
        for number, segment in enumerate(segments[first:], first):
            self.log_end = max(self.log_end, segment.base_offset)
            same = number < len(self._seen)
            self._scan(segment, self._position if same else 0, number == len(segments) - 1)
        self._seen = segments

    def _continues(self, segments: Sequence[SegmentFile]) -> bool:
        """Whether the segments are those that were seen, the last one grown, new ones after it."""
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
        except (FileNotFoundError, ValueError):  # swapped or emptied meanwhile: the next look
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
                # The last bytes of a log may be on their way, or were never all written.
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
        """Note that a transaction goes on, or how it ended.

        Below the cleaner's checkpoint no transaction is open, and what was aborted is gone: data
        there counts even when the cleaner has removed its marker as well.
        """
        producer_id, offset = batch.producer_id, batch.base_offset
        if not batch.is_control:
            if offset >= self._cleaned_offset:
                self._open.setdefault(producer_id, offset)
            return
        try:
            marker = end_marker_of(data, batch)
        except ProtocolError:
            return
        if marker is None:
            return
        first_offset = self._open.pop(producer_id, None)
        if not marker.commits and first_offset is not None:
            self._aborted.append(Aborted(producer_id, first_offset, offset))

    def slices(self, first_offset: int | None = None, end_offset: int | None = None) -> list[Slice]:
        """The slices that hold offsets from `first_offset` on, below `end_offset`.

        None means the first one that is there, and for the last stable offset.
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


def _is_whole(data: mmap, step: BatchHeader | CorruptRange) -> bool:
    return isinstance(step, BatchHeader) and crc_is_valid(data, step)
