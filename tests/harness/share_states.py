"""A broker for tests of the share coordinator: its log, and requests of share-partition leaders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coordinator_server.coordinator.share_coordinator import ShareCoordinator, ShareStatePartition
from coordinator_server.coordinator.share_persister import LocalSharePersister
from coordinator_server.core.share_partitions.persister import SharePartitionKey
from coordinator_server.core.share_state.records import ShareRecord, decode_record
from coordinator_server.core.share_state.shard import ShareCoordinatorShard
from coordinator_server.topics.names import SHARE_STATE_TOPIC
from protocol.apis.delete_share_group_state import (
    DeletePartition,
    DeleteShareGroupStateRequest,
    DeleteStateData,
)
from protocol.apis.initialize_share_group_state import (
    InitializePartition,
    InitializeShareGroupStateRequest,
    InitializeStateData,
)
from protocol.apis.read_share_group_state import (
    ReadPartition,
    ReadShareGroupStateRequest,
    ReadStateData,
)
from protocol.apis.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
    ReadSummaryPartition,
)
from protocol.apis.write_share_group_state import (
    WritePartition,
    WriteShareGroupStateRequest,
    WriteStateBatch,
    WriteStateData,
)
from protocol.batch import iterate_records
from protocol.batch_header import BatchHeader, iterate_batches
from protocol.errors import ErrorCode
from storage.memory_disk import MemoryDisk
from tests.harness.broker import MemoryBroker

Batch = tuple[int, int, int, int]
GROUP = "g"


class ShareStateBroker(MemoryBroker):
    """A broker with a share coordinator; topic "t" has four partitions, its own topic has one."""

    defaults = {"share_coordinator_state_topic_num_partitions": "1"}

    def __init__(self, disk: MemoryDisk | None = None, /, **overrides: Any) -> None:
        super().__init__(disk, **overrides)
        self.t = self.topics.topic("t") or self.topics.create("t", 4, {})
        self.turn()

    def key(self, partition: int = 0) -> SharePartitionKey:
        """Return the key of a share partition of "t"."""
        return SharePartitionKey(GROUP, self.t.topic_id, partition)

    @property
    def persister(self) -> LocalSharePersister:
        """The client of the share coordinator."""
        return self.shared.share_persister.get()

    @property
    def share_states(self) -> ShareCoordinator:
        """The share coordinator."""
        return self.broker.share_states

    # --- log --------------------------------------------------------------------------------------

    def headers(self, index: int = 0) -> list[BatchHeader]:
        """Return the batches of a partition of the internal topic."""
        return list(iterate_batches(self._data(index)))

    def records(self, index: int = 0) -> list[ShareRecord]:
        """Return the records of a partition of the internal topic, from its log start offset on."""
        data, start = self._data(index), self.topics.log(SHARE_STATE_TOPIC, index).log_start_offset
        return [
            decode_record(one.key or b"", one.value)
            for header in iterate_batches(data)
            for one in iterate_records(data, header)
            if one.offset >= start
        ]

    def _data(self, index: int) -> bytes:
        log = self.topics.log(SHARE_STATE_TOPIC, index)
        return bytes(log.read(log.log_start_offset, 1 << 30))

    def led(self, index: int = 0) -> ShareStatePartition:
        """Return the coordinator's state for a partition of the internal topic that it leads."""
        (found,) = (one for one in self.share_states.active() if one.index == index)
        return found

    def is_replayed(self, index: int = 0) -> bool:
        """Return whether a replay of the log gives the coordinator's state."""
        return self.replayed(index) == self.led(index).shard.hard_state()

    def replayed(self, index: int = 0) -> Mapping[SharePartitionKey, tuple[Any, ...]]:
        """Return the state from a replay of the log."""
        partition = self.topics.partition(SHARE_STATE_TOPIC, index)
        assert partition is not None
        fresh = ShareCoordinatorShard(self.share_states.settings.updates_per_snapshot, lambda _: 9)
        again = ShareStatePartition(partition, self.clock, fresh)
        for _ in again.load():
            pass
        return fresh.hard_state()


def initialize_request(
    topic_id: bytes, *partitions: int, state_epoch: int = 1, start: int = -1, group: str = GROUP
) -> InitializeShareGroupStateRequest:
    """Return an InitializeShareGroupState request for partitions of one topic."""
    asked = [
        InitializePartition(partition=one, state_epoch=state_epoch, start_offset=start)
        for one in partitions
    ]
    data = InitializeStateData(topic_id=topic_id, partitions=asked)
    return InitializeShareGroupStateRequest(group_id=group, topics=[data])


def read_request(
    topic_id: bytes, *partitions: int, leader_epoch: int = 0, group: str = GROUP
) -> ReadShareGroupStateRequest:
    """Return a ReadShareGroupState request for partitions of one topic."""
    asked = [ReadPartition(partition=one, leader_epoch=leader_epoch) for one in partitions]
    data = ReadStateData(topic_id=topic_id, partitions=asked)
    return ReadShareGroupStateRequest(group_id=group, topics=[data])


def write_request(
    topic_id: bytes,
    partition: int,
    *batches: Batch,
    state_epoch: int = 1,
    leader_epoch: int = 0,
    start: int = -1,
    complete: int = 0,
    group: str = GROUP,
) -> WriteShareGroupStateRequest:
    """Return a WriteShareGroupState request for one partition."""
    one = WritePartition(
        partition=partition,
        state_epoch=state_epoch,
        leader_epoch=leader_epoch,
        start_offset=start,
        delivery_complete_count=complete,
        state_batches=[
            WriteStateBatch(
                first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
            )
            for first, last, state, count in batches
        ],
    )
    data = WriteStateData(topic_id=topic_id, partitions=[one])
    return WriteShareGroupStateRequest(group_id=group, topics=[data])


def delete_request(
    topic_id: bytes, *partitions: int, group: str = GROUP
) -> DeleteShareGroupStateRequest:
    """Return a DeleteShareGroupState request for partitions of one topic."""
    asked = [DeletePartition(partition=one) for one in partitions]
    data = DeleteStateData(topic_id=topic_id, partitions=asked)
    return DeleteShareGroupStateRequest(group_id=group, topics=[data])


def summary_request(
    topic_id: bytes, *partitions: int, leader_epoch: int = 0, group: str = GROUP
) -> ReadShareGroupStateSummaryRequest:
    """Return a ReadShareGroupStateSummary request for partitions of one topic."""
    asked = [ReadSummaryPartition(partition=one, leader_epoch=leader_epoch) for one in partitions]
    data = ReadStateSummaryData(topic_id=topic_id, partitions=asked)
    return ReadShareGroupStateSummaryRequest(group_id=group, topics=[data])


def error_of(response: Any) -> tuple[ErrorCode, str | None]:
    """Return the error of the only share partition in a response."""
    ((one,),) = (topic.partitions for topic in response.results)
    return ErrorCode(one.error_code), one.error_message
