"""One partition by its headers: slices to read, transactions, and how far it is stable.

A scan reads 35 bytes of each batch once and goes on where it stopped when more was appended. When
a segment that it has seen is no longer the same one (compaction, deletion) it begins again.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from pipeline.sources.hop import Broken, Buffer, Hop, crc_reason, hops
from pipeline.sources.logdir import LogPartition, SegmentFile, segments_of
from protocol.batch import BatchHeader, iterate_records
from protocol.batch_layout import CONTROL, TRANSACTIONAL
from protocol.errors import ProtocolError

SLICE_BYTES = 8 << 20
_PRODUCER_ID = Struct(">q")
_PRODUCER_ID_POSITION = 43
_ABORT, _COMMIT = 0, 1


class Aborted(NamedTuple):
    """A transaction whose records do not count: from its first offset to that of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class Slice(NamedTuple):
    """Batches of one file from `start` to `end`; wanted are `first_offset` to below `end_offset`.

    `due_offset` is where the batch at `start` may begin at the least. `inode` tells a reader
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
        """Whether the segments are those that were seen, the last one grown, new ones behind."""
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
        """Hop through a segment from `position` on."""
        self._position, self.torn_bytes = position, 0
        if segment.size_bytes <= position:
            return
        try:
            with open(segment.path, "rb") as file:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (FileNotFoundError, ValueError):  # swapped or emptied meanwhile: the next look
            return
        with data:
            self._hop_through(data, segment, position, min(len(data), segment.size_bytes), is_last)

    def _hop_through(
        self, data: Buffer, segment: SegmentFile, position: int, end: int, is_last: bool
    ) -> None:
        start, first_offset, offset = position, self.log_end, self.log_end
        border = start + self._slice_bytes
        for step in hops(data, position, end, offset):
            if type(step) is Broken:
                if is_last and step.end == end:
                    self.torn_bytes = end - step.position
                    end = step.position
                    break
                continue
            assert isinstance(step, Hop)
            if is_last and step.end == end and crc_reason(data, step) is not None:
                # The last bytes of a log may be on their way, or were never all written.
                self.torn_bytes = end - step.position
                end = step.position
                break
            offset = step.next_offset
            if step.attributes & (TRANSACTIONAL | CONTROL) and crc_reason(data, step) is None:
                self._transaction(data, step)
            if step.end >= border:
                self._pieces.append(_Piece(segment, start, step.end, first_offset, offset))
                start, first_offset = step.end, offset
                border = start + self._slice_bytes
        if start < end:
            self._pieces.append(_Piece(segment, start, end, first_offset, offset))
        self.log_end, self._position = offset, end

    def _transaction(self, data: Buffer, hop: Hop) -> None:
        """Note that a transaction goes on, or how it ended.

        Below the cleaner's checkpoint no transaction is open, and what was aborted is gone: data
        there counts even when the cleaner has removed its marker as well.
        """
        (producer_id,) = _PRODUCER_ID.unpack_from(data, hop.position + _PRODUCER_ID_POSITION)
        if not hop.attributes & CONTROL:
            if hop.base_offset >= self._cleaned_offset:
                self._open.setdefault(producer_id, hop.base_offset)
            return
        marker = _marker_type(data[hop.position : hop.end])
        if marker not in (_ABORT, _COMMIT):
            return
        first_offset = self._open.pop(producer_id, None)
        if marker == _ABORT and first_offset is not None:
            self._aborted.append(Aborted(producer_id, first_offset, hop.base_offset))

    def slices(self, first_offset: int | None = None, end_offset: int | None = None) -> list[Slice]:
        """The slices that hold offsets from `first_offset` on, below `end_offset`.

        None stands for the first one that is there, and for the last stable offset.
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
                    one
                    for one in self._aborted
                    if one.first_offset < piece.next_offset
                    and one.last_offset >= piece.first_offset
                ),
            )
            for piece in self._pieces
            if piece.first_offset < end and piece.next_offset > first
        ]


def _marker_type(batch: bytes) -> int:
    """What a control batch says: the second int16 of its record's key; -1 if it cannot be read."""
    try:
        for record in iterate_records(batch, BatchHeader(batch)):
            if record.key is not None and len(record.key) >= 4:
                return int.from_bytes(record.key[2:4], "big", signed=True)
    except ProtocolError:
        pass
    return -1
