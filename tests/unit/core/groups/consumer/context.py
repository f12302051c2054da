"""Helpers for tests of consumer groups: members that heartbeat, reconcile, leave and commit."""

from __future__ import annotations

from typing import Any

from coordinator_server.core.groups.consumer.consumer_group import ConsumerGroup
from coordinator_server.core.groups.consumer.records import member_record
from coordinator_server.core.groups.records import CoordinatorRecord, encode_record
from coordinator_server.core.groups.settings import GroupSettings
from protocol.apis.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    DescribedConsumerGroup,
)
from protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    OwnedTopicPartitions,
)
from protocol.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from protocol.errors import ErrorCode
from protocol.offsets_log import GroupMetadataKey, OffsetCommitKey
from protocol.schema import Message
from tests.harness.one_group import GROUP, Answer, OneGroupBroker
from tests.unit.core.groups.context import Member, Offset, commit

NAMES: dict[type[Message], str] = {
    ConsumerGroupMetadataKey: "epoch",
    ConsumerGroupMemberMetadataKey: "member",
    ConsumerGroupTargetAssignmentMemberKey: "target",
    ConsumerGroupTargetAssignmentMetadataKey: "target epoch",
    ConsumerGroupCurrentMemberAssignmentKey: "current",
    ConsumerGroupRegularExpressionKey: "regex",
    ConsumerGroupPartitionMetadataKey: "partitions",
    GroupMetadataKey: "classic",
    OffsetCommitKey: "offset",
}
"""Short names of the records."""

TOPICS = {"one": 1, "two": 2, "three": 3, "six": 6}
REBALANCE_MS = 30_000

Owned = dict[str, list[int]]
"""Topic -> partitions."""


class ConsumerMember:
    """A client of the consumer protocol that keeps its id, epoch and assignment."""

    def __init__(
        self,
        context: ConsumerContext,
        name: str,
        *topics: str,
        version: int = 1,
        instance_id: str | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        rebalance_ms: int = REBALANCE_MS,
    ) -> None:
        self.context = context
        self.broker = context.broker
        self.id = name
        self.version = version
        self.instance_id = instance_id
        self.topics = list(topics)
        self.regex = regex
        self.assignor = assignor
        self.rebalance_ms = rebalance_ms
        self.epoch = 0
        self.owned: Owned = {}

    def send(self, **fields: Any) -> Answer:
        """Send a heartbeat with only these fields; the member applies and returns the answer."""
        request = {"group_id": GROUP, "member_id": self.id, "member_epoch": self.epoch, **fields}
        answer = self.broker.send(ConsumerGroupHeartbeatRequest(**request), self.version)
        if not answer.parked:
            self.learn(answer)
        return answer

    def learn(self, answer: Answer) -> None:
        """Update the member from a response."""
        response = answer.response
        if response.error_code:
            return
        self.id = response.member_id
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.owned = {
                self.context.name_of(one.topic_id): list(one.partitions)
                for one in response.assignment.topic_partitions
            }

    def join(self, **fields: Any) -> Answer:
        """Send every field, as a joining member does; return the answer."""
        return self.send(
            **{
                "member_epoch": 0,
                "instance_id": self.instance_id,
                "rebalance_timeout_ms": self.rebalance_ms,
                "subscribed_topic_names": self.topics,
                "subscribed_topic_regex": self.regex,
                "server_assignor": self.assignor,
                "topic_partitions": [],
                **fields,
            }
        )

    def beat(self, **fields: Any) -> ErrorCode:
        """Send a heartbeat without changes; return its error."""
        return self.send(instance_id=self.instance_id, **fields).error

    def own(self, owned: Owned | None = None, **fields: Any) -> ErrorCode:
        """Send a heartbeat with the owned partitions, or the assignment; return its error."""
        return self.beat(topic_partitions=self.listed(owned), **fields)

    def listed(self, owned: Owned | None = None) -> list[OwnedTopicPartitions]:
        """Return the owned partitions in the form of a request field."""
        return [
            OwnedTopicPartitions(topic_id=self.context.id_of(topic), partitions=partitions)
            for topic, partitions in (self.owned if owned is None else owned).items()
        ]

    def leave(self, epoch: int = -1) -> ErrorCode:
        """Leave for good, or for a while with epoch -2; return the error."""
        return self.send(member_epoch=epoch, instance_id=self.instance_id).error

    def commit(self, *offsets: Offset, **changes: Any) -> list[ErrorCode]:
        """Commit as a member; return the errors in order."""
        fields = {
            "generation_id_or_member_epoch": self.epoch,
            "member_id": self.id,
            "group_instance_id": self.instance_id,
            "version": 9,
        }
        return commit(self.broker, *offsets, **fields | changes)

    @property
    def count(self) -> int:
        """Return the number of assigned partitions."""
        return sum(map(len, self.owned.values()))


