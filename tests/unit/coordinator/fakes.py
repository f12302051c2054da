"""A broker with groups on a disk in memory, without sockets; the request handlers are real."""

from __future__ import annotations

import asyncio
from typing import Any, cast
from uuid import uuid4

from coordinator_server.apis.handlers import handler_of
from coordinator_server.clock.step_runner import StepRunner
from coordinator_server.config.coordinator_configs import group_settings
from coordinator_server.coordinator.group_coordinator import GroupCoordinator
from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.core.groups.kinds import in_place_of
from coordinator_server.core.groups.settings import GroupEnvironment
from coordinator_server.rebalances.journal import RebalanceJournal
from coordinator_server.runtime.topic import CoordinatorTopic
from coordinator_server.topics.names import OFFSETS_TOPIC
from protocol.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.errors import ErrorCode
from protocol.registry import SPEC_BY_NAME
from protocol.schema import Message
from storage.memory_disk import MemoryDisk
from tests.sim.share_state import SimulatedPersister
from tests.unit.topics.fakes import FakeBroker, FakeCall, FakeConnection
from tests.versions import newest_with_names


class GroupBroker(FakeBroker):
    """A FakeBroker with a coordinator and a topic `t` of four partitions; needs a running loop."""

    def __init__(self, disk: MemoryDisk | None = None, **overrides: str) -> None:
        settings = {
            "group_initial_rebalance_delay_ms": "0",
            "offsets_topic_num_partitions": "4",
            **overrides,
        }
        super().__init__(disk, **settings)
        if not self.topics.partition_count("t"):
            self.topics.create("t", 4, {})
        self.journal = RebalanceJournal(
            self.config, self.clock, self.topics, self.scheduler, self.step_runner
        )
        persister = cast("Any", SimulatedPersister())
        self.groups = GroupCoordinator(
            GroupEnvironment(
                group_settings(self.config),
                lambda prefix: f"{prefix}-{uuid4()}",
                lambda: str(uuid4()),
                in_place_of,
                self.topics,
                self.group_configs.of,
            ),
            self.clock,
            StepRunner(self.clock),
            self.topics,
            CoordinatorTopic(self.topics, OFFSETS_TOPIC),
            node_id=self.node_id,
            explain=self.journal.take,
            persister=lambda: persister,
        )
        self.groups.start()

    def send(self, api: str, request: Message, version: int | None = None) -> FakeCall:
        """Pass a request to its handler; the response may come later. Return the call."""
        spec = SPEC_BY_NAME[api]
        version = newest_with_names(spec) if version is None else version
        call = FakeCall(version, "test", FakeConnection())
        call.serve(handler_of(spec), self, request)
        return call

    async def answer(self, api: str, request: Message, version: int | None = None) -> Any:
        """Return the response to a request that is not parked."""
        call = self.send(api, request, version)
        await settle()
        assert call.replies, "parked"
        return call.replies[0]

    def classic(self, group_id: str) -> GroupMetadata:
        """Return an existing classic group."""
        group = self.groups.tasks[group_id].group
        assert isinstance(group, GroupMetadata)
        return group

    async def join(self, group: str, version: int = 3) -> str:
        """Bring a group to Stable with one member; return the member's id."""
        joined = await self.answer("JoinGroup", join_request(group), version)
        assert joined.error_code == ErrorCode.NONE
        one = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")
        synced = await self.answer(
            "SyncGroup",
            SyncGroupRequest(
                group_id=group,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                assignments=[one],
            ),
            2,
        )
        assert synced.error_code == ErrorCode.NONE
        return str(joined.member_id)

    async def commit(self, group: str, offset: int, partition: int = 0) -> int:
        """Commit as a standalone consumer; return the partition's error code."""
        answer = await self.answer("OffsetCommit", commit_request(group, offset, partition))
        return int(answer.topics[0].partitions[0].error_code)

    async def committed(self, group: str, partition: int = 0) -> int:
        """Return the committed offset of a partition of `t`; -1 without one."""
        topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[partition])]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)]
        )
        answer = await self.answer("OffsetFetch", request)
        return int(answer.groups[0].topics[0].partitions[0].committed_offset)


async def settle() -> None:
    """Let every task run until none has anything to do."""
    for _ in range(20):
        await asyncio.sleep(0)


def join_request(group: str, member_id: str = "") -> JoinGroupRequest:
    """Return a JoinGroup request of a consumer."""
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0")],
    )


def commit_request(
    group: str, offset: int, partition: int = 0, topic: str = "t"
) -> OffsetCommitRequest:
    """Return an OffsetCommit request of a standalone consumer."""
    one = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[one])],
    )
