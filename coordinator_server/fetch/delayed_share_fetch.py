"""One share fetch from its partitions to what was acquired; while it waits, an operation in the
purgatory.

Kafka's DelayedShareFetch. A fetch waits until there are `min_bytes` to acquire in the partitions
where records may be acquired at all; what cannot be read ends the wait as well. Then each of
them is read from where its group goes on, with its share of the bytes, and records are acquired
up to the limit of the request. Reading and acquiring is one step that nothing interrupts.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol

from coordinator_server.core.share_partitions.acquire import AcquireMode, acquire
from coordinator_server.core.share_partitions.fetched import FetchedBatches
from coordinator_server.fetch.purgatory import KeyedOperation
from coordinator_server.steps import run_all
from protocol.apis.share_fetch import AcquiredRecords, ShareFetchRequest, SharePartitionData
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Hashable, Iterator

    from coordinator_server.clock.broker_clock import BrokerClock
    from coordinator_server.core.share_partitions.session import PartitionKey
    from coordinator_server.core.share_partitions.settings import ShareSettings
    from coordinator_server.core.share_partitions.share_partition import SharePartition
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from coordinator_server.topics.manager import TopicManager
    from coordinator_server.topics.topic import Partition
    from storage.partition_log import PartitionLog

MANY_PARTITIONS = 2000
FIRST_READ_BYTES = 1 << 18
Fetched = dict["PartitionKey", SharePartitionData]


class ShareFetchTarget(NamedTuple):
    """One partition that is fetched."""

    key: PartitionKey
    partition: Partition
    share_partition: SharePartition


class Locks(Protocol):
    """The acquisition locks of the share partitions that a broker leads."""

    def now_ms(self) -> int:
        """The time that locks go by."""

    def arm(self, share_partition: SharePartition) -> None:
        """Wake the share partition when its next lock expires."""


class ShareFetchingBroker(Protocol):
    """What a share fetch needs of its broker; `client_clock` is the time that clients wait."""

    topics: TopicManager
    client_clock: BrokerClock

    @property
    def share_partitions(self) -> Locks:
        """The leader of the share partitions."""


class DelayedShareFetch(KeyedOperation):
    """A share fetch. `fetch_if_enough` first; then, if it said no, `KeyedPurgatory.watch`.

    `fetched` holds the errors that are known already, and gets what is acquired; `done` is called
    with it in the end.
    """

    __slots__ = ("_batch_size", "_broker", "_call", "_done", "_fetched", "_has_records",
                 "_max_bytes", "_max_records", "_member_id", "_min_bytes", "_mode",
                 "_reads_committed", "_targets", "_turns")  # fmt: skip

    def __init__(
        self,
        broker: ShareFetchingBroker,
        call: Call,
        request: ShareFetchRequest,
        settings: ShareSettings,
        targets: list[ShareFetchTarget],
        fetched: Fetched,
        done: Callable[[Fetched], None],
    ) -> None:
        super().__init__(broker.client_clock.now_ms() + max(request.max_wait_ms, 0))
        self._broker = broker
        self._call = call
        self._member_id = request.member_id or ""
        self._mode = AcquireMode(request.share_acquire_mode)
        self._batch_size = request.batch_size
        self._max_records = request.max_records
        self._max_bytes = min(request.max_bytes, broker.topics.fetch_max_bytes)
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
        """What the fetch waits for: records, and records that are given back."""
        for target in self._targets:
            yield target.partition
            yield target.share_partition

    def fetch_if_enough(
        self, max_wait_ms: int, unread: Collection[PartitionKey] = ()
    ) -> Generator[None, None, bool]:
        """Fetch if there is enough, or must not wait; return whether it was done.

        `unread` are the partitions whose state was read for this fetch.
        """
        targets = self._targets
        if unread and max_wait_ms > 0:
            yield from self._leave_out(unread)
        is_enough = yield from self._is_enough()
        if not is_enough and self._targets is not targets:  # a topic was deleted in between
            self._targets = targets
            is_enough = yield from self._is_enough()
        if not is_enough and max_wait_ms > 0:
            return False
        self.is_completed = True
        yield from self._fetch()
        return True

    def _leave_out(self, unread: Collection[PartitionKey]) -> Steps:
        """Leave out the `unread` partitions that come after enough bytes in the others.

        Kafka reads the states one after the other, and answers as soon as there is enough.
        """
        limit = max(self._max_bytes, 0) // len(self._targets)
        found_bytes, has_acquirable = 0, False
        seen: set[PartitionKey] = set()
        known = (one for one in self._targets if one.key not in unread)
        for target in chain(known, (one for one in self._targets if one.key in unread)):
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
            self._targets = [one for one in self._targets if one.key in seen]

    def try_complete(self) -> bool:
        """Fetch once there is enough.

        One of very many partitions is fetched with any change: to look at all of them each time
        would take too long.
        """
        is_large = len(self._targets) > MANY_PARTITIONS
        return (is_large or run_all(self._is_enough())) and self.force_complete()

    def on_complete(self) -> None:
        """Fetch what there is."""
        self._call.run(self._fetch())

    def is_abandoned(self) -> bool:
        """Whether the client has gone."""
        return self._call.connection.closed

    def _acquirable(self) -> Generator[None, None, list[ShareFetchTarget]]:
        """The partitions where records may be acquired."""
        found: list[ShareFetchTarget] = []
        for target in self._targets:
            share_partition = target.share_partition
            if share_partition.is_active and share_partition.can_acquire():
                found.append(target)
            yield
        return found

    def _end_of(self, log: PartitionLog) -> int:
        """Up to which offset this group reads."""
        return log.last_stable_offset if self._reads_committed else log.high_watermark

    def _is_enough(self) -> Generator[None, None, bool]:
        """Whether to fetch now, and in which order."""
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
        """How many bytes there are to fetch, as far as that matters.

        `min_bytes` if what is there has to be told, whatever it is.
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
        """Read and acquire, partition by partition."""
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
        """Read one partition where its group goes on, and acquire what may be acquired."""
        key, partition, share_partition = target
        data = SharePartitionData(partition_index=key[1])
        if self._max_bytes < 0:
            data.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
            return data
        offset = share_partition.next_fetch_offset()
        try:
            log = partition.log
            if not log.log_start_offset <= offset <= log.high_watermark:
                # The next fetch finds what there is.
                share_partition.move_start_offset(log.log_start_offset)
                return data
            if self._max_records <= 0:
                return data
            fetched = self._read(log, share_partition, offset, max_bytes)
        except StorageError as error:
            data.error_code = error.code
            return data
        now_ms = self._broker.share_partitions.now_ms()
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
        self._broker.share_partitions.arm(share_partition)
        return data

    def _read(
        self, log: PartitionLog, share_partition: SharePartition, offset: int, max_bytes: int
    ) -> FetchedBatches:
        """The batches from `offset` on; the first one of all whatever its size.

        No more of them than records can be acquired of: a group that is behind is read little by
        little, where Kafka walks over all that the limit allows.
        """
        end = self._end_of(log)
        if offset >= end:
            return FetchedBatches(b"")
        most = min(self._max_records, share_partition.settings.partition_max_record_locks)
        read_bytes = FIRST_READ_BYTES
        while True:
            limit = min(read_bytes, max_bytes)
            records = log.read(offset, limit, at_least_one=not self._has_records, up_to=end)
            # All of what is in flight, and then as much as may be new.
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
            fetched.aborted = [(one.producer_id, one.first_offset) for one in aborted]
        self._has_records |= bool(records)
        return fetched
