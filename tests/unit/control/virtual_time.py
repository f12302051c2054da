"""A cluster whose clock is virtual."""

from __future__ import annotations

from coordinator_server.control.advance import ClockController
from coordinator_server.core.groups.classic.metadata import GroupMetadata
from protocol.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.apis.join_group import JoinGroupRequest
from protocol.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.errors import ErrorCode
from tests.unit.coordinator.fakes import join_request
from tests.unit.nodes import Nodes
from tests.unit.topics.fakes import START_MS, FakeCall


class VirtualTimeNodes(Nodes):
    """A cluster with a virtual clock; the machine's time stands still."""

    def classic(self, group_id: str) -> GroupMetadata:
        """Return a classic group that broker 1 coordinates."""
        group = self.cluster.brokers[1].groups.tasks[group_id].group
        assert isinstance(group, GroupMetadata)
        return group

    has_virtual_clock = True

    async def start(self) -> VirtualTimeNodes:
        """Start the cluster with its offsets topic and a topic `t`."""
        await super().start()
        self.cluster.topics.create("t", 1, {})
        self.controller = ClockController(self.cluster)
        return self

    @property
    def elapsed_ms(self) -> int:
        """The time since the start in ms."""
        return self.cluster.clock.now_ms() - START_MS

    async def join_with(self, group: str, session_timeout_ms: int) -> str:
        """Bring a group to Stable with one member of this session timeout; return its member id."""
        node_id = self.home(group).leader_id
        request: JoinGroupRequest = join_request(group)
        request.session_timeout_ms = session_timeout_ms
        joined = await self.answer(node_id, "JoinGroup", request, 3)
        one = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")
        sync = SyncGroupRequest(
            group_id=group, generation_id=1, member_id=joined.member_id, assignments=[one]
        )
        assert (await self.answer(node_id, "SyncGroup", sync, 2)).error_code == ErrorCode.NONE
        return str(joined.member_id)

    def fetch(self, max_wait_ms: int) -> FakeCall:
        """Send a fetch of the empty topic `t`; return its call."""
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1000,
            topics=[FetchTopic(topic="t", partitions=[partition])],
        )
        return self.send(self.partition("t", 0).leader_id, "Fetch", request, 12)
