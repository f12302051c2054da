"""Several brokers of one process, and requests to each of them."""

from __future__ import annotations

from typing import Any

from coordinator_server.topics.names import OFFSETS_TOPIC
from coordinator_server.topics.topic import Partition
from protocol.apis.find_coordinator import FindCoordinatorRequest
from protocol.apis.heartbeat import HeartbeatRequest
from protocol.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.errors import ErrorCode
from protocol.hashing import partition_for
from storage.memory_disk import MemoryDisk
from tests.harness.broker import MemoryBroker
from tests.harness.groups import commit_request, join_request

OFFSETS_PARTITIONS = 4


class Nodes(MemoryBroker):
    """A cluster of brokers 1 to `count`, and clients that send requests to a broker by id."""

    defaults = {
        "group_initial_rebalance_delay_ms": "0",
        "offsets_topic_num_partitions": str(OFFSETS_PARTITIONS),
    }

    def __init__(self, disk: MemoryDisk | None = None, count: int = 3, /, **overrides: Any) -> None:
        super().__init__(disk, count, **overrides)
        self.cluster.offsets_topic.ensure()

    def loaded(self) -> None:
        """Let every broker load its partitions."""
        self.turn()
        assert not any(broker.groups.is_loading for broker in self.cluster.brokers.values())

    def find(self, asked_id: int, group: str) -> tuple[int, int, int]:
        """Return one broker's view of a group's coordinator: error, broker id, port."""
        request = FindCoordinatorRequest(coordinator_keys=[group])
        (one,) = self.ask(request, node_id=asked_id).coordinators
        return one.error_code, one.node_id, one.port

    def join(self, node_id: int, group: str) -> str:
        """Bring a group to Stable with one member; return the member's id."""
        joined = self.ask(join_request(group), 3, node_id=node_id)
        assert joined.error_code == ErrorCode.NONE
        one = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")
        request = SyncGroupRequest(
            group_id=group, generation_id=1, member_id=joined.member_id, assignments=[one]
        )
        synced = self.ask(request, 2, node_id=node_id)
        assert synced.error_code == ErrorCode.NONE
        return str(joined.member_id)

    def heartbeat(self, node_id: int, group: str, member_id: str) -> int:
        """Return the error code of a heartbeat of generation 1."""
        request = HeartbeatRequest(group_id=group, generation_id=1, member_id=member_id)
        return int(self.ask(request, node_id=node_id).error_code)

    def commit(self, node_id: int, group: str, offset: int) -> int:
        """Commit as a standalone consumer; return the partition's error code."""
        answer = self.ask(commit_request(group, offset), node_id=node_id)
        return int(answer.topics[0].partitions[0].error_code)

    def committed(self, node_id: int, group: str) -> tuple[int, int]:
        """Return the error code and the committed offset of partition 0 of `t`."""
        topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)]
        )
        (one,) = self.ask(request, node_id=node_id).groups
        return one.error_code, one.topics[0].partitions[0].committed_offset if one.topics else -1

    def home(self, group: str) -> Partition:
        """Return the partition of the offsets topic that holds a group."""
        found = self.partition(OFFSETS_TOPIC, partition_for(group, OFFSETS_PARTITIONS))
        assert found is self.cluster.offsets_topic.partition_of(group)
        return found

    def partition(self, topic: str, index: int) -> Partition:
        """Return an existing partition."""
        found = self.cluster.topics.partition(topic, index)
        assert found is not None
        return found

    def move(self, partition: Partition, node_id: int) -> None:
        """Make another broker the leader of a partition."""
        topic = self.cluster.topics.topic(partition.topic_name)
        assert topic is not None
        self.cluster.move(topic, partition, node_id)
