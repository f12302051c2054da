"""One partition's log: appended at its end, read from any offset (Kafka's UnifiedLog, one replica).

`append_check` checks batches of clients; batches of the broker are appended unchanged. With a
single replica the high watermark is the log end. Errors are StorageErrors with an error code.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from protocol.batch import EncodedBatch
from protocol.batch_header import (
    BEFORE_CRC,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
)
from protocol.control_record import EndMarker
from protocol.errors import ProtocolError
from storage.append_check import check_client_batch
from storage.batch_scan import RELATIVE_OFFSET_MAX
from storage.checkpoints import write_partition_metadata
from storage.disk import Buffer
from storage.errors import (
    InvalidRecordError,
    LogOfflineError,
    OffsetOutOfRangeError,
    RecordListTooLargeError,
    StorageError,
    advice,
    too_large,
)
from storage.flush import Flush
from storage.key_sets import KeySets
from storage.log_loader import LogLoader, RecoveryReport, replay_producers
from storage.producer_state import ProducerState, save_snapshot, snapshot_path
from storage.segment import Segment, segment_stem
from storage.timestamp_search import (
    TimestampedOffset,
    first_record_since,
    record_with_max_timestamp,
)
from storage.transaction_index import AbortedTxn, aborted_between


class AppendResult(NamedTuple):
    """The result of an append; `log_append_time_ms` is -1 with CreateTime."""

    base_offset: int
    log_append_time_ms: int
    log_start_offset: int


class PartitionLog:
    """The log of one partition. Its directory is created with the first append."""

    __slots__ = (
        "_bases",
        "_hint",
        "_snapshot_offsets",
        "_tail",
        "_torn",
        "closed",
        "config",
        "directory",
        "files",
        "is_on_disk",
        "key_sets",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "names_are_synced",
        "partition",
        "producers",
        "recovery_point",
        "recovery_reports",
        "segments",
        "sync_failed",
        "topic",
        "topic_id",
    )

    def __init__(self, loader: LogLoader, topic_id: bytes) -> None:
        """Open the log with `loader`, which repairs the files. Raises StorageError."""
        self.files = loader.files
        self.directory = loader.directory
        self.topic = loader.topic
        self.partition = loader.partition
        self.topic_id = topic_id
        self.config = loader.config
        self.closed = self.sync_failed = False
        self.key_sets = KeySets()
        try:
            loaded = loader.load()
            self.is_on_disk = self.files.disk.exists(self.directory)
        except OSError as error:
            raise self.failed("opened", error) from error
        self.segments = loaded.segments
        self._bases = [segment.base_offset for segment in self.segments]
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.next_offset
        self.leader_epochs = loaded.leader_epochs
        self.producers = loaded.producers
        self.recovery_reports: list[RecoveryReport] = loaded.reports
        # After a clean stop all batches are synced.
        end = self.log_end_offset
        self.recovery_point = end if loader.clean else min(loader.recovery_point, end)
        self._snapshot_offsets = [loaded.snapshot_offset] if loaded.snapshot_offset >= 0 else []
        self.names_are_synced = self.is_on_disk and loader.clean
        self._torn = False
        # Positions of the last batch and of the end of the last read: (offset, segment, position).
        self._tail: tuple[int, Segment | None, int] = (-1, None, 0)
        self._hint: tuple[int, Segment | None, int] = (-1, None, 0)

    # --- offsets and sizes ------------------------------------------------------------------------

    @property
    def high_watermark(self) -> int:
        """The offset up to which consumers can read: the log end, with a single replica."""
        return self.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """The limit of read_committed consumers: the oldest open transaction or the log end."""
        first = self.producers.first_unstable_offset
        return self.log_end_offset if first is None else max(first, self.log_start_offset)

    @property
    def size_bytes(self) -> int:
        """The size of all segments."""
        return sum(segment.size_bytes for segment in self.segments)

    def bytes_below(self, offset: int) -> int:
        """Return the size of the batches that end below `offset`. Raises StorageError."""
        if offset >= self.log_end_offset:
            return self.size_bytes
        number = max(bisect_right(self._bases, offset) - 1, 0)
        with self._reading():
            below = self.segments[number].position_of(offset)
        return below + sum(segment.size_bytes for segment in self.segments[:number])

    @property
    def active_segment(self) -> Segment:
        """The segment that appends go to."""
        return self.segments[-1]

    def __repr__(self) -> str:
        offsets = f"{self.log_start_offset}..{self.log_end_offset}"
        return f"<PartitionLog {self.topic}-{self.partition} {offsets}>"

    # --- append -----------------------------------------------------------------------------------

    def append(self, records: Buffer, now_ms: int, *, may_block: bool = True) -> AppendResult:
        """Check a client's batch and append it; see `check_client_batch`, `append_checked`."""
        batch = check_client_batch(
            records, self.config, now_ms, self.topic, self.partition, may_block=may_block
        )
        return self.append_checked(batch, now_ms)

    def append_checked(self, batch: tuple[BatchHeader, bytes], now_ms: int) -> AppendResult:
        """Append a checked batch, or return a duplicate's earlier result. Raises StorageError."""
        if self.closed:
            raise self._gone()
        header, body = batch
        if header.producer_id >= 0:
            known = self.producers.check(header)
            if known is not None:
                return AppendResult(known.first_offset, known.timestamp, self.log_start_offset)
        return self._append(header, body, None, now_ms)

    def append_own(self, batch: EncodedBatch, now_ms: int) -> AppendResult:
        """Append a batch or a transaction marker that the broker built, without parsing.

        Raises StorageError; MessageTooLargeError above `max.message.bytes`, as for clients, because
        some consumers could not fetch a larger batch.
        """
        if self.closed:
            raise self._gone()
        header, body, marker, _ = batch
        if header.size_bytes > self.config.max_message_bytes:
            raise too_large(header.size_bytes, self.config.max_message_bytes)
        return self._append(header, body, marker, now_ms)

    def _append(
        self, header: BatchHeader, body: bytes, marker: EndMarker | None, now_ms: int
    ) -> AppendResult:
        """Assign offsets and leader epoch to a batch, and write the batch."""
        length, max_timestamp_ms = header.length, header.max_timestamp_ms
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        size_bytes = length + LOG_OVERHEAD_BYTES
        segment = self._segment_for(size_bytes, last_offset, max_timestamp_ms, now_ms)
        leader_epoch = self.leader_epochs.current
        front = BEFORE_CRC.pack(base_offset, length, leader_epoch, 2, header.crc)
        self._write(segment, [front, body])
        self._tail = (base_offset, segment, segment.size_bytes)
        segment.appended(size_bytes, last_offset, max_timestamp_ms)
        self.log_end_offset = last_offset + 1
        if header.producer_id >= 0:
            aborted = self.producers.append(header, last_offset, marker)
            if aborted is not None:
                # The directory entry of a new index file is synced only after the next roll. If a
                # crash loses the file before, recovery rebuilds the index from this segment.
                segment.transaction_index.add(aborted)
        if self.flush_is_due and not self.files.flushes_in_thread:
            self.flush()
        append_time_ms = max_timestamp_ms if header.attributes & LOG_APPEND_TIME else -1
        return AppendResult(base_offset, append_time_ms, self.log_start_offset)

    def _segment_for(
        self, size_bytes: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> Segment:
        """Return the segment to append to, after rolling a full or old active segment."""
        config = self.config
        if not self.is_on_disk:
            self._create()
        segment = self.segments[-1]
        if segment.size_bytes + size_bytes <= config.segment_bytes and not (
            segment.indexes_are_full(config.segment_index_bytes)
        ):
            if not segment.size_bytes:
                segment.created_ms = now_ms
                return segment
            since = segment.first_timestamp
            age_ms = max_timestamp - since if since >= 0 else now_ms - segment.created_ms
            if age_ms <= config.segment_ms and (
                last_offset - segment.base_offset <= RELATIVE_OFFSET_MAX
            ):
                return segment
        if size_bytes > config.segment_bytes:
            raise RecordListTooLargeError(
                f"Message batch size is {size_bytes} bytes in append to partition {self.topic}-"
                f"{self.partition}, which exceeds the maximum configured segment size of "
                f"{config.segment_bytes}."
            )
        self.roll(now_ms)
        return self.segments[-1]

    def _write(self, segment: Segment, buffers: list[Buffer]) -> None:
        """Write to a segment. The next write removes bytes that a failed write left."""
        try:
            if self._torn:
                segment.undo_write(self.files.disk)
                self._torn = False
            segment.write(buffers)
        except OSError as error:
            self._torn = True
            raise self.failed("written", error) from error

    def _create(self) -> None:
        """Create the directory, at the first append. Raises StorageError."""
        disk = self.files.disk
        try:
            disk.mkdir(self.directory)
            write_partition_metadata(disk, self.directory, self.topic_id)
            self.leader_epochs.save(disk, self.directory, self.log_end_offset)
        except OSError as error:
            raise self.failed("created", error) from error
        self.is_on_disk = True
        self.names_are_synced = False

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of appended batches."""
        return self.leader_epochs.current

    def begin_leader_epoch(self, leader_epoch: int) -> None:
        """Begin a later leader epoch for appended batches. Raises OSError."""
        self.leader_epochs.begin(leader_epoch, self.log_end_offset)
        if self.is_on_disk:
            self.leader_epochs.save(self.files.disk, self.directory, self.log_end_offset)

    def end_offset_of_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to `leader_epoch` and its end offset (KIP-101), or -1, -1."""
        return self.leader_epochs.end_offset(leader_epoch, self.log_end_offset)

    # --- read -------------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        at_least_one: bool = True,
        up_to: int | None = None,
    ) -> bytes:
        """Return whole batches from `offset` on, all below `up_to` (None: the log end).

        The first batch contains `offset` or is the next one after a gap from compaction. The
        result has at most `max_bytes`, unless `at_least_one` and the first batch is larger, and
        comes from one segment. Raises OffsetOutOfRangeError for an offset outside of the log, and
        StorageError.
        """
        if self.closed:
            raise self._gone()
        log_end = self.log_end_offset
        if not self.log_start_offset <= offset <= log_end:
            raise OffsetOutOfRangeError(
                f"offset {offset} of {self.topic}-{self.partition} is not within "
                f"{self.log_start_offset} to {log_end}"
            )
        end = log_end if up_to is None or up_to > log_end else up_to
        if offset >= end:
            return b""
        try:
            return self._read(offset, end, max_bytes, at_least_one)
        except OSError as error:
            raise self.failed("read", error) from error

    def _read(self, offset: int, end: int, max_bytes: int, at_least_one: bool) -> bytes:
        number = max(bisect_right(self._bases, offset) - 1, 0)
        for segment in self.segments[number:]:
            if segment.base_offset >= end:
                break
            start = self._position_of(segment, offset)
            limit = segment.size_bytes
            if end < self.log_end_offset:
                limit = min(limit, segment.position_of(end))
            if start >= limit:
                continue
            if start + max_bytes >= limit:
                if limit == segment.size_bytes and segment is self.segments[-1]:
                    self._hint = (self.log_end_offset, segment, limit)
                return segment.read(start, limit - start)
            stop, next_offset = segment.boundary_before(start, start + max_bytes)
            if stop > start:
                self._hint = (next_offset, segment, stop)
                return segment.read(start, stop - start)
            if not at_least_one:
                return b""
            first = next(segment.batches(start, HEADER_BYTES))
            return segment.read(start, first.size_bytes)
        return b""

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTxn]:
        """Return the aborted transactions that may contain records from `start` to `end`.

        Raises StorageError.
        """
        number = max(bisect_right(self._bases, start) - 1, 0)
        indexes = (segment.transaction_index for segment in self.segments[number:])
        with self._reading():
            return aborted_between(indexes, start, end)

    def _position_of(self, segment: Segment, offset: int) -> int:
        """Return the position of the batch with `offset`, from the index unless it is cached."""
        for known_offset, known_segment, position in (self._hint, self._tail):
            if known_offset == offset and known_segment is segment:
                return position
        return segment.position_of(offset)

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """Return the first record at or after `timestamp` (ms); None if all records are older.

        Raises StorageError, InvalidRecordError.
        """
        with self._reading():
            return first_record_since(self.segments, timestamp, self.log_start_offset, self.config)

    def max_timestamp(self) -> TimestampedOffset | None:
        """Return the first record with the log's largest timestamp (KIP-734); None if empty.

        Raises StorageError, InvalidRecordError.
        """
        with self._reading():
            return record_with_max_timestamp(self.segments, self.log_start_offset, self.config)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self.failed("read", error) from error
        except ProtocolError as error:
            raise InvalidRecordError(f"the records of a batch cannot be read: {error}") from error

    # --- roll and flush ---------------------------------------------------------------------------

    def roll(self, now_ms: int) -> None:
        """Seal the active segment unless empty, and begin a new one. Raises StorageError."""
        active = self.segments[-1]
        if not active.size_bytes:
            return
        try:
            if self._torn:
                active.undo_write(self.files.disk)
                self._torn = False
            active.seal()
            self.save_producer_snapshot()
            stem = segment_stem(self.directory, self.log_end_offset)
            interval = self.config.index_interval_bytes
            segment = Segment(self.files, stem, self.log_end_offset, interval, now_ms)
            segment.create()
        except OSError as error:
            raise self.failed("rolled", error) from error
        self.segments.append(segment)
        self._bases.append(self.log_end_offset)
        self.names_are_synced = False

    def save_producer_snapshot(self) -> None:
        """Write a snapshot of the producer state; keep only one older snapshot."""
        if self.log_end_offset in self._snapshot_offsets:
            return
        save_snapshot(self.files.disk, self.directory, self.log_end_offset, self.producers)
        self._snapshot_offsets.append(self.log_end_offset)
        while len(self._snapshot_offsets) > 2:
            path = snapshot_path(self.directory, self._snapshot_offsets.pop(0))
            if self.files.disk.exists(path):
                self.files.disk.unlink(path)

    @property
    def flush_is_due(self) -> bool:
        """Whether `flush.messages` requires a sync before the response to the last append."""
        return self.log_end_offset - self.recovery_point >= self.config.flush_messages

    def flush(self) -> None:
        """Sync all appended batches, to be safe from a power cut. Raises StorageError."""
        flush = Flush(self)
        try:
            flush.run()
        except OSError as error:
            raise self.failed("synced", error) from error
        flush.done()

    def truncate_to(self, offset: int) -> None:
        """Remove every batch that ends at or after `offset`, which becomes the log end."""
        if offset >= self.log_end_offset:
            return
        disk = self.files.disk
        while len(self.segments) > 1 and self._bases[-1] >= offset:
            self.segments.pop().delete(disk)
            self._bases.pop()
        active = self.segments[-1]
        active.cut(active.position_of(offset))
        active.transaction_index.truncate_to(offset)
        self.log_end_offset = max(offset, self.log_start_offset)
        self.recovery_point = min(self.recovery_point, self.log_end_offset)
        self.leader_epochs.truncate(self.log_end_offset)
        self._forget_positions()
        for snapshot in [s for s in self._snapshot_offsets if s > offset]:
            disk.unlink(snapshot_path(self.directory, snapshot))
        self._snapshot_offsets = [s for s in self._snapshot_offsets if s <= offset]
        self.key_sets.clear()
        self.producers = ProducerState()
        replay_producers(self.producers, self.segments, self.log_start_offset)

    def replace_segments(self, first: int, count: int, segments: list[Segment]) -> None:
        """Replace `count` segments from number `first` on by `segments` (compaction)."""
        self.segments[first : first + count] = segments
        self._bases[first : first + count] = [segment.base_offset for segment in segments]
        self._forget_positions()

    def drop_first_segments(self, count: int) -> None:
        """Delete the `count` oldest segments from disk, oldest first (retention)."""
        for _ in range(count):
            self.segments[0].delete(self.files.disk)
            del self.segments[0], self._bases[0]
            self._forget_positions()
            self.log_start_offset = max(self.log_start_offset, self._bases[0])

    def _forget_positions(self) -> None:
        self._tail = self._hint = (-1, None, 0)

    def close(self) -> None:
        """Write the indexes and the producer state, sync, close the files. Raises StorageError."""
        if self.closed:
            return
        if self.is_on_disk:
            try:
                if self._torn:
                    self.active_segment.undo_write(self.files.disk)
                self.active_segment.seal()
                self.save_producer_snapshot()
            except OSError as error:
                raise self.failed("closed", error) from error
            self.flush()
        self.abandon()

    def abandon(self) -> None:
        """Close the files without writing (the topic is being deleted, or the disk failed)."""
        self.closed = True
        for segment in self.segments:
            segment.close()

    def give_up(self, error: OSError) -> StorageError:
        """Abandon the log after a failed sync; return the error (see `flush.copy_unsynced`)."""
        self.sync_failed = True
        self.abandon()
        return self.failed("synced", error)

    def failed(self, deed: str, error: OSError) -> StorageError:
        """Return the error for the response after a disk failure."""
        return StorageError(f"{self.topic}-{self.partition} cannot be {deed}: {advice(error)}")

    def _gone(self) -> LogOfflineError:
        return LogOfflineError(f"{self.topic}-{self.partition} is closed")
