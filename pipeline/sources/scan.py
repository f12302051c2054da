"""One partition by its headers: slices to read, transactions, and how far it is stable.

A scan reads the header of each batch once and goes on where it stopped when more was appended. When
a segment that it has seen is no longer the same one (compaction, deletion) it begins again.
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
    """A transaction whose records do not count: from its first offset to that of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class OpenTransaction(NamedTuple):
    """A transaction without a marker yet; `since_ms` is the timestamp of its first record.

    `since_ms` is null where that lies in a segment that was not looked at, or has no timestamp.
    """

    first_offset: int
    producer_id: int
    since_ms: int | None


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
        self._open: dict[int, OpenTransaction] = {}
        self._aborted: list[Aborted] = []

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction has ended; the log's end if none is open."""
        return min([self.log_end, *(one.first_offset for one in self._open.values())])

    @property
    def oldest_open(self) -> OpenTransaction | None:
        """The transaction that is open at the last stable offset; None without one."""
        return min(self._open.values(), key=lambda one: one.first_offset, default=None)

    def refresh(
        self,
        segments: list[SegmentFile] | None = None,
        begun: Mapping[int, int] | None = None,
    ) -> None:
        """Read the headers of what is new; of everything if what was seen has changed.

        `segments` are those to look at, all of the partition's unless some are given. `begun` are
        the transactions that are open where the first of them begins: first offset by producer id.
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


def first_timestamp_ms(batch: BatchHeader) -> int | None:
    """The timestamp of the first record of a batch; None without one."""
    stamp = batch.max_timestamp_ms if batch.log_append_time else batch.base_timestamp_ms
    return stamp if stamp >= 0 else None


def timestamp_at(segments: Sequence[SegmentFile], offset: int) -> int | None:
    """The first timestamp of the batch that holds an offset; None where it is not to be had."""
    below = [segment for segment in segments if segment.base_offset <= offset]
    if not below:
        return None
    try:
        with open(below[-1].path, "rb") as file:
            data = mmap(file.fileno(), 0, access=ACCESS_READ)
    except (FileNotFoundError, ValueError):  # swapped or emptied meanwhile
        return None
    with data:
        for step in batches_and_corruption(data, 0, len(data), below[-1].base_offset):
            if isinstance(step, BatchHeader) and step.next_offset > offset:
                return first_timestamp_ms(step)
    return None


def _is_whole(data: mmap, step: BatchHeader | CorruptRange) -> bool:
    return isinstance(step, BatchHeader) and crc_is_valid(data, step)
