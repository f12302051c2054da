"""One segment: a `.log` file, its two sparse indexes and its aborted transactions (LogSegment).

A segment locates and appends batches. `storage.partition_log` decides which batches can be appended
and which offsets readers can see.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from protocol.batch_header import BatchHeader
from storage.batch_scan import (
    HEADER_WINDOW_BYTES,
    Corruption,
    scan_headers,
    verify_batches,
)
from storage.disk import Buffer, Disk
from storage.errors import CorruptBatchError
from storage.index import OffsetIndex, TimeIndex
from storage.open_files import LazyFile, OpenFiles
from storage.transaction_index import TRANSACTION_INDEX_SUFFIX, TransactionIndex, looks_whole

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
# The read size of header scans over whole segments.
LONG_SCAN_WINDOW_BYTES = 1 << 18


def segment_stem(directory: str, base_offset: int) -> str:
    """Return the path of a segment's files without their suffix."""
    return f"{directory}/{base_offset:020d}"


class Segment:
    """Batches from `base_offset` on. Sizes in bytes, timestamps in ms (-1: none)."""

    __slots__ = (
        "_index_interval_bytes",
        "_log",
        "_unindexed_bytes",
        "base_offset",
        "created_ms",
        "first_timestamp",
        "max_timestamp",
        "max_timestamp_offset",
        "offset_index",
        "size_bytes",
        "stem",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        files: OpenFiles,
        stem: str,
        base_offset: int,
        index_interval_bytes: int,
        created_ms: int,
        sizes: tuple[int, int | None, int | None, int | None] = (0, None, None, None),
    ) -> None:
        """Create a segment; `sizes` are the sizes of its files, None for a missing file.

        The order of `sizes` is: log, offset index, time index, transaction index.
        """
        self.base_offset = base_offset
        self.stem = stem
        self.created_ms = created_ms
        self.size_bytes = sizes[0]
        self._log = LazyFile(files, stem + LOG_SUFFIX)
        self.offset_index = OffsetIndex(files, stem + INDEX_SUFFIX, sizes[1])
        self.time_index = TimeIndex(files, stem + TIME_INDEX_SUFFIX, sizes[2])
        self.transaction_index = TransactionIndex(files, stem + TRANSACTION_INDEX_SUFFIX, sizes[3])
        self._index_interval_bytes = index_interval_bytes
        self._unindexed_bytes = 0
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        if self.time_index.last is not None:
            self.max_timestamp, relative = self.time_index.last
            self.max_timestamp_offset = base_offset + relative

    @staticmethod
    def load(
        disk: Disk, files: OpenFiles, stem: str, base_offset: int, index_interval_bytes: int
    ) -> tuple[Segment, bool]:
        """Return the segment of an existing log file, and whether its indexes look complete."""
        log_bytes = disk.size(stem + LOG_SUFFIX)
        index_bytes = _size_or_none(disk, stem + INDEX_SUFFIX)
        time_index_bytes = _size_or_none(disk, stem + TIME_INDEX_SUFFIX)
        created_ms = disk.modified_ms(stem + LOG_SUFFIX)
        transaction_index_bytes = _size_or_none(disk, stem + TRANSACTION_INDEX_SUFFIX)
        sizes = (log_bytes, index_bytes, time_index_bytes, transaction_index_bytes)
        segment = Segment(files, stem, base_offset, index_interval_bytes, created_ms, sizes)
        are_whole = segment._indexes_look_whole(index_bytes, time_index_bytes)
        if transaction_index_bytes and are_whole:
            contents = disk.read_file(stem + TRANSACTION_INDEX_SUFFIX)
            are_whole = looks_whole(contents, base_offset)
        return segment, are_whole

    def _indexes_look_whole(self, index_bytes: int | None, time_index_bytes: int | None) -> bool:
        """Return whether both indexes exist with complete entries, the last entry inside the log.

        These are Kafka's sanity checks.
        """
        if index_bytes is None or time_index_bytes is None:
            return False
        if index_bytes % OffsetIndex.entry.size or time_index_bytes % TimeIndex.entry.size:
            return False
        last = self.offset_index.last
        if last is not None and (last[0] < 0 or not 0 <= last[1] < self.size_bytes):
            return False
        return self.max_timestamp_offset >= self.base_offset and self._index_reaches_the_end()

    def _index_reaches_the_end(self) -> bool:
        """Return whether no entries are missing at the end: each interval has an entry."""
        last = self.offset_index.last
        indexed = last[1] if last is not None else 0
        try:
            for batch in scan_headers(self._log, indexed, self.size_bytes):
                if batch.position - indexed > self._index_interval_bytes > 0:
                    return False
                if (
                    last is not None
                    and batch.position == indexed
                    and (batch.last_offset != self.base_offset + last[0])
                ):
                    return False
        except CorruptBatchError:
            return False
        return True

    # --- writing ----------------------------------------------------------------------------------

    def create(self) -> None:
        """Create the log file. Its name preserves the log end if earlier segments are deleted."""
        self._log.get(create=True)

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Write batches at the end of the file. Call `appended` afterwards for each batch."""
        self._log.get(create=True).append(buffers)

    def appended(self, size_bytes: int, last_offset: int, max_timestamp: int) -> None:
        """Update size, timestamps and indexes for a batch written at the end of the file."""
        position = self.size_bytes
        self.size_bytes = position + size_bytes
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if position == 0:
            self.first_timestamp = max_timestamp
        if self._unindexed_bytes > self._index_interval_bytes:
            self.offset_index.add(last_offset - self.base_offset, position)
            self._index_time()
            self._unindexed_bytes = 0
        self._unindexed_bytes += size_bytes

    def _index_time(self) -> None:
        last = self.time_index.last
        if self.max_timestamp >= 0 and (last is None or self.max_timestamp > last[0]):
            self.time_index.add(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    def cut(self, size_bytes: int) -> None:
        """Truncate the log to `size_bytes` (a batch boundary) and rebuild the sparse indexes."""
        self._log.get().truncate(size_bytes)
        self.size_bytes = size_bytes
        self.rebuild_indexes()

    def undo_write(self, disk: Disk) -> None:
        """Remove bytes that a failed write may have left, which are not indexed."""
        if disk.exists(self._log.path):
            self._log.get().truncate(self.size_bytes)

    def rebuild_indexes(self) -> None:
        """Rebuild the offset and time index from the batch headers."""
        self._forget_indexes()
        for batch in self.batches():
            self.appended_at(batch)

    def _forget_indexes(self) -> None:
        self.offset_index.reset()
        self.time_index.reset()
        self._unindexed_bytes = 0
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.max_timestamp_offset = self.base_offset

    def appended_at(self, header: BatchHeader) -> None:
        """Index a batch that is already in the file."""
        size_bytes = self.size_bytes
        self.size_bytes = header.position
        self.appended(header.size_bytes, header.last_offset, header.max_timestamp_ms)
        self.size_bytes = size_bytes

    def verify(self, next_offset: int) -> Iterator[BatchHeader | Corruption]:
        """Verify every byte and rebuild the sparse indexes; yield batches, last any Corruption.

        The transaction index is not rebuilt, because a segment does not know which transactions
        are open at its start.
        """
        self._forget_indexes()
        for batch in verify_batches(self._log, 0, self.size_bytes, next_offset):
            if isinstance(batch, BatchHeader):
                self.appended_at(batch)
            yield batch

    def load_tail(self) -> int:
        """Scan batches after the last index entry and return the next offset.

        Raises CorruptBatchError if the file does not end at a batch boundary.
        """
        last = self.offset_index.last
        position = last[1] if last is not None else 0
        next_offset = self.base_offset
        for batch in scan_headers(self._log, position, self.size_bytes):
            next_offset = batch.last_offset + 1
            if batch.max_timestamp_ms > self.max_timestamp:
                self.max_timestamp = batch.max_timestamp_ms
                self.max_timestamp_offset = batch.last_offset
        self._unindexed_bytes = self.size_bytes - position
        if self.size_bytes:
            first = next(scan_headers(self._log, 0, self.size_bytes))
            self.first_timestamp = first.max_timestamp_ms
        return next_offset

    def seal(self) -> None:
        """Write the indexes to disk, when the segment is rolled or the log is closed."""
        # Save the transaction index first: if the other indexes exist at the next start, this
        # index is complete.
        self.transaction_index.save()
        if self.size_bytes:
            self._index_time()
            self.offset_index.save()
            self.time_index.save()

    def close(self) -> None:
        """Close the descriptors."""
        self._log.close()
        self.offset_index.close()
        self.time_index.close()
        self.transaction_index.close()

    # --- reading ----------------------------------------------------------------------------------

    def indexes_are_full(self, segment_index_bytes: int) -> bool:
        """Return whether an index has reached `segment.index.bytes`, which makes Kafka roll."""
        return (len(self.offset_index) + 1) * OffsetIndex.entry.size > segment_index_bytes or (
            len(self.time_index) + 1
        ) * TimeIndex.entry.size > segment_index_bytes

    def read_batch(self, header: BatchHeader) -> bytes:
        """Return the bytes of a batch. Use the header's position as `origin` to read the bytes."""
        return self.read(header.position, header.size_bytes)

    def read(self, position: int, length: int) -> bytes:
        """Return `length` bytes from `position` on. Raises OSError if the file has fewer."""
        data = self._log.pread(length, position)
        if len(data) != length:
            raise OSError(f"{self._log.path} ends before position {position + length}")
        return data

    def batches(
        self, position: int = 0, window_bytes: int = LONG_SCAN_WINDOW_BYTES
    ) -> Iterator[BatchHeader]:
        """Yield the batches from `position` (a batch boundary) on."""
        return scan_headers(self._log, position, self.size_bytes, window_bytes)

    def indexed_position(self, offset: int) -> int:
        """Return the position of the last indexed batch ending at or before `offset`, or 0."""
        number = self.offset_index.floor(offset - self.base_offset)
        return self.offset_index.at(number)[1] if number >= 0 else 0

    def position_of(self, offset: int) -> int:
        """Return the position of the first batch ending at or after `offset`, or the size."""
        position = self.indexed_position(offset)
        for batch in self.batches(position, HEADER_WINDOW_BYTES):
            if batch.last_offset >= offset:
                return batch.position
        return self.size_bytes

    def boundary_before(self, start: int, limit: int) -> tuple[int, int]:
        """Return the last batch boundary from `start` to `limit`, and the base offset at it.

        `start` must be a batch boundary, and `limit` must be inside the segment. Raises OSError.
        """
        number = self.offset_index.floor_of_second(limit)
        position = start
        if number >= 0:
            position = max(start, self.offset_index.at(number)[1])
        for batch in self.batches(position, HEADER_WINDOW_BYTES):
            if batch.end > limit:
                return batch.position, batch.base_offset
        raise AssertionError(f"{self.stem}: {limit} is not inside {self.size_bytes} bytes")

    def first_batch_since(self, timestamp: int, starting_offset: int) -> BatchHeader | None:
        """Return the first batch with a record at or after `timestamp` and `starting_offset`."""
        position = self.indexed_position(starting_offset)
        number = self.time_index.floor(timestamp)
        if number >= 0:
            offset = self.base_offset + self.time_index.at(number)[1]
            position = max(position, self.indexed_position(offset))
        for batch in self.batches(position):
            if batch.max_timestamp_ms >= timestamp and batch.last_offset >= starting_offset:
                return batch
        return None

    def delete(self, disk: Disk) -> None:
        """Delete the files, the log first: the next start removes indexes without a log."""
        self.close()
        for suffix in SUFFIXES:
            if disk.exists(self.stem + suffix):
                disk.unlink(self.stem + suffix)


def _size_or_none(disk: Disk, path: str) -> int | None:
    return disk.size(path) if disk.exists(path) else None
