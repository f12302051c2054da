"""Reads the lag of groups: in records, and in time by the age of the oldest unread record.

The lag in records is the high watermark minus the committed offset, as in kafka-exporter and
KMinion. The lag in time needs the timestamp of one record per partition, which is read from the log
and remembered. The control API reads lag with the same functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.batch_header import iterate_batches
from protocol.errors import ProtocolError
from protocol.raw_records import batch_records
from storage.errors import StorageError

if TYPE_CHECKING:
    from coordinator_server.cluster import Cluster
    from coordinator_server.core.groups.offsets import CommittedOffset
    from coordinator_server.steps import Computation
    from storage.partition_log import PartitionLog

MAX_PARTITIONS = 20_000
"""Limit of the partitions of groups in one scrape. Further partitions are only counted."""

_PARTITIONS_PER_STEP = 100
_RECORDS_PER_STEP = 2000
_NO_TIMESTAMP = -1

Place = tuple[str, str, int]
"""Group, topic and partition."""


class MeasuredLag(NamedTuple):
    """The lag of a group in one partition; `seconds` is None if unknown."""

    node_id: int
    place: Place
    committed: int
    records: int
    lost: int
    seconds: float | None


class Lag(NamedTuple):
    """The lag at an offset of a log.

    `since_ms` is the timestamp of the oldest unread record, and `time_ms` the record's age: 0 if no
    record is unread, None if the timestamp is unknown.
    """

    start_offset: int
    end_offset: int
    records: int
    lost: int
    since_ms: int | None = None
    time_ms: int | None = None


class RecordTimes:
    """Reads the timestamps of records, and remembers the latest of them."""

    def __init__(self) -> None:
        self._recent: dict[tuple[bytes, int, int], int] = {}
        self._older: dict[tuple[bytes, int, int], int] = {}

    def first(self, log: PartitionLog, offset: int) -> Computation[int | None]:
        """Return the timestamp (ms) of the first record from `offset` on, in steps.

        Returns None if only transaction markers follow, and -1 if the timestamp is unknown.
        """
        key = log.topic_id, log.partition, offset
        timestamp_ms = self._recent.get(key)
        if timestamp_ms is not None:
            return timestamp_ms
        timestamp_ms = self._older.get(key)
        if timestamp_ms is None:
            try:
                timestamp_ms = yield from _first_timestamp(log, offset)
            except (StorageError, ProtocolError):
                return _NO_TIMESTAMP
        if timestamp_ms is not None:
            if len(self._recent) >= MAX_PARTITIONS:
                self._older, self._recent = self._recent, {}
            self._recent[key] = timestamp_ms
        return timestamp_ms


def lag_at(
    log: PartitionLog, offset: int, times: RecordTimes | None, now_ms: int, done: int = 0
) -> Computation[Lag]:
    """Return the lag of a group whose next record is at `offset`, in steps.

    `done` is the number of later records that need no delivery. Without `times`, the lag in time is
    unknown.
    """
    start, end = log.log_start_offset, log.high_watermark
    lag = Lag(start, end, max(end - offset - done, 0), max(start - offset, 0))
    if not lag.records:
        return lag._replace(time_ms=0)
    if lag.lost or times is None:
        return lag
    since_ms = yield from times.first(log, offset)
    if since_ms is None:
        return lag._replace(time_ms=0)
    if since_ms == _NO_TIMESTAMP:
        return lag
    return lag._replace(since_ms=since_ms, time_ms=max(now_ms - since_ms, 0))


class CommittedLagReader:
    """Reads the lag of all groups of a cluster, and remembers timestamps for the next call."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._times = RecordTimes()
        self.omitted = 0
        """Partitions beyond MAX_PARTITIONS in the last reading."""

    def read(self) -> Computation[list[MeasuredLag]]:
        """Return the lag of every group in every partition with a committed offset, in steps."""
        lags: list[MeasuredLag] = []
        omitted = seen = 0
        for node_id, broker in tuple(self._cluster.brokers.items()):
            for task in tuple(broker.groups.tasks.values()):
                group = task.group
                for topic, offsets in tuple(group.offsets.by_topic.items()):
                    for index, committed in tuple(offsets.items()):
                        seen += 1
                        if not seen % _PARTITIONS_PER_STEP:
                            yield
                        if len(lags) >= MAX_PARTITIONS:
                            omitted += 1
                            continue
                        place = group.group_id, topic, index
                        lag = yield from self._lag(node_id, place, committed)
                        if lag is not None:
                            lags.append(lag)
                yield
        self.omitted = omitted
        return lags

    def _lag(
        self, node_id: int, place: Place, committed: CommittedOffset
    ) -> Computation[MeasuredLag | None]:
        """Return the lag in one partition; None if the partition does not exist or is offline."""
        _, topic, index = place
        partition = self._cluster.topics.partition(topic, index)
        if partition is None:
            return None
        try:
            log = partition.log
        except StorageError:
            return None
        now_ms = self._cluster.clock.now_ms()
        lag = yield from lag_at(log, committed.offset, self._times, now_ms)
        seconds = None if lag.time_ms is None else lag.time_ms / 1000
        return MeasuredLag(node_id, place, committed.offset, lag.records, lag.lost, seconds)


def _first_timestamp(log: PartitionLog, offset: int) -> Computation[int | None]:
    """Read the result of `RecordTimes.first` from the log. Raises StorageError, ProtocolError."""
    end = log.high_watermark
    while offset < end:
        data = log.read(offset, 1, up_to=end)  # one batch
        if not data:
            return None
        for header in iterate_batches(data):
            if header.is_control:
                pass
            elif header.log_append_time or header.magic < 2:
                return header.max_timestamp_ms
            else:
                for number, record in enumerate(batch_records(data, header), start=1):
                    if header.base_offset + record[3] >= offset:
                        return header.base_timestamp_ms + record[2]
                    if not number % _RECORDS_PER_STEP:
                        yield
            offset = max(offset, header.next_offset)
        yield
    return None
