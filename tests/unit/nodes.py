"""Three brokers on a disk in memory, without sockets; the request handlers are real."""

from __future__ import annotations

import asyncio
from typing import Any

from coordinator_server.apis.handlers import handler_of
from coordinator_server.cluster import Cluster
from coordinator_server.composition import compose
from coordinator_server.config.config import Config
from coordinator_server.counting.counts import Counts
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
from protocol.registry import SPEC_BY_NAME
from protocol.schema import Message
from storage.memory_disk import MemoryDisk
from tests.unit.coordinator.fakes import commit_request, join_request, settle
from tests.unit.topics.fakes import DATA, FakeCall, FakeClock, FakeConnection
from tests.versions import newest_with_names

OFFSETS_PARTITIONS = 4


class Nodes:
    """A cluster of brokers 1 to `count`, and clients that send requests to a broker by id."""

    cluster: Cluster
    has_virtual_clock = False
    counts: Counts | None = None
    """Set before `start`: what counts for metrics."""

    def __init__(self, disk: MemoryDisk | None = None, count: int = 3, /, **overrides: str) -> None:
        settings = {
            "group_initial_rebalance_delay_ms": "0",
            "offsets_topic_num_partitions": str(OFFSETS_PARTITIONS),
            "log_dirs": DATA,
            "broker_count": str(count),
            **overrides,
        }
        self.disk = disk or MemoryDisk()
        self.clock = FakeClock()
        self._config = Config(
            overrides={name.replace("_", "."): value for name, value in settings.items()}
        )

    async def start(self) -> Nodes:
        """Start the cluster with its offsets topic."""
        self.cluster = compose(
            self._config,
            self.clock,
            self.disk,
            has_virtual_clock=self.has_virtual_clock,
            counts=self.counts,
        )
        await self.cluster.start()
        self.cluster.offsets_topic.ensure()
        return self

    def send(
        self, node_id: int, api: str, request: Message, version: int | None = None
    ) -> FakeCall:
        """Pass a request to a broker's handler; the response may come later. Return the call."""
        spec = SPEC_BY_NAME[api]
        version = newest_with_names(spec) if version is None else version
        call = FakeCall(version, "test", FakeConnection())
        call.connection.local_address = ("127.0.0.1", 9091 + node_id)
        call.serve(handler_of(spec), self.cluster.brokers[node_id], request)
        return call

    async def loaded(self) -> None:
        """Let every broker load its partitions."""
        while any(broker.groups.is_loading for broker in self.cluster.brokers.values()):
            await asyncio.sleep(0)
        await settle()

    async def answer(
        self, node_id: int, api: str, request: Message, version: int | None = None
    ) -> Any:
        """Return the response to a request that is not parked."""
        call = self.send(node_id, api, request, version)
        await settle()
        assert call.replies, "parked"
        return call.replies[0]

    async def find(self, asked_id: int, group: str) -> tuple[int, int, int]:
        """Return one broker's view of a group's coordinator: error, broker id, port."""
        request = FindCoordinatorRequest(coordinator_keys=[group])
        (one,) = (await self.answer(asked_id, "FindCoordinator", request)).coordinators
        return one.error_code, one.node_id, one.port

    async def join(self, node_id: int, group: str) -> str:
        """Bring a group to Stable with one member; return the member's id."""
        joined = await self.answer(node_id, "JoinGroup", join_request(group), 3)
        assert joined.error_code == ErrorCode.NONE
        one = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")
        request = SyncGroupRequest(
            group_id=group, generation_id=1, member_id=joined.member_id, assignments=[one]
        )
        synced = await self.answer(node_id, "SyncGroup", request, 2)
        assert synced.error_code == ErrorCode.NONE
        return str(joined.member_id)

    async def heartbeat(self, node_id: int, group: str, member_id: str) -> int:
        """Return the error code of a heartbeat of generation 1."""
        request = HeartbeatRequest(group_id=group, generation_id=1, member_id=member_id)
        return int((await self.answer(node_id, "Heartbeat", request)).error_code)

    async def commit(self, node_id: int, group: str, offset: int) -> int:
        """Commit as a standalone consumer; return the partition's error code."""
        answer = await self.answer(node_id, "OffsetCommit", commit_request(group, offset))
        return int(answer.topics[0].partitions[0].error_code)

    async def committed(self, node_id: int, group: str) -> tuple[int, int]:
        """Return the error code and the committed offset of partition 0 of `t`."""
        topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)]
        )
        (one,) = (await self.answer(node_id, "OffsetFetch", request)).groups
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
