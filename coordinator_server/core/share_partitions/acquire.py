"""What a member gets of what was read from the log for it (SharePartition.acquire).

Records that nobody has seen come in the batches of the log; those that were given back come again
in the batches, or the parts of them, that they are kept in. Whole batches are given away even
beyond the limit of the request, unless that asks for exactly as many records as it says
(KIP-1206). Records that were delivered often come in smaller and smaller pieces, and alone for
the last time, so that one record that nobody can process takes few others with it.
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
    """How the limit of a request counts; ShareFetch 1 knows the first one only."""

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


class AcquiredRange(NamedTuple):
    """Offsets in a row that a member got, first and last included."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Acquired(NamedTuple):
    """What a member got, and how many offsets that are."""

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
    """Give a member what it may have of `fetched`, read at `fetch_offset`."""
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
    """One acquisition under way."""

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
        """Set up to which offset, and how many records to give; whether any.

        Where as much is in flight as may be, only what is in flight already can be given again.
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
        """Archive what was to be given again, and is gone from the log by compaction."""
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
        """Give what is in flight and available, then what is new."""
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
        """What was given, but for records of aborted transactions, which are archived."""
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

    # --- what is in flight ------------------------------------------------------------------------

    def _acquire_known(self, known: list[InFlightBatch], gap_offset: int) -> None:
        """Give what is available of these batches, and the gaps that were never fetched."""
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
        """Whether something of a batch was delivered so often that it comes in small pieces."""
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
        """Give what is available of a part of a batch; how many records that are."""
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
                break  # it comes alone, next time
            if delivered >= throttle_limit and throttled_max < 0:
                throttled_max = max(1, len(batch) >> (delivered - throttle_limit + 1))
            first = max(run.first, base)
            wanted = min(run.last, last) - first + 1
            if is_last_time:
                stop_at = 1
            else:
                stop_at = max_records - acquired if self._is_record_limit else wanted + 1
                # Kafka stops when there are exactly so many: not when there were more before.
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
        """Give a run. None that is available is like the one beside it, so each is a range."""
        run.to(RecordState.ACQUIRED, self._member_id)
        run.delivery_count += 1
        self._partition.lock(batch, run, self._now_ms, self._settings.record_lock_duration_ms)
        self.ranges.append(AcquiredRange(run.first, run.last, run.delivery_count))
        self.count += run.last - run.first + 1

    # --- what is new ------------------------------------------------------------------------------

    def _acquire_new(self, first: int, last: int, max_records: int) -> None:
        """Give records that were not in flight: the batches of the log from `first` to `last`."""
        partition, in_flight = self._partition, self._partition.in_flight
        # A batch of the log may begin below: the state was read lately, or the log begins later
        # (then Kafka gives the rest as well, if somebody has records before it).
        first = max(first, partition.start_offset)
        if not in_flight:
            first = max(first, partition.end_offset)
        if first > last:
            return
        if max_records < last - first + 1:
            end = self._fetched.end_of_batch_with(first + max_records - 1)
            # Batches that were kept may begin within one of the log.
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
        """The offsets in pieces of at least the size that was asked for, cut between batches."""
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
        """Leave what follows `last` in the batch that begins at `first` available."""
        batch = self._partition.in_flight.floor(first)
        assert batch is not None, first
        rest = batch.cover(last + 1, batch.last_offset)[0]
        rest.to(RecordState.AVAILABLE)
        rest.delivery_count = 0
        rest.unlock()
        self._partition.finds_next_offset = True
        return AcquiredRange(first, last, 1)


def without(ranges: list[AcquiredRange], left_out: list[tuple[int, int]]) -> list[AcquiredRange]:
    """What remains of `ranges` without the offsets of other ranges; both rise."""
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
