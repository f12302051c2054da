"""A cluster whose clock is virtual."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

from coordinator_server.control.advance import ClockController
from coordinator_server.control.request import ControlRequest
from coordinator_server.control.routes import ROUTES
from coordinator_server.core.groups.classic.metadata import GroupMetadata
from protocol.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.apis.join_group import JoinGroupRequest
from protocol.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.errors import ErrorCode
from storage.memory_disk import MemoryDisk
from tests.harness.client import SentRequest
from tests.harness.clock import START_MS
from tests.harness.groups import join_request
from tests.harness.nodes import Nodes


class VirtualTimeNodes(Nodes):
    """A cluster with a virtual clock and a topic `t`; the machine's time stands still."""

    def __init__(self, disk: MemoryDisk | None = None, count: int = 3, /, **overrides: str) -> None:
        super().__init__(disk, count, has_virtual_clock=True, **overrides)
        if not self.topics.partition_count("t"):
            self.topics.create("t", 1, {})
        self.controller = ClockController(self.cluster)

    def control_request(self, verb: str, body: Any = None, **given: str) -> ControlRequest:
        """Return a request to the control server; upper-case names are parameters of the path."""
        (route,) = (route for route in ROUTES if route.verb == verb)
        path = {name: text for name, text in given.items() if name.isupper()}
        query = {name: text for name, text in given.items() if not name.isupper()}
        sent = b"" if body is None else json.dumps(body).encode()
        values = route.values(query)
        return ControlRequest(self.cluster, path, query, sent, values=values, route=route)

    async def done(self, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        """Run the turns of the broker until a request has its response."""
        task = asyncio.ensure_future(work)
        while not task.done():
            await asyncio.sleep(0)
            self.turn()
        return task.result()

    def classic(self, group_id: str) -> GroupMetadata:
        """Return a classic group that broker 1 coordinates."""
        group = self.groups.tasks[group_id].group
        assert isinstance(group, GroupMetadata)
        return group

    @property
    def elapsed_ms(self) -> int:
        """Return the time since the start in ms."""
        return self.cluster.clock.now_ms() - START_MS

    def join_with(self, group: str, session_timeout_ms: int) -> str:
        """Bring a group to Stable with one member of this session timeout; return its member id."""
        node_id = self.home(group).leader_id
        request: JoinGroupRequest = join_request(group)
        request.session_timeout_ms = session_timeout_ms
        joined = self.ask(request, 3, node_id=node_id)
        one = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")
        sync = SyncGroupRequest(
            group_id=group, generation_id=1, member_id=joined.member_id, assignments=[one]
        )
        assert (self.ask(sync, 2, node_id=node_id)).error_code == ErrorCode.NONE
        return str(joined.member_id)

    def fetch(self, max_wait_ms: int) -> SentRequest:
        """Send a fetch of the empty topic `t`; return its call."""
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1000,
            topics=[FetchTopic(topic="t", partitions=[partition])],
        )
        return self.send(request, 12, node_id=self.partition("t", 0).leader_id)