class ConsumerContext:
    """A broker and its group; assignments are computed at once unless an interval is given."""

    def __init__(self, topics: dict[str, int] | None = None, **settings: Any) -> None:
        defaults: dict[str, Any] = {
            "initial_rebalance_delay_ms": 0,
            "consumer_assignment_interval_ms": 0,
        }
        counts = dict(TOPICS if topics is None else topics)
        self.broker = OneGroupBroker(GroupSettings(**defaults | settings), counts)
        self._read = 0

    def member(self, name: str, *topics: str, **options: Any) -> ConsumerMember:
        """Return a client of the consumer protocol that has not joined yet."""
        return ConsumerMember(self, name, *topics, **options)

    def classic(self, name: str, **options: Any) -> Member:
        """Return a client of the classic protocol that has not joined yet."""
        return Member(self.broker, name, **options)

    def joined(self, *members: ConsumerMember) -> None:
        """Let all members join and reconcile until the group is stable."""
        for member in members:
            assert member.join().error is ErrorCode.NONE
        self.reconcile(*members)

    def reconcile(self, *members: ConsumerMember) -> None:
        """Let all members send heartbeats with their owned partitions until the group is stable."""
        for _ in range(10):
            for member in members:
                assert member.own() is ErrorCode.NONE
            if self.state == "Stable":
                return
        raise AssertionError(f"{self.state} after ten rounds")

    @property
    def group(self) -> ConsumerGroup:
        """Return the group, which must be a consumer group."""
        group = self.broker.any_group
        assert isinstance(group, ConsumerGroup), group
        return group

    @property
    def state(self) -> str:
        """Return the state of the group."""
        return self.group.state.value

    @property
    def epochs(self) -> tuple[int, int]:
        """Return the epochs of the group and of its target assignment."""
        return self.group.epoch, self.group.assignment_epoch

    def describe(self, version: int = 1) -> DescribedConsumerGroup:
        """Return the response to ConsumerGroupDescribe."""
        request = ConsumerGroupDescribeRequest(group_ids=[GROUP])
        described: DescribedConsumerGroup = self.broker.send(request, version).response.groups[0]
        return described

    def change_topics(self, **counts: int) -> None:
        """Create topics, add partitions, or delete topics (0)."""
        topics = self.broker.topics
        are_new = bool(counts.keys() - topics.counts)
        for topic, count in counts.items():
            if count:
                topics.counts[topic] = count
            else:
                del topics.counts[topic]
        topics.revision += 1
        if are_new:
            topics.created_revision = topics.revision

    def id_of(self, topic: str) -> bytes:
        """Return the id of a topic; the topic need not exist."""
        return topic.encode().ljust(16, b"-")

    def name_of(self, topic_id: bytes) -> str:
        """Return the topic of an id."""
        return topic_id.decode().rstrip("-")

    def new_records(self) -> list[CoordinatorRecord]:
        """Return the records since the last call."""
        records = [*self.broker.records()]
        start, self._read = self._read, len(records)
        return records[start:]

    def written(self) -> list[str]:
        """Return the new records in short: kind, owner and epoch; "-" marks a tombstone."""
        return [short(record) for record in self.new_records()]

    def replay(self, *records: CoordinatorRecord) -> None:
        """Append records as another broker would, and load the group."""
        self.broker.log += [encode_record(record) for record in records]
        self.broker.crash()

    def rewrite(self, member_id: str, **changes: Any) -> None:
        """Append a changed member record, and load the group."""
        record = member_record(GROUP, self.group.members[member_id])
        for name, value in changes.items():
            setattr(record[1], name, value)
        self.replay(record)

    def check(self) -> None:
        """Check that a replay gives the same group, and that no partition has two owners."""
        self.broker.check_replay_law()
        owners: dict[tuple[bytes, int], str] = {}
        for member_id, current in self.group.currents.items():
            for place in current.held():
                assert owners.setdefault(place, member_id) == member_id, place


def short(record: CoordinatorRecord) -> str:
    """Return a record in a few words."""
    key, value = record
    words = [NAMES[type(key)]]
    for name in ("member_id", "regular_expression"):
        words += [getattr(key, name)] if hasattr(key, name) else []
    if value is None:
        return "-" + " ".join(words)
    for name in ("epoch", "assignment_epoch", "member_epoch"):
        words += [str(getattr(value, name))] if hasattr(value, name) else []
    return " ".join(words)
