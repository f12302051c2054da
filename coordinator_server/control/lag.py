"""The lag of groups in records and in time.

The committed offset is read before the end of the partition, so that a lag is never too small. Lag
in time is exact: the age of the oldest unread record, which is read from the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.control.pace import in_steps
from coordinator_server.core.groups.settings import GroupKind
from coordinator_server.metrics.lag import RecordTimes, lag_at
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coordinator_server.cluster import Cluster
    from coordinator_server.control.request import ControlRequest
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.share_partitions.share_partition import SharePartition
    from coordinator_server.steps import Computation
    from coordinator_server.topics.topic import Partition


class Position(NamedTuple):
    """Where a group is in a partition: the next record to read, and when it was committed.

    `done` counts later records that a share group has processed already.
    """

    offset: int
    commit_timestamp_ms: int | None = None
    done: int = 0


class GroupLag(NamedTuple):
    """The lag of a group; None without offsets. `time_ms` is None unless it was asked for.

    `beyond_end` is the sum of the distances of committed offsets beyond their log end offsets.
    """

    records: int | None
    time_ms: int | None
    beyond_end: int


class LagReader:
    """Reads the lag of groups, for a request: what its user may see, otherwise everything."""

    def __init__(self, cluster: Cluster, request: ControlRequest | None = None) -> None:
        self._request = request
        self._cluster = cluster
        self.now_ms = cluster.clock.now_ms()
        state = None if request is None else request.state
        self._times = RecordTimes() if state is None else state.record_times
        self._share: dict[str, list[SharePartition]] | None = None
        self._stored: dict[str, dict[tuple[str, int], Position]] = {}
        self.unread_groups: set[str] = set()
        """Share groups whose positions could not be read, for example while they are loading."""

    def of_group(self, group: Group, *, with_times: bool) -> Computation[GroupLag]:
        """Return the lag of a group over all partitions that the user may see, in steps."""
        total, time_ms, beyond_end = None, None, 0
        positions = yield from self.positions(group)
        for (topic, index), position in positions.items():
            partition = self._cluster.topics.partition(topic, index)
            if partition is not None and self._sees(topic):
                row = yield from self.of_partition(partition, position, with_time=with_times)
                if row["lag"] is not None:
                    total = row["lag"] + (total or 0)
                beyond_end += row["beyond_end"]
                if with_times and row["time_lag_ms"] is not None:
                    time_ms = max(row["time_lag_ms"], time_ms or 0)
            yield
        return GroupLag(total, time_ms, beyond_end)

    def _sees(self, topic: str) -> bool:
        return self._request is None or self._request.sees_topic(topic)

    async def read_share_groups(self, groups: Iterable[tuple[int, Group]]) -> None:
        """Read the positions of share partitions without readers, given coordinators and groups.

        Such partitions are not loaded: their state is asked for with DescribeShareGroupOffsets.
        Raises ControlError.
        """
        from coordinator_server.control.local import ask
        from coordinator_server.control.request import ControlRequest
        from protocol.apis.describe_share_group_offsets import (
            DescribeShareGroupOffsetsRequest,
            DescribeShareGroupOffsetsRequestGroup,
        )

        request = self._request or ControlRequest(self._cluster, {}, {}, b"")
        wanted: dict[int, list[DescribeShareGroupOffsetsRequestGroup]] = {}
        for node_id, group in groups:
            if group.kind is GroupKind.SHARE:
                described = DescribeShareGroupOffsetsRequestGroup(
                    group_id=group.group_id, topics=None
                )
                wanted.setdefault(node_id, []).append(described)
        for node_id, described_groups in wanted.items():
            message = DescribeShareGroupOffsetsRequest(groups=described_groups)
            response = await ask(request, "DescribeShareGroupOffsets", message, node_id=node_id)
            for answer in response.groups:
                if answer.error_code:
                    self.unread_groups.add(answer.group_id)
                self._stored[answer.group_id] = await in_steps(self._stored_positions(answer))

    def _stored_positions(self, answer: Any) -> Computation[dict[tuple[str, int], Position]]:
        """Return the positions in a group of the response."""
        positions = {}
        for topic in answer.topics:
            for described in topic.partitions:
                partition = self._cluster.topics.partition(
                    topic.topic_name, described.partition_index
                )
                if described.error_code:
                    self.unread_groups.add(answer.group_id)
                if partition is not None and described.start_offset >= 0:
                    done = 0
                    if described.lag >= 0:
                        left = partition.log.high_watermark - described.start_offset
                        done = max(0, left - described.lag)
                    positions[topic.topic_name, partition.index] = Position(
                        described.start_offset, done=done
                    )
                yield
        return positions

    def positions(self, group: Group) -> Computation[dict[tuple[str, int], Position]]:
        """Return the positions of a group by topic and partition, in steps."""
        if group.kind is GroupKind.SHARE:
            return (yield from self._share_positions(group.group_id))
        positions = {}
        for topic, commits in tuple(group.offsets.by_topic.items()):
            for index, commit in commits.items():
                positions[topic, index] = Position(commit.offset, commit.commit_timestamp)
            yield
        return positions

    def _share_positions(self, group_id: str) -> Computation[dict[tuple[str, int], Position]]:
        if self._share is None:
            share: dict[str, list[SharePartition]] = {}
            for broker in tuple(self._cluster.brokers.values()):
                for share_partition in tuple(broker.share_partitions.all_partitions()):
                    share.setdefault(share_partition.key.group_id, []).append(share_partition)
                    yield
            self._share = share
        positions = dict(self._stored.get(group_id, {}))
        for share_partition in self._share.get(group_id, ()):
            topic = self._cluster.topics.topic_by_id(share_partition.key.topic_id)
            if topic is not None and share_partition.start_offset >= 0:
                done = sum(
                    share_partition.count_in_flight(run.first, run.last)
                    for batch in share_partition.in_flight
                    for run in batch.runs
                    if run.state.is_terminal
                )
                positions[topic.name, share_partition.key.partition] = Position(
                    share_partition.start_offset, done=done
                )
            yield
        return positions

    def of_partition(
        self, partition: Partition, position: Position | None, *, with_time: bool = True
    ) -> Computation[dict[str, Any]]:
        """Return the lag in a partition, the fields from `offset` on of `groups.PartitionLag`."""
        row = without_log(position)
        try:
            log = partition.log
        except StorageError:
            return row
        row["start_offset"], row["end_offset"] = log.log_start_offset, log.high_watermark
        if position is None:
            return row
        times = self._times if with_time else None
        lag = yield from lag_at(log, position.offset, times, self.now_ms, position.done)
        row["start_offset"], row["end_offset"] = lag.start_offset, lag.end_offset
        row["lag"], row["lost"] = lag.records, lag.lost
        row["beyond_end"] = max(position.offset - lag.end_offset, 0)
        row["time_lag_ms"], row["lagging_since_ms"] = lag.time_ms, lag.since_ms
        return row


def without_log(position: Position | None) -> dict[str, Any]:
    """Return the lag fields of a partition whose log is unavailable or whose topic was deleted."""
    return {
        "offset": None if position is None else position.offset,
        "commit_timestamp_ms": None if position is None else position.commit_timestamp_ms,
        "start_offset": None,
        "end_offset": None,
        "lag": None,
        "lost": 0,
        "beyond_end": 0,
        "time_lag_ms": None,
        "lagging_since_ms": None,
    }
