"""Serves one share fetch; while the fetch waits, it is an operation in the purgatory.

A fetch is delayed until the partitions with acquirable records hold `min_bytes`; a read error ends
the delay too. Then each partition is read from the group's next fetch offset with an equal share
of the bytes, and records are acquired up to the limit of the request. Reading and acquiring one
partition is one uninterrupted step. Source: DelayedShareFetch.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.share_partitions.acquire import AcquireMode, acquire
from coordinator_server.core.share_partitions.fetched import FetchedBatches
from coordinator_server.fetch.purgatory import KeyedOperation
from coordinator_server.steps import run_all
from protocol.apis.share_fetch import AcquiredRecords, ShareFetchRequest, SharePartitionData
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Hashable, Iterator

    from coordinator_server.coordinator.share_partition_manager import SharePartitionManager
    from coordinator_server.core.share_partitions.session import PartitionKey
    from coordinator_server.core.share_partitions.settings import ShareSettings
    from coordinator_server.core.share_partitions.share_partition import SharePartition
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from coordinator_server.topics.topic import Partition
    from storage.partition_log import PartitionLog

MANY_PARTITIONS = 2000
FIRST_READ_BYTES = 1 << 18
Fetched = dict["PartitionKey", SharePartitionData]


class ShareFetchTarget(NamedTuple):
    """One partition of a share fetch."""

    key: PartitionKey
    partition: Partition
    share_partition: SharePartition


class DelayedShareFetch(KeyedOperation):
    """A share fetch. Call `fetch_if_enough`; if it returns False, call `KeyedPurgatory.watch`.

    The wait ends at `deadline_ms` of the client's clock. `fetched` holds errors that are already
    known and receives the acquired records; `done` is called with `fetched` at the end.
    """

    __slots__ = ("_batch_size", "_call", "_done", "_fetched", "_has_records",
                 "_manager", "_max_bytes", "_max_records", "_member_id", "_min_bytes", "_mode",
                 "_reads_committed", "_targets", "_turns")  # fmt: skip

    def __init__(
        self,
        manager: SharePartitionManager,
        call: Call,
        request: ShareFetchRequest,
        deadline_ms: int,
        settings: ShareSettings,
        targets: list[ShareFetchTarget],
        fetched: Fetched,
        done: Callable[[Fetched], None],
    ) -> None:
        super().__init__(deadline_ms)
        self._manager = manager
        self._call = call
        self._member_id = request.member_id or ""
        self._mode = AcquireMode(request.share_acquire_mode)
        self._batch_size = request.batch_size
        self._max_records = request.max_records
        self._max_bytes = min(request.max_bytes, manager.topics.fetch_max_bytes)
        if call.is_metered:
            self._max_bytes = min(self._max_bytes, call.most_fetched_bytes())
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._reads_committed = settings.reads_committed
        self._targets = targets
        self._turns: list[ShareFetchTarget] = []
        self._fetched = fetched
        self._has_records = False
        self._done = done

    def keys(self) -> Iterator[Hashable]:
        """Yield the purgatory keys: partitions (new records) and share partitions (releases)."""
        for target in self._targets:
            yield target.partition
            yield target.share_partition

    def fetch_if_enough(
        self, max_wait_ms: int, unread: Collection[PartitionKey] = ()
    ) -> Generator[None, None, bool]:
        """Fetch if enough data is available or `max_wait_ms` is 0.

        Returns whether the fetch was done. `unread` are the partitions whose state was read for
        this fetch.
        """
        targets = self._targets
        if unread and max_wait_ms > 0:
            yield from self._leave_out(unread)
        is_enough = yield from self._is_enough()
        if not is_enough and self._targets is not targets:
            # A partition has changed since `_leave_out`, and its topic may be deleted. Try again
            # with all partitions.
            self._targets = targets
            is_enough = yield from self._is_enough()
        if not is_enough and max_wait_ms > 0:
            return False
        self.is_completed = True
        yield from self._fetch()
        return True

    def _leave_out(self, unread: Collection[PartitionKey]) -> Steps:
        """Leave out `unread` partitions that are not needed to reach `min_bytes`.

        Kafka reads the states of partitions one by one, and responds once `min_bytes` are reached.
        """
        limit = max(self._max_bytes, 0) // len(self._targets)
        found_bytes, has_acquirable = 0, False
        seen: set[PartitionKey] = set()
        known = (target for target in self._targets if target.key not in unread)
        for target in chain(known, (target for target in self._targets if target.key in unread)):
            yield
            key, partition, share_partition = target
            if key in unread and has_acquirable and found_bytes >= self._min_bytes:
                break
            seen.add(key)
            if share_partition.is_active and share_partition.can_acquire():
                has_acquirable = True
                if found_bytes < self._min_bytes:
                    offset = share_partition.next_fetch_offset()
                    found_bytes += self._bytes_from(offset, partition, limit)
        if len(seen) < len(self._targets):
            self._targets = [target for target in self._targets if target.key in seen]

    def try_complete(self) -> bool:
        """Fetch if `min_bytes` are available; return whether the fetch was done.

        A fetch of more than MANY_PARTITIONS completes on any change, because checking every
        partition each time would take too long.
        """
        is_large = len(self._targets) > MANY_PARTITIONS
        return (is_large or run_all(self._is_enough())) and self.force_complete()

    def on_complete(self) -> None:
        """Fetch the records that are available."""
        self._call.run(self._fetch())

    def is_abandoned(self) -> bool:
        """Return whether the client has disconnected."""
        return self._call.connection.closed

    def _acquirable(self) -> Generator[None, None, list[ShareFetchTarget]]:
        """Return the partitions where records can be acquired."""
        acquirable: list[ShareFetchTarget] = []
        for target in self._targets:
            share_partition = target.share_partition
            if share_partition.is_active and share_partition.can_acquire():
                acquirable.append(target)
            yield
        return acquirable

    def _end_of(self, log: PartitionLog) -> int:
        """Return the end offset up to which this group may read."""
        return log.last_stable_offset if self._reads_committed else log.high_watermark

    def _is_enough(self) -> Generator[None, None, bool]:
        """Return whether to fetch now; if so, set the order of the partitions."""
        targets = yield from self._acquirable()
        if not targets or self._max_bytes < 0:
            return bool(targets)
        limit = self._max_bytes // len(targets)
        seen: list[ShareFetchTarget] = []
        unseen: list[ShareFetchTarget] = []
        found_bytes = 0
        for target in targets:
            share_partition = target.share_partition
            offset = share_partition.next_fetch_offset()
            is_seen = share_partition.fetch_offset_seen == offset
            (seen if is_seen else unseen).append(target)
            share_partition.fetch_offset_seen = offset
            if found_bytes < self._min_bytes:
                found_bytes += self._bytes_from(offset, target.partition, limit)
            yield
        if found_bytes < self._min_bytes:
            return False
        self._turns = seen + unseen
        return True

    def _bytes_from(self, offset: int, partition: Partition, limit: int) -> int:
        """Return the number of bytes to fetch from `offset`, at most `limit`.

        Returns `min_bytes` if no exact count is needed, or if the fetch must complete at once
        because of an error or an offset out of range.
        """
        try:
            log = partition.log
            end = self._end_of(log)
            if not log.log_start_offset <= offset <= log.high_watermark:
                return self._min_bytes
            if offset >= end:
                return 0
            if self._min_bytes <= 1 or offset < log.active_segment.base_offset:
                return self._min_bytes
            return min(log.bytes_below(end) - log.bytes_below(offset), limit)
        except StorageError:
            return self._min_bytes

    def _fetch(self) -> Steps:
        """Read and acquire records, one partition per step."""
        targets = self._turns or (yield from self._acquirable())
        if targets:
            limit, extra = divmod(self._max_bytes, len(targets))
            bytes_left = self._max_bytes
            for target in targets:
                if target.share_partition.is_active and target.share_partition.can_acquire():
                    data = self._fetch_one(target, min(limit + extra, bytes_left))
                    self._fetched[target.key] = data
                    bytes_left = max(bytes_left - len(data.records), 0)
                extra = 0
                yield
        self._done(self._fetched)

    def _fetch_one(self, target: ShareFetchTarget, max_bytes: int) -> SharePartitionData:
        """Read one partition from the group's next fetch offset and acquire records."""
        key, partition, share_partition = target
        data = SharePartitionData(partition_index=key[1])
        if self._max_bytes < 0:
            data.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
            return data
        offset = share_partition.next_fetch_offset()
        try:
            log = partition.log
            if not log.log_start_offset <= offset <= log.high_watermark:
                # The next fetch reads from the new start offset.
                share_partition.move_start_offset(log.log_start_offset)
                return data
            if self._max_records <= 0:
                return data
            fetched = self._read(log, share_partition, offset, max_bytes)
        except StorageError as error:
            data.error_code = error.code
            return data
        now_ms = self._manager.now_ms()
        acquired = acquire(
            share_partition,
            self._member_id,
            self._mode,
            self._batch_size,
            self._max_records,
            offset,
            fetched,
            now_ms,
        )
        ranges = acquired.ranges
        if ranges:
            self._max_records -= acquired.total
            data.records = fetched.slice(ranges[0].first_offset, ranges[-1].last_offset)
            data.acquired_records = [
                AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
                for first, last, count in ranges
            ]
        self._manager.arm(share_partition)
        return data

    def _read(
        self, log: PartitionLog, share_partition: SharePartition, offset: int, max_bytes: int
    ) -> FetchedBatches:
        """Return the batches from `offset`; the response's first batch may exceed the limit.

        The log is read in growing sizes until the batches hold all records that can be acquired,
        whereas Kafka always reads up to the byte limit.
        """
        end = self._end_of(log)
        if offset >= end:
            return FetchedBatches(b"")
        most = min(self._max_records, share_partition.settings.partition_max_record_locks)
        read_bytes = FIRST_READ_BYTES
        while True:
            limit = min(read_bytes, max_bytes)
            records = log.read(offset, limit, at_least_one=not self._has_records, up_to=end)
            # Return all in-flight batches, but at most `most` records that are not in flight yet.
            fetched = FetchedBatches(records, (), share_partition.end_offset, most)
            if (
                limit == max_bytes
                or not records
                or fetched.last_offset >= min(fetched.stop_offset, end - 1)
            ):
                break
            read_bytes *= 8
        if self._reads_committed and records:
            aborted = log.aborted_transactions(offset, fetched.last_offset + 1)
            fetched.aborted = [
                (transaction.producer_id, transaction.first_offset) for transaction in aborted
            ]
        self._has_records |= bool(records)
        return fetched
