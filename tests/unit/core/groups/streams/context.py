"""Helpers for tests of streams groups: members that heartbeat, reconcile, leave and commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator_server.core.groups.settings import GroupSettings
from coordinator_server.core.groups.streams.status import StatusCode
from coordinator_server.core.groups.streams.streams_group import StreamsGroup
from protocol.apis.streams_group_describe import (
    DescribedStreamsGroup,
    StreamsGroupDescribeRequest,
)
from protocol.apis.streams_group_heartbeat import (
    StreamsEndpoint,
    StreamsGroupHeartbeatRequest,
    StreamsKeyValue,
    StreamsTaskIds,
    StreamsTopology,
)
from protocol.errors import ErrorCode
from tests.harness.one_group import GROUP, Answer, OneGroupBroker
from tests.harness.topologies import subtopology, topology
from tests.unit.core.groups.context import Member, Offset, commit

TOPICS = {"one": 1, "two": 2, "three": 3}
REBALANCE_MS = 30_000

Tasks = dict[str, list[int]]
"""Subtopology -> partitions."""


READS_THREE = topology(subtopology("0", "three"))
"""Three tasks without state."""


def listed(tasks: Tasks) -> list[StreamsTaskIds]:
    """Return tasks in the form of a request field."""
    return [StreamsTaskIds(subtopology_id=one, partitions=parts) for one, parts in tasks.items()]


class StreamsMember:
    """A client of the streams protocol that keeps its epoch and assigned tasks.

    The member is the only thread of its process unless `process` is given.
    """

    def __init__(
        self,
        context: StreamsContext,
        name: str,
        topology: StreamsTopology | None = READS_THREE,
        *,
        process: str | None = None,
        rebalance_ms: int = REBALANCE_MS,
        endpoint: tuple[str, int] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        self.context = context
        self.broker = context.broker
        self.id = name
        self.topology = topology
        self.process = process or f"process-{name}"
        self.rebalance_ms = rebalance_ms
        self.endpoint = endpoint
        self.tags = dict(tags or {})
        self.epoch = 0
        self.endpoint_epoch = 0
        self.active: Tasks = {}
        self.standby: Tasks = {}

    def send(self, **fields: Any) -> Answer:
        """Send a heartbeat with only these fields; the member applies and returns the answer."""
        request = {
            "group_id": GROUP,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "endpoint_information_epoch": self.endpoint_epoch,
            **fields,
        }
        answer = self.broker.send(StreamsGroupHeartbeatRequest(**request), 0)
        response = answer.response
        if response is not None and not response.error_code:
            self.epoch = response.member_epoch
            self.endpoint_epoch = response.endpoint_information_epoch
            if response.active_tasks is not None:
                self.active = _tasks(response.active_tasks)
                self.standby = _tasks(response.standby_tasks)
        return answer

    def join(self, **fields: Any) -> Answer:
        """Send every field, as a joining member does; return the answer."""
        endpoint = self.endpoint
        return self.send(
            **{
                "member_epoch": 0,
                "rebalance_timeout_ms": self.rebalance_ms,
                "topology": self.topology,
                "process_id": self.process,
                "user_endpoint": endpoint and StreamsEndpoint(host=endpoint[0], port=endpoint[1]),
                "client_tags": [
                    StreamsKeyValue(key=key, value=value) for key, value in self.tags.items()
                ],
                "active_tasks": [],
                "standby_tasks": [],
                "warmup_tasks": [],
                **fields,
            }
        )

    def beat(self, **fields: Any) -> ErrorCode:
        """Send a heartbeat without changes; return its error."""
        return self.send(**fields).error

    def own(
        self, active: Tasks | None = None, standby: Tasks | None = None, **fields: Any
    ) -> Answer:
        """Send a heartbeat with the given or else the assigned tasks; return the answer."""
        return self.send(
            active_tasks=listed(self.active if active is None else active),
            standby_tasks=listed(self.standby if standby is None else standby),
            warmup_tasks=[],
            **fields,
        )

    def leave(self, **fields: Any) -> ErrorCode:
        """Leave for good; return the error."""
        return self.send(**{"member_epoch": -1, **fields}).error

    def commit(self, *offsets: Offset, **changes: Any) -> list[ErrorCode]:
        """Commit as a member; return the errors in order."""
        fields = {
            "generation_id_or_member_epoch": self.epoch,
            "member_id": self.id,
            "version": 9,
        }
        return commit(self.broker, *offsets, **fields | changes)

    @property
    def count(self) -> int:
        """Return the number of assigned active tasks."""
        return sum(map(len, self.active.values()))


def _tasks(listed: Sequence[StreamsTaskIds]) -> Tasks:
    return {one.subtopology_id: list(one.partitions) for one in listed}


def statuses(answer: Answer) -> dict[StatusCode, str]:
    """Return the group statuses in the response."""
    return {StatusCode(one.status_code): one.status_detail for one in answer.response.status}


class StreamsContext:
    """A broker and its group, without any initial delay or interval unless one is given."""

    def __init__(self, topics: dict[str, int] | None = None, **settings: Any) -> None:
        defaults: dict[str, Any] = {
            "initial_rebalance_delay_ms": 0,
            "streams_initial_rebalance_delay_ms": 0,
            "streams_assignment_interval_ms": 0,
        }
        counts = dict(TOPICS if topics is None else topics)
        self.broker = OneGroupBroker(GroupSettings(**defaults | settings), counts)

    def member(
        self, name: str, topology: StreamsTopology | None = READS_THREE, **options: Any
    ) -> StreamsMember:
        """Return a client of the streams protocol that has not joined yet."""
        return StreamsMember(self, name, topology, **options)

    def classic(self, name: str, **options: Any) -> Member:
        """Return a client of the classic protocol that has not joined yet."""
        return Member(self.broker, name, **options)

    def joined(self, *members: StreamsMember) -> None:
        """Let all members join and reconcile until the group is stable."""
        for member in members:
            assert member.join().error is ErrorCode.NONE
        self.reconcile(*members)

    def reconcile(self, *members: StreamsMember) -> None:
        """Let all members send heartbeats with their tasks until the group is stable."""
        for _ in range(10):
            for member in members:
                assert member.own().error is ErrorCode.NONE
            if self.state == "Stable":
                return
        raise AssertionError(f"{self.state} after ten rounds")

    @property
    def group(self) -> StreamsGroup:
        """Return the group, which must be a streams group."""
        group = self.broker.any_group
        assert isinstance(group, StreamsGroup), group
        return group

    @property
    def state(self) -> str:
        """Return the state of the group."""
        return self.group.state.value

    @property
    def epochs(self) -> tuple[int, int]:
        """Return the epochs of the group and of its target assignment."""
        return self.group.epoch, self.group.assignment_epoch

    def describe(self, **fields: Any) -> DescribedStreamsGroup:
        """Return the response to StreamsGroupDescribe."""
        request = StreamsGroupDescribeRequest(**{"group_ids": [GROUP], **fields})
        described: DescribedStreamsGroup = self.broker.send(request, 0).response.groups[0]
        return described

    def change_topics(self, **counts: int) -> None:
        """Create topics, add partitions, or delete topics (0)."""
        for topic, count in counts.items():
            if count:
                self.broker.topics.counts[topic] = count
            else:
                del self.broker.topics.counts[topic]
        self.broker.topics.revision += 1

    def check(self) -> None:
        """Check that a replay gives the same group, and that no task is active in two members."""
        self.broker.check_replay_law()
        runners: dict[tuple[str, int], str] = {}
        for member_id, current in self.group.currents.items():
            for tasks in (current.assigned.active, current.revoking.active):
                for subtopology_id, partitions in tasks.items():
                    for partition in partitions:
                        task = subtopology_id, partition
                        assert runners.setdefault(task, member_id) == member_id, task
