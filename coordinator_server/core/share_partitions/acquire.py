"""Acquisition of fetched records by a member (SharePartition.acquire).

New records are acquired in the batches of the log. Released records are acquired again in the
batches, or parts of batches, in which they are kept. Whole batches are acquired even beyond the
request's limit, unless the request asks for a strict record limit (KIP-1206). The more often
records were delivered, the fewer records are acquired at once. For the last delivery each record is
acquired alone, so that a record that no consumer can process affects few other records.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.share_partitions.in_flight import InFlightBatch, Run
from coordinator_server.core.share_partitions.record_state import RecordState

if TYPE_CHECKING:
    from coordinator_server.core.share_partitions.fetched import FetchedBatches
    from coordinator_server.core.share_partitions.share_partition import SharePartition


class AcquireMode(IntEnum):
    """Whether whole batches may exceed the record limit of a request; RECORD_LIMIT is strict.

    ShareFetch v1 supports only BATCH_OPTIMIZED.
    """

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


class AcquiredRange(NamedTuple):
    """Acquired consecutive offsets, first and last included."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Acquired(NamedTuple):
    """The acquired ranges, and the total number of offsets."""

    ranges: list[AcquiredRange]
    total: int


def acquire(
    partition: SharePartition,
    member_id: str,
    mode: AcquireMode,
    batch_size: int,
    max_records: int,
    fetch_offset: int,
    fetched: FetchedBatches,
    now_ms: int,
) -> Acquired:
    """Acquire records of `fetched`, which was read at `fetch_offset`, for a member."""
    if (
        not partition.is_active
        or max_records <= 0
        or not fetched.base_offsets
        or fetched.last_offset < partition.start_offset
    ):
        return Acquired([], 0)
    acquisition = _Acquisition(partition, member_id, mode, batch_size, fetched, now_ms)
    if not acquisition.limit(fetch_offset, max_records):
        return Acquired([], 0)
    acquisition.archive_stale(fetch_offset)
    acquisition.run()
    return acquisition.acquired()


