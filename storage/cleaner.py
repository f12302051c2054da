"""Compaction: keeps the last record per key (Kafka's LogCleaner), in small steps.

Only sealed segments are compacted. A pass reads the keys of the dirty part, which no pass has read
yet, then rewrites the segments from the log start on without superseded records. Offsets do not
change. Batches that keep all their records are copied unchanged. A tombstone gets a delete horizon
in its first pass and is removed in the first pass after the horizon (KIP-534). Records of aborted
transactions supersede nothing and are removed at once; a marker gets a horizon when its transaction
has no batches left. Batches of old formats are copied unchanged and supersede nothing.

To replace segments, `.log.cleaned` is written, synced and renamed to `.log.swap`. The rename is the
commit: `storage.log_loader` finishes the replacement after a later crash. Then the sources are
deleted and the swap file gets its final name. `.txnindex.cleaned` is the new transaction index.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial
from typing import NamedTuple

from protocol.batch_header import DELETE_HORIZON, BatchHeader, crc_is_valid, read_header
from protocol.control_record import end_marker_of
from protocol.errors import ProtocolError
from protocol.raw_records import raw_keys, records_section
from storage.batch_scan import RELATIVE_OFFSET_MAX
from storage.cleaned_transactions import CleanedTransactions
from storage.disk import Disk
from storage.errors import CorruptBatchError, StorageError
from storage.latest_keys import LatestKeys
from storage.log_loader import CLEANED_SUFFIX, SWAP_SUFFIX
from storage.partition_log import PartitionLog
from storage.retained_batch import retained_batch, retained_header
from storage.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
    segment_stem,
)
from storage.transaction_index import TRANSACTION_INDEX_SUFFIX, encoded
from storage.worker import Pause, in_worker

# The limit of keys per pass (about 60 MB); the next pass continues with the following batches.
KEYS_PER_PASS = 500_000
# A step processes this many bytes, which takes about a millisecond.
STEP_BYTES = 1 << 15
WRITE_BYTES = 1 << 20
# In the limit of a step, a skipped batch counts as this many bytes.
SKIPPED_BYTES = 1 << 9


class CleaningResult(NamedTuple):
    """The result of a pass; the next pass reads keys from `first_dirty_offset` on."""

    topic: str
    partition: int
    first_dirty_offset: int
    bytes_before: int
    bytes_after: int


def first_uncleanable_offset(log: PartitionLog, now_ms: int) -> int:
    """Return the offset where compaction must stop.

    The limit is the active segment, an open transaction, or `min.compaction.lag.ms`.
    """
    end = min(log.active_segment.base_offset, log.last_stable_offset)
    lag_ms = log.config.min_compaction_lag_ms
    for segment in log.segments[:-1] if lag_ms else ():
        if segment.max_timestamp > now_ms - lag_ms:
            return min(end, segment.base_offset)
    return end


def dirty_bytes(log: PartitionLog, first_dirty_offset: int, now_ms: int) -> tuple[int, int]:
    """Return the bytes of dirty sealed segments, and of all segments that can be compacted."""
    end = first_uncleanable_offset(log, now_ms)
    dirty = clean = 0
    for segment in log.segments[:-1]:
        if segment.base_offset >= end:
            break
        if segment.base_offset >= first_dirty_offset:
            dirty += segment.size_bytes
        else:
            clean += segment.size_bytes
    return dirty, dirty + clean


class Cleaning:
    """One pass over one log; `run` is a generator with short steps."""

    def __init__(
        self,
        log: PartitionLog,
        first_dirty_offset: int,
        now_ms: int,
        keys_per_pass: int = KEYS_PER_PASS,
    ) -> None:
        self._log = log
        self._disk: Disk = log.files.disk
        self._now_ms = now_ms
        self._first_dirty_offset = max(first_dirty_offset, log.log_start_offset)
        self._keys_per_pass = keys_per_pass
        self._latest = LatestKeys()
        self._superseded: set[int] = set()
        self._work_bytes = 0
        # `_limit`: the offset at which compaction must stop. `_end`: the offset at which this pass
        # must stop.
        self._limit = self._end = 0
        self._transactions = CleanedTransactions((), 0)

    def run(self) -> Generator[Pause | None, None, CleaningResult | None]:
        """Do the pass, in steps; return None if the log was closed meanwhile.

        Raises StorageError when the disk fails. After a failure before the commit, the log is
        unchanged; after a later failure, the log is closed and must be opened again.
        """
        log = self._log
        bytes_before = log.size_bytes
        try:
            aborted = [
                transaction for s in log.segments for transaction in s.transaction_index.entries()
            ]
            self._limit = first_uncleanable_offset(log, self._now_ms)
            self._transactions = CleanedTransactions(aborted, self._first_dirty_offset)
            self._superseded = log.key_sets.superseded(self._first_dirty_offset, self._limit)
            end = self._end = yield from self._read_keys(self._limit)
            log.key_sets.forget_below(end)
            self._transactions = CleanedTransactions(aborted, 0)
            first = 0
            while first < len(log.segments) - 1 and log.segments[first].base_offset < end:
                count = self._group_size(first, end)
                first += yield from self._clean_group(first, count)
                if log.closed:
                    return None
        except OSError as error:
            raise StorageError(
                f"{log.topic}-{log.partition} cannot be compacted: {error}"
            ) from error
        except ProtocolError as error:
            raise CorruptBatchError(f"the records of a batch do not parse: {error}") from error
        return CleaningResult(log.topic, log.partition, end, bytes_before, log.size_bytes)

    def _read_keys(self, end: int) -> Generator[Pause | None, None, int]:
        """Read the keys of the dirty part; return the offset where the part ends."""
        offset = self._first_dirty_offset
        sealed = self._log.segments[:-1]
        for number, segment in enumerate(sealed):
            if number + 1 < len(sealed) and sealed[number + 1].base_offset <= offset:
                continue
            for batch in segment.batches(segment.position_of(offset)):
                if batch.base_offset >= end or self._log.closed:
                    return end
                if len(self._latest) >= self._keys_per_pass:
                    return batch.base_offset
                size_bytes = batch.size_bytes
                if batch.base_offset in self._superseded:
                    self._latest.remember_superseded(batch)
                    size_bytes = SKIPPED_BYTES
                elif batch.magic == 2 and not self._transactions.is_aborted(batch):
                    self._remember_keys(segment.read_batch(batch), batch)
                if self._worked(size_bytes):
                    yield None
        return end

    def _remember_keys(self, data: bytes, batch: BatchHeader) -> None:
        if batch.is_control:
            self._transactions.is_spent(batch, end_marker_of(data, batch, batch.position))
            return
        _check_crc(data, batch)
        self._latest.remember(records_section(data, batch, batch.position), batch)

    def _worked(self, size_bytes: int) -> bool:
        """Count `size_bytes` of work; return whether the current step should end."""
        self._work_bytes += size_bytes
        if self._work_bytes < STEP_BYTES:
            return False
        self._work_bytes = 0
        return True

    def _group_size(self, first: int, end: int) -> int:
        """Return how many segments from `first` on fit into one segment (groupSegmentsBySize)."""
        log = self._log
        base_offset = log.segments[first].base_offset
        size_bytes = 0
        count = 0
        for number in range(first, len(log.segments) - 1):
            segment = log.segments[number]
            size_bytes += segment.size_bytes
            last_offset = log.segments[number + 1].base_offset - 1
            fits = size_bytes <= log.config.segment_bytes
            fits = fits and last_offset - base_offset <= RELATIVE_OFFSET_MAX
            if count and (not fits or segment.base_offset >= end):
                break
            count += 1
        return count

    def _clean_group(self, first: int, count: int) -> Generator[Pause | None, None, bool]:
        """Replace `count` segments by one rewritten segment; return False if nothing is left.

        The first segment of a log is kept even if empty, because its name is the log start.
        """
        log = self._log
        sources = log.segments[first : first + count]
        stem = segment_stem(log.directory, sources[0].base_offset)
        cleaned_path = stem + LOG_SUFFIX + CLEANED_SUFFIX
        if self._disk.exists(cleaned_path):
            self._disk.unlink(cleaned_path)
        index_path = stem + TRANSACTION_INDEX_SUFFIX + CLEANED_SUFFIX
        self._transactions.retained = []
        target = Segment(
            log.files,
            stem,
            sources[0].base_offset,
            log.config.index_interval_bytes,
            sources[0].created_ms,
        )
        committed = False
        try:
            self._disk.open(cleaned_path, create=True).close()
            yield from self._copy(sources, target, cleaned_path)
            if not self._is_still(first, count, sources):
                return True
            if not target.size_bytes and first:
                committed = True
                for source in sources:
                    # Delete the oldest segment first: after a crash no outdated value may be left.
                    source.delete(self._disk)
                log.replace_segments(first, count, [])
                self._disk.unlink(cleaned_path)
                return False
            yield from self._sync(cleaned_path)
            if self._transactions.retained:
                if self._disk.exists(index_path):
                    self._disk.unlink(index_path)
                self._append(index_path, encoded(self._transactions.retained))
                yield from self._sync(index_path)
            if not self._is_still(first, count, sources):
                return True
            self._disk.rename(cleaned_path, stem + LOG_SUFFIX + SWAP_SUFFIX)
            committed = True
            yield from in_worker(
                log.files.worker, partial(self._disk.sync_directory, log.directory)
            )
            if not self._is_still(first, count, sources):
                self._undo_commit(stem)
                return True
            self._swap(sources, stem)
            target.transaction_index.adopt(len(self._transactions.retained))
            log.replace_segments(first, count, [target])
            target.seal()
            return True
        except OSError:
            if committed:
                log.abandon()
            raise
        finally:
            for path in (cleaned_path, index_path) if not committed else ():
                if self._disk.exists(path):
                    self._disk.unlink(path)

    def _append(self, path: str, data: bytes) -> None:
        """Append to a file and close it, as Windows cannot delete a topic with an open file."""
        file = self._disk.open(path, create=True)
        try:
            file.append([data])
        finally:
            file.close()

    def _sync(self, path: str) -> Iterator[Pause]:
        """Sync a file in the worker. A missing file is not an error if the topic was deleted."""
        try:
            yield from in_worker(self._log.files.worker, partial(self._disk.sync_file, path))
        except FileNotFoundError:
            if not self._log.closed:
                raise

    def _is_still(self, first: int, count: int, sources: list[Segment]) -> bool:
        """Return whether neither deletion nor retention has removed a source segment."""
        return not self._log.closed and self._log.segments[first : first + count] == sources

    def _undo_commit(self, stem: str) -> None:
        """Delete the replacement of source segments that do not exist any more."""
        for name in (LOG_SUFFIX + SWAP_SUFFIX, TRANSACTION_INDEX_SUFFIX + CLEANED_SUFFIX):
            if self._disk.exists(stem + name):
                self._disk.unlink(stem + name)

    def _swap(self, sources: list[Segment], stem: str) -> None:
        for source in sources:
            source.close()
        for source in sources[1:]:
            source.delete(self._disk)
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
            if self._disk.exists(stem + suffix):
                self._disk.unlink(stem + suffix)
        if self._transactions.retained:
            index_path = stem + TRANSACTION_INDEX_SUFFIX
            self._disk.rename(index_path + CLEANED_SUFFIX, index_path)
        self._disk.rename(stem + LOG_SUFFIX + SWAP_SUFFIX, stem + LOG_SUFFIX)

    def _copy(
        self, sources: list[Segment], target: Segment, path: str
    ) -> Generator[Pause | None, None, None]:
        """Write the retained batches of the sources to the file `path`, and index the target."""
        waiting: list[bytes] = []
        waiting_bytes = 0
        for source in sources:
            for batch in source.batches():
                if self._log.closed:
                    return
                is_aborted = self._transactions.is_aborted(batch)
                if self._can_be_skipped(batch, is_aborted):
                    if self._worked(SKIPPED_BYTES):
                        yield None
                    continue
                data = source.read_batch(batch)
                if batch.is_control:
                    data = self._retained_marker(data, batch)
                elif batch.magic == 2:
                    data = self._retained(data, batch, is_aborted)
                if data:
                    waiting.append(data)
                    waiting_bytes += len(data)
                    max_timestamp_ms = read_header(data).max_timestamp_ms
                    target.appended(len(data), batch.last_offset, max_timestamp_ms)
                if waiting_bytes >= WRITE_BYTES:
                    self._append(path, b"".join(waiting))
                    # Sync each piece, so that the final sync is short.
                    yield from self._sync(path)
                    waiting.clear()
                    waiting_bytes = 0
                if self._worked(batch.size_bytes):
                    yield None
        if waiting and not self._log.closed:
            self._append(path, b"".join(waiting))

    def _retained(self, data: bytes, batch: BatchHeader, is_aborted: bool) -> bytes:
        """Return the retained bytes of a batch: the batch, a smaller batch, or nothing."""
        if is_aborted or not batch.record_count:
            return self._retained_header(data, batch)
        _check_crc(data, batch)
        horizon_ms = batch.delete_horizon_ms
        drops_tombstones = horizon_ms is not None and self._now_ms >= horizon_ms
        # Keep tombstones beyond the keys of this pass, because older values of their keys still
        # exist.
        drops_tombstones = drops_tombstones and batch.base_offset < self._end
        left = self._latest.records_left(batch)
        if left == batch.record_count and not self._latest.has_tombstones(batch):
            return data
        section = records_section(data, batch, batch.position)
        kept, has_tombstone = self._latest.kept(section, batch, drops_tombstones=drops_tombstones)
        new_horizon_ms = None
        if has_tombstone and horizon_ms is None:
            new_horizon_ms = self._now_ms + self._log.config.delete_retention_ms
        if len(kept) == batch.record_count and new_horizon_ms is None:
            return data
        if kept:
            return retained_batch(batch, kept, section, new_horizon_ms)
        return self._retained_header(data, batch)

    def _retained_marker(self, data: bytes, batch: BatchHeader) -> bytes:
        """Return the retained bytes of a control batch, which may get a horizon or be emptied."""
        if not self._transactions.is_spent(batch, end_marker_of(data, batch, batch.position)):
            return data
        if batch.record_count and not batch.attributes & DELETE_HORIZON:
            _check_crc(data, batch)
            section = records_section(data, batch, batch.position)
            kept = list(raw_keys(section, batch.record_count))
            horizon_ms = self._now_ms + self._log.config.delete_retention_ms
            return retained_batch(batch, kept, section, horizon_ms)
        if batch.record_count and self._now_ms < batch.base_timestamp_ms:
            return data
        return self._retained_header(data, batch)

    def _retained_header(self, data: bytes, batch: BatchHeader) -> bytes:
        """Return the retained bytes of a batch without retained records: a header or nothing."""
        if not self._keeps_header(batch):
            return b""
        if not batch.record_count:
            return data
        _check_crc(data, batch)
        return retained_header(batch)

    def _can_be_skipped(self, batch: BatchHeader, is_aborted: bool) -> bool:
        """Return whether a batch can be dropped without reading its records."""
        is_gone = is_aborted or self._latest.records_left(batch) == 0
        return is_gone and not self._keeps_header(batch)

    def _keeps_header(self, batch: BatchHeader) -> bool:
        """Return whether the header of a batch without records must be kept, as in Kafka.

        The header is kept if it has an active producer's last sequence (or epoch, if the producer
        wrote nothing after a marker), or the last offset that can be compacted.
        """
        if batch.last_offset + 1 == self._limit:
            return True
        entry = self._log.producers.entries.get(batch.producer_id)
        if entry is None:
            return False
        if entry.batches:
            return entry.batches[-1].last_offset == batch.last_offset
        return batch.is_control and batch.producer_epoch == entry.epoch


def _check_crc(data: bytes, batch: BatchHeader) -> None:
    """Raise CorruptBatchError for a wrong CRC, which rewriting the batch would conceal."""
    if not crc_is_valid(data, batch, batch.position):
        raise CorruptBatchError("a batch with a wrong CRC keeps its segment from being compacted")
