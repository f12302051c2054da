"""A broker with clients of all kinds of groups, in virtual time."""

from __future__ import annotations

from typing import Any

from coordinator_server.control import groups
from coordinator_server.control.request import ControlRequest
from protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OwnedTopicPartitions,
)
from protocol.apis.share_fetch import ShareFetchPartition, ShareFetchRequest, ShareFetchTopic
from protocol.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from storage.memory_disk import MemoryDisk
from tests.harness.clock import settle
from tests.unit.control.virtual_time import VirtualTimeNodes


class ModernNodes(VirtualTimeNodes):
    """A broker with the topics `t` and `three`, and clients of all kinds of groups."""

    def __init__(self, disk: MemoryDisk | None = None, count: int = 3, /, **overrides: Any) -> None:
        super().__init__(disk, count, **overrides)
        self.topics.create("three", 3, {})
        self.loaded()

    def topic_id(self, name: str) -> bytes:
        """Return the id of a topic."""
        topic = self.cluster.topics.topic(name)
        assert topic is not None
        return topic.topic_id

    def beat(
        self, member_id: str, epoch: int, owned: list[int] | None = None
    ) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat of a member that subscribes to `three`; return the response."""
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=member_id, member_epoch=epoch
        )
        if not epoch:
            request.rebalance_timeout_ms = 30_000
            request.subscribed_topic_names = ["three"]
            request.topic_partitions = []
        if owned is not None:
            one = OwnedTopicPartitions(topic_id=self.topic_id("three"), partitions=owned)
            request.topic_partitions = [one]
        answer = self.ask(request, 1)
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        assert not answer.error_code, answer
        return answer

    def share(self, member_id: str, epoch: int) -> int:
        """Send a heartbeat of a share group member that subscribes to `t`; return its epoch."""
        request = ShareGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch)
        if not epoch:
            request.subscribed_topic_names = ["t"]
        answer = self.ask(request, 1)
        assert not answer.error_code, answer
        return int(answer.member_epoch)

    def take(self, member_id: str, epoch: int) -> int:
        """Send a ShareFetch for `t`; return the number of acquired records."""
        partition = ShareFetchPartition(partition_index=0)
        topic = ShareFetchTopic(topic_id=self.topic_id("t"), partitions=[partition])
        request = ShareFetchRequest(
            group_id="g",
            member_id=member_id,
            share_session_epoch=epoch,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1000,
            max_records=500,
            batch_size=500,
            topics=[topic],
        )
        answer = self.ask(request, 2)
        assert not answer.error_code, answer
        return sum(
            one.last_offset - one.first_offset + 1
            for response in answer.responses
            for partition in response.partitions
            for one in partition.acquired_records
        )

    async def group(self) -> dict[str, Any]:
        """Return the response to GET /groups/g."""
        await settle()
        found: dict[str, Any]
        found = await groups.group(ControlRequest(self.cluster, {"GROUP": "g"}, {}, b""))
        return found