class _Acquisition:
    """One acquisition in progress."""

    __slots__ = (
        "_batch_size",
        "_fetched",
        "_is_record_limit",
        "_last",
        "_max_records",
        "_member_id",
        "_now_ms",
        "_partition",
        "_settings",
        "count",
        "ranges",
    )

    def __init__(
        self,
        partition: SharePartition,
        member_id: str,
        mode: AcquireMode,
        batch_size: int,
        fetched: FetchedBatches,
        now_ms: int,
    ) -> None:
        self._partition = partition
        self._settings = partition.settings
        self._member_id = member_id
        self._is_record_limit = mode is AcquireMode.RECORD_LIMIT
        self._batch_size = batch_size
        self._fetched = fetched
        self._now_ms = now_ms
        self._last = self._max_records = 0
        self.ranges: list[AcquiredRange] = []
        self.count = 0

    def limit(self, fetch_offset: int, max_records: int) -> bool:
        """Set the last offset and the number of records to acquire.

        Returns whether any record can be acquired. At the in-flight limit, only records that are
        already in flight can be acquired again.
        """
        partition = self._partition
        self._last = self._fetched.last_offset
        left = self._settings.partition_max_record_locks - partition.in_flight_count
        self._max_records = min(max_records, left)
        if self._max_records <= 0 and fetch_offset <= partition.end_offset:
            self._max_records = min(max_records, partition.end_offset - fetch_offset + 1)
            self._last = min(self._last, partition.end_offset)
        return self._max_records > 0

    def archive_stale(self, fetch_offset: int) -> None:
        """Archive available records that compaction has removed from the log."""
        partition, base = self._partition, self._fetched.first_offset
        if fetch_offset >= base:
            return
        floor = partition.in_flight.floor(fetch_offset)
        first = fetch_offset
        if floor is not None and floor.last_offset >= fetch_offset:
            first = floor.first_offset
        stale = partition.in_flight.beginning_in(first, base - 1)
        partition.delivery_complete_count += partition.archive(
            stale, fetch_offset, base - 1, RecordState.AVAILABLE
        )

    def run(self) -> None:
        """Acquire available records in flight, then new records."""
        partition, base = self._partition, self._fetched.first_offset
        floor = partition.in_flight.floor(base)
        first = base
        if floor is not None and floor.last_offset >= base:
            first = floor.first_offset
        known = partition.in_flight.beginning_in(first, self._last)
        if not known:
            self._acquire_new(first, self._last, self._max_records)
            return
        self._acquire_known(known, first)
        last_known = known[-1].last_offset
        if self.count < self._max_records and last_known < self._last:
            self._acquire_new(last_known + 1, self._last, self._max_records - self.count)
        if self.ranges:
            partition.move_gap_window(self.ranges[-1].last_offset + 1)

    def acquired(self) -> Acquired:
        """Return the acquired ranges without aborted transactions, whose records are archived."""
        ranges = self.ranges
        aborted = self._fetched.aborted_ranges() if ranges else []
        if not aborted:
            return Acquired(ranges, self.count)
        partition = self._partition
        for first, last in aborted:
            floor = partition.in_flight.floor(first)
            batches = partition.in_flight.beginning_in(
                first if floor is None else floor.first_offset, last
            )
            partition.delivery_complete_count += partition.archive(
                batches, first, last, RecordState.ACQUIRED
            )
        left = without(ranges, aborted)
        return Acquired(left, sum(last - first + 1 for first, last, _ in left))

    # --- records in flight ------------------------------------------------------------------------

    def _acquire_known(self, known: list[InFlightBatch], gap_offset: int) -> None:
        """Acquire the available records of these batches, and of gaps that were never fetched."""
        partition, base = self._partition, self._fetched.first_offset
        for batch in known:
            if self.count >= self._max_records:
                break
            if partition.gap_start_offset is not None:
                if gap_offset < batch.first_offset:
                    left = self._max_records - self.count
                    self._acquire_new(gap_offset, batch.first_offset - 1, left)
                gap_offset = batch.last_offset + 1
                if self.count >= self._max_records:
                    break
            is_throttled = self._is_throttled(batch)
            if is_throttled and self.count:
                self._max_records = 0
                break
            left = self._max_records - self.count
            if (
                batch.by_offset
                or is_throttled
                or not batch.is_within(base, self._last)
                or (self._is_record_limit and len(batch) > left)
            ):
                count = self._acquire_part(batch, left)
                if is_throttled and count:
                    self._max_records = 0
                    break
            elif batch.runs[0].is_available:
                self._acquire_run(batch, batch.runs[0])

    def _is_throttled(self, batch: InFlightBatch) -> bool:
        """Return whether records of a batch have reached the delivery count `throttle_limit`."""
        limit = self._settings.throttle_limit
        if not batch.by_offset:
            run = batch.runs[0]
            return run.is_available and run.delivery_count >= limit
        base, last = self._fetched.first_offset, self._last
        return any(
            run.is_available
            and run.delivery_count >= limit
            and run.first <= last
            and run.last >= base
            for run in batch.runs
        )

    def _acquire_part(self, batch: InFlightBatch, max_records: int) -> int:
        """Acquire the available records of a part of a batch; return their number."""
        if not batch.by_offset:
            if not batch.runs[0].is_available:
                return 0
            batch.by_offset = True
        base, last = self._fetched.first_offset, self._last
        limit, throttle_limit = self._settings.delivery_count_limit, self._settings.throttle_limit
        isolates = limit > 2
        acquired, throttled_max = 0, -1
        for run in batch.overlapping(base, last):
            if not run.is_available or run.last < base:
                continue
            delivered = run.delivery_count
            is_last_time = isolates and delivered == limit - 1
            if is_last_time and acquired:
                # The next fetch acquires this run alone, because it is the last delivery attempt.
                break
            if delivered >= throttle_limit and throttled_max < 0:
                throttled_max = max(1, len(batch) >> (delivered - throttle_limit + 1))
            first = max(run.first, base)
            wanted = min(run.last, last) - first + 1
            if is_last_time:
                stop_at = 1
            else:
                stop_at = max_records - acquired if self._is_record_limit else wanted + 1
                # As in Kafka, `throttled_max` has no effect once `acquired` has reached it.
                if acquired < throttled_max:
                    stop_at = min(stop_at, throttled_max - acquired)
            count = min(wanted, stop_at)
            for piece in batch.cover(first, first + count - 1):
                self._acquire_run(batch, piece)
            acquired += count
            if count == stop_at:
                break
        return acquired

    def _acquire_run(self, batch: InFlightBatch, run: Run) -> None:
        """Acquire a run as one range; no merging is needed, because adjacent runs differ."""
        run.to(RecordState.ACQUIRED, self._member_id)
        run.delivery_count += 1
        self._partition.lock(batch, run, self._now_ms, self._settings.record_lock_duration_ms)
        self.ranges.append(AcquiredRange(run.first, run.last, run.delivery_count))
        self.count += run.last - run.first + 1

    # --- new records ------------------------------------------------------------------------------

    def _acquire_new(self, first: int, last: int, max_records: int) -> None:
        """Acquire records that were not in flight: the log batches from `first` to `last`."""
        partition, in_flight = self._partition, self._partition.in_flight
        # The first log batch can begin below the start offset of the share partition, if the state
        # was just loaded or the log start offset has moved. Its records below the start offset are
        # skipped. Kafka acquires them, too, if the log start offset moved while a member held
        # earlier records.
        first = max(first, partition.start_offset)
        if not in_flight:
            first = max(first, partition.end_offset)
        if first > last:
            return
        if max_records < last - first + 1:
            end = self._fetched.end_of_batch_with(first + max_records - 1)
            # While gaps are being fetched, the end must not exceed `last`: a persisted batch can
            # begin inside a log batch.
            last = min(end, last) if partition.gap_start_offset is not None else end
        ranges = self._cut(first, last)
        for range_ in ranges:
            if range_.first_offset <= range_.last_offset:
                self._add_new(range_)
        if in_flight.first_offset == first:
            partition.start_offset = first
        partition.end_offset = max(partition.end_offset, last)
        if self._is_record_limit and last - first + 1 > max_records:
            last = first + max_records - 1
            ranges = [self._leave_rest(first, last)]
        partition.move_gap_window(last + 1)
        self.ranges += ranges
        self.count += last - first + 1

    def _cut(self, first: int, last: int) -> list[AcquiredRange]:
        """Split the offsets at batch boundaries into ranges of at least `batch_size` offsets.

        The last range can be smaller. With a strict record limit, the result is one range.
        """
        ranges: list[AcquiredRange] = []
        batch_size = self._batch_size
        if not self._is_record_limit and last - first + 1 > batch_size:
            for base in self._fetched.base_offsets:
                if base > last:
                    break
                if base - first >= batch_size:
                    ranges.append(AcquiredRange(first, base - 1, 1))
                    first = base
        ranges.append(AcquiredRange(first, last, 1))
        return ranges

    def _add_new(self, new: AcquiredRange) -> None:
        run = Run(new.first_offset, new.last_offset, RecordState.ACQUIRED, 1, self._member_id)
        batch = InFlightBatch(run)
        self._partition.lock(batch, run, self._now_ms, self._settings.record_lock_duration_ms)
        self._partition.in_flight.add(batch)

    def _leave_rest(self, first: int, last: int) -> AcquiredRange:
        """Make the records after `last` available again; return the range up to `last`."""
        batch = self._partition.in_flight.floor(first)
        assert batch is not None, first
        rest = batch.cover(last + 1, batch.last_offset)[0]
        rest.to(RecordState.AVAILABLE)
        rest.delivery_count = 0
        rest.unlock()
        self._partition.finds_next_offset = True
        return AcquiredRange(first, last, 1)


def without(ranges: list[AcquiredRange], left_out: list[tuple[int, int]]) -> list[AcquiredRange]:
    """Return `ranges` without the offsets of `left_out`; both lists are ascending."""
    remaining: list[AcquiredRange] = []
    index = 0
    for first, last, delivery_count in ranges:
        while index < len(left_out) and left_out[index][1] < first:
            index += 1
        for out_first, out_last in left_out[index:]:
            if out_first > last:
                break
            if out_first > first:
                remaining.append(AcquiredRange(first, out_first - 1, delivery_count))
            first = out_last + 1
        if first <= last:
            remaining.append(AcquiredRange(first, last, delivery_count))
    return remaining
