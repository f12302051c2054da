"""Helpers for tests of share groups: members that heartbeat, and administration."""

from __future__ import annotations

from typing import Any

from coordinator_server.core.groups.settings import GroupSettings
from coordinator_server.core.groups.share.share_group import ShareGroup
from coordinator_server.core.share_partitions.persister import SharePartitionKey
from protocol.apis.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from protocol.apis.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from protocol.apis.share_group_describe import DescribedShareGroup, ShareGroupDescribeRequest
from protocol.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.errors import ErrorCode
from tests.harness.one_group import GROUP, Answer, OneGroupBroker, topic_id_of
from tests.unit.core.groups.context import Member

TOPICS = {"one": 1, "two": 2, "three": 3}

Partitions = dict[str, list[int]]
"""Topic -> partitions."""


class ShareMember:
    """A client of a share group that keeps its epoch and assignment."""

    def __init__(self, context: ShareContext, name: str, *topics: str) -> None:
        self.broker = context.broker
        self.id = name
        self.topics = list(topics)
        self.epoch = 0
        self.assigned: Partitions | None = None

    def send(self, client_id: str | None = "client", **fields: Any) -> Answer:
        """Send a heartbeat with only these fields; the member applies and returns the answer."""
        request = {"group_id": GROUP, "member_id": self.id, "member_epoch": self.epoch, **fields}
        answer = self.broker.send(ShareGroupHeartbeatRequest(**request), 1, client_id)
        response = answer.response
        if response is not None and not response.error_code:
            self.epoch = response.member_epoch
            if response.assignment is not None:
                self.assigned = {
                    name_of(one.topic_id): list(one.partitions)
                    for one in response.assignment.topic_partitions
                }
        return answer

    def join(self, **fields: Any) -> Answer:
        """Send every field, as a joining member does; return the answer."""
        return self.send(**{"member_epoch": 0, "subscribed_topic_names": self.topics, **fields})

    def beat(self, **fields: Any) -> ErrorCode:
        """Send a heartbeat without changes; return its error."""
        return self.send(**fields).error

    def leave(self) -> ErrorCode:
        """Leave the group; return the error."""
        return self.send(member_epoch=-1).error


class ShareContext:
    """A broker and its group; assignments are computed at once unless an interval is given."""

    def __init__(self, topics: dict[str, int] | None = None, **settings: Any) -> None:
        defaults: dict[str, Any] = {
            "initial_rebalance_delay_ms": 0,
            "share_assignment_interval_ms": 0,
        }
        counts = dict(TOPICS if topics is None else topics)
        self.broker = OneGroupBroker(GroupSettings(**defaults | settings), counts)
        self.share_state = self.broker.persister

    def member(self, name: str, *topics: str) -> ShareMember:
        """Return a client that has not joined yet."""
        return ShareMember(self, name, *topics)

    def classic(self, name: str, **options: Any) -> Member:
        """Return a client of the classic protocol."""
        return Member(self.broker, name, **options)

    def joined(self, *members: ShareMember) -> None:
        """Let all members join, and send heartbeats until the group is stable."""
        for member in members:
            assert member.join().error is ErrorCode.NONE
        for _ in range(3):
            for member in members:
                assert member.beat() is ErrorCode.NONE

    @property
    def group(self) -> ShareGroup:
        """Return the group, which must be a share group."""
        group = self.broker.any_group
        assert isinstance(group, ShareGroup), group
        return group

    @property
    def epochs(self) -> tuple[int, int]:
        """Return the epochs of the group and of its target assignment."""
        return self.group.epoch, self.group.assignment_epoch

    @property
    def states(self) -> tuple[Partitions, Partitions, list[str]]:
        """Return the initializing and initialized partitions, and the topics being deleted."""
        states = self.group.states
        assert states is not None
        initializing, initialized = (
            {topic.name: sorted(topic.partitions) for topic in topics.values()}
            for topics in (states.initializing, states.initialized)
        )
        return initializing, initialized, list(states.deleting.values())

    @property
    def kept(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Return the share coordinator's state epoch and start offset by topic and partition."""
        states = self.share_state.states
        return {(name_of(key.topic_id), key.partition): state for key, state in states.items()}

    def key(self, topic: str, partition: int) -> SharePartitionKey:
        """Return the share coordinator's key of a partition."""
        return SharePartitionKey(GROUP, topic_id_of(topic), partition)

    def refusing(self, topic: str, error: ErrorCode | None) -> None:
        """Make the share coordinator return an error for a topic, or stop this with None."""
        if error is None:
            del self.share_state.errors[topic_id_of(topic)]
        else:
            self.share_state.errors[topic_id_of(topic)] = error

    def describe(self, group_id: str = GROUP, **fields: Any) -> DescribedShareGroup:
        """Return the response to ShareGroupDescribe."""
        request = ShareGroupDescribeRequest(group_ids=[group_id], **fields)
        described: DescribedShareGroup = self.broker.send(request, 1).response.groups[0]
        return described

    def alter(self, offsets: dict[str, dict[int, int]], group_id: str = GROUP) -> Answer:
        """Send AlterShareGroupOffsets of offsets by topic and partition; return the answer."""
        topics = [
            AlterShareGroupOffsetsRequestTopic(
                topic_name=name,
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(partition_index=one, start_offset=at)
                    for one, at in partitions.items()
                ],
            )
            for name, partitions in offsets.items()
        ]
        request = AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics)
        return self.broker.send(request, 0)

    def delete_offsets(self, *topics: str, group_id: str = GROUP) -> Answer:
        """Send DeleteShareGroupOffsets; return the answer."""
        names = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]
        request = DeleteShareGroupOffsetsRequest(group_id=group_id, topics=names)
        return self.broker.send(request, 0)

    def change_topics(self, **counts: int) -> None:
        """Create topics, add partitions, or delete topics (0)."""
        for topic, count in counts.items():
            if count:
                self.broker.topics.counts[topic] = count
            else:
                del self.broker.topics.counts[topic]
        self.broker.topics.revision += 1

    def let_go(self) -> None:
        """Let the share coordinator release the responses that it holds back."""
        self.share_state.let_go()
        self.broker.settle()

    def records(self) -> list[str]:
        """Return the names of the records in the log; a minus marks a tombstone."""
        names = []
        for key, value in self.broker.records():
            name = type(key).__name__.removeprefix("ShareGroup").removesuffix("Key")
            names.append(name if value is not None else f"-{name}")
        return names

    def check(self) -> None:
        """Check that a replay of the log gives the same group."""
        self.broker.check_replay_law()


def name_of(topic_id: bytes) -> str:
    """Return the topic of an id."""
    return topic_id.decode().rstrip("-")
