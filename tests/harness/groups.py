"""A broker with groups, and requests of their members."""

from __future__ import annotations

from typing import Any

from coordinator_server.core.groups.classic.metadata import GroupMetadata
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
from storage.memory_disk import MemoryDisk
from tests.harness.broker import MemoryBroker


class GroupBroker(MemoryBroker):
    """A broker with groups; topic `t` and the offsets topic have four partitions each."""

    defaults = {"group_initial_rebalance_delay_ms": "0", "offsets_topic_num_partitions": "4"}

    def __init__(self, disk: MemoryDisk | None = None, /, **overrides: Any) -> None:
        super().__init__(disk, **overrides)
        if not self.topics.partition_count("t"):
            self.topics.create("t", 4, {})

    def classic(self, group_id: str) -> GroupMetadata:
        """Return an existing classic group."""
        group = self.groups.tasks[group_id].group
        assert isinstance(group, GroupMetadata)
        return group

    def join(self, group: str, version: int = 3) -> str:
        """Bring a group to Stable with one member; return the member's id."""
        joined = self.ask(join_request(group), version)
        assert joined.error_code == ErrorCode.NONE
        one = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")
        synced = self.ask(
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

    def commit(self, group: str, offset: int, partition: int = 0) -> int:
        """Commit as a standalone consumer; return the partition's error code."""
        answer = self.ask(commit_request(group, offset, partition))
        return int(answer.topics[0].partitions[0].error_code)

    def committed(self, group: str, partition: int = 0) -> int:
        """Return the committed offset of a partition of `t`; -1 without a committed offset."""
        topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[partition])]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)]
        )
        answer = self.ask(request)
        return int(answer.groups[0].topics[0].partitions[0].committed_offset)


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
