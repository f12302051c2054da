"""Reads the lag of groups: in records, and in time by the age of the oldest unread record.

The lag in records is the high watermark minus the committed offset, as in kafka-exporter and
KMinion. The lag in time needs the timestamp of one record per partition, which is read from the log
and kept until the group commits another offset.
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


class PartitionLag(NamedTuple):
    """The lag of a group in one partition; `seconds` is None if unknown."""

    node_id: int
    place: Place
    committed: int
    records: int
    lost: int
    seconds: float | None


class _OldestUnread(NamedTuple):
    """The timestamp (ms) of the record at `offset` or the next one; None without any record."""

    log: PartitionLog
    offset: int
    timestamp_ms: int | None


class LagReader:
    """Reads the lag of all groups of a cluster, again and again."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._oldest: dict[Place, _OldestUnread] = {}
        self.omitted = 0
        """Partitions beyond MAX_PARTITIONS in the last reading."""

    def read(self) -> Computation[list[PartitionLag]]:
        """Return the lag of every group in every partition with a committed offset, in steps."""
        lags: list[PartitionLag] = []
        kept: dict[Place, _OldestUnread] = {}
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
                        lag = yield from self._lag(node_id, place, committed, kept)
                        if lag is not None:
                            lags.append(lag)
                yield
        self._oldest = kept
        self.omitted = omitted
        return lags

    def _lag(
        self,
        node_id: int,
        place: Place,
        committed: CommittedOffset,
        kept: dict[Place, _OldestUnread],
    ) -> Computation[PartitionLag | None]:
        """Return the lag in one partition; None if the partition does not exist or is offline."""
        _, topic, index = place
        partition = self._cluster.topics.partition(topic, index)
        if partition is None:
            return None
        try:
            log = partition.log
        except StorageError:
            return None
        offset, start, end = committed.offset, log.log_start_offset, log.high_watermark
        records, lost = max(end - offset, 0), max(start - offset, 0)
        if not records:
            return PartitionLag(node_id, place, offset, 0, lost, 0.0)
        if lost:
            return PartitionLag(node_id, place, offset, records, lost, None)
        oldest = self._oldest.get(place)
        if oldest is None or oldest.log is not log or oldest.offset != offset:
            timestamp_ms = yield from _first_timestamp(log, offset)
            oldest = _OldestUnread(log, offset, timestamp_ms)
        seconds: float | None = 0.0
        if oldest.timestamp_ms is not None:
            kept[place] = oldest
            seconds = None
            if oldest.timestamp_ms != _NO_TIMESTAMP:
                age_ms = self._cluster.clock.now_ms() - oldest.timestamp_ms
                seconds = max(age_ms, 0) / 1000
        return PartitionLag(node_id, place, offset, records, lost, seconds)


def _first_timestamp(log: PartitionLog, offset: int) -> Computation[int | None]:
    """Return the timestamp (ms) of the first record from `offset` on.

    Returns None if only transaction markers follow, and -1 if the timestamp is unknown.
    """
    end = log.high_watermark
    try:
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
    except (StorageError, ProtocolError):
        return _NO_TIMESTAMP
    return None
