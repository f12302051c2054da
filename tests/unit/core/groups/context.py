"""Helpers for tests of groups: members that join, sync, heartbeat, leave and commit."""

from __future__ import annotations

from typing import Any

from coordinator_server.core.groups.classic.state import GroupState
from coordinator_server.core.groups.settings import GroupSettings
from protocol.apis.heartbeat import HeartbeatRequest
from protocol.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.apis.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.apis.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from protocol.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from protocol.errors import ErrorCode
from tests.harness.one_group import GROUP, Answer, OneGroupBroker

SESSION_MS = 10_000
REBALANCE_MS = 30_000

Offset = tuple[str, int, int] | tuple[str, int, int, str | None]


def subscription(*topics: str) -> bytes:
    """Return consumer metadata that subscribes to `topics`."""
    return encode_subscription(ConsumerProtocolSubscription(topics=list(topics)), 0)


class Member:
    """A client of the group; takes its member id and generation from responses."""

    def __init__(
        self,
        broker: OneGroupBroker,
        name: str,
        *,
        version: int = 3,
        instance_id: str | None = None,
        protocols: list[tuple[str, bytes]] | None = None,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
    ) -> None:
        self.broker = broker
        self.name = name
        self.version = 5 if version < 5 and instance_id is not None else version
        self.instance_id = instance_id
        self.protocols = protocols or [("range", subscription(f"meta-{name}"))]
        self.protocol_type = protocol_type
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.id = ""
        self.generation = -1
        self.joins: list[Answer] = []

    def join(self, **changes: Any) -> Answer:
        """Send JoinGroup and return the answer; keyword arguments replace fields of the request."""
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "session_timeout_ms": self.session_ms,
            "rebalance_timeout_ms": self.rebalance_ms,
            "member_id": self.id,
            "group_instance_id": self.instance_id,
            "protocol_type": self.protocol_type,
            "protocols": [
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in self.protocols
            ],
        }
        answer = self.broker.send(
            JoinGroupRequest(**fields | changes), self.version, client_id=self.name
        )
        self.joins.append(answer)
        self.learn()
        return answer

    def learn(self) -> None:
        """Take the member id and generation from the last response."""
        if self.joins and self.joins[-1].response is not None:
            response = self.joins[-1].response
            self.id = response.member_id or self.id
            if response.error_code == ErrorCode.NONE:
                self.generation = response.generation_id

    @property
    def is_leader(self) -> bool:
        """Return whether the last response made this member the leader."""
        response = self.joins[-1].response
        return bool(response is not None and response.leader == self.id)

    def sync(
        self,
        assignments: dict[str, bytes] | None = None,
        *,
        version: int = 3,
        **changes: Any,
    ) -> Answer:
        """Send SyncGroup and return the answer."""
        return self.broker.send(self.sync_request(assignments, **changes), version)

    def sync_request(
        self, assignments: dict[str, bytes] | None = None, **changes: Any
    ) -> SyncGroupRequest:
        """Return a SyncGroup request of this member."""
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance_id,
            "assignments": [
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in (assignments or {}).items()
            ],
        }
        return SyncGroupRequest(**fields | changes)

    def heartbeat(self, **changes: Any) -> ErrorCode:
        """Send Heartbeat; return its error."""
        return self.send_heartbeat(**changes).error

    def send_heartbeat(self, **changes: Any) -> Answer:
        """Send Heartbeat and return the answer."""
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance_id,
        }
        return self.broker.send(HeartbeatRequest(**fields | changes), 4)

    def leave(self, reason: str | None = None) -> ErrorCode:
        """Leave the group; return this member's error."""
        answer = leave(self.broker, (self.id, self.instance_id), reason=reason)
        return ErrorCode(answer.response.members[0].error_code)

    def commit(self, *offsets: Offset, **changes: Any) -> list[ErrorCode]:
        """Commit as a member; return the errors in order."""
        fields = {
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance_id,
        }
        return commit(self.broker, *offsets, **fields | changes)


def leave(
    broker: OneGroupBroker,
    *identities: tuple[str, str | None],
    version: int = 5,
    reason: str | None = None,
    group_id: str = GROUP,
) -> Answer:
    """Send LeaveGroup for (member id, instance id) pairs; return the answer.

    Up to version 2 only the first member id is sent.
    """
    request = LeaveGroupRequest(
        group_id=group_id,
        member_id=identities[0][0] if identities and version < 3 else "",
        members=[
            MemberIdentity(member_id=member_id, group_instance_id=instance_id, reason=reason)
            for member_id, instance_id in identities
            if version >= 3
        ],
    )
    return broker.send(request, version)


def commit_answer(
    broker: OneGroupBroker, *offsets: Offset, version: int = 7, **changes: Any
) -> Answer:
    """Send OffsetCommit of (topic, partition, offset[, metadata]); return the answer.

    By default the commit is standalone.
    """
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for topic, partition, offset, *rest in offsets:
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset,
                committed_metadata=rest[0] if rest else "",
            )
        )
    fields: dict[str, Any] = {
        "group_id": GROUP,
        "topics": [
            OffsetCommitRequestTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    }
    return broker.send(OffsetCommitRequest(**fields | changes), version)


def commit(broker: OneGroupBroker, *offsets: Offset, **changes: Any) -> list[ErrorCode]:
    """Send OffsetCommit; return the errors of the partitions in the order of the request."""
    response = commit_answer(broker, *offsets, **changes).response
    errors = {
        (topic.name, one.partition_index): ErrorCode(one.error_code)
        for topic in response.topics
        for one in topic.partitions
    }
    return [errors[topic, partition] for topic, partition, *_ in offsets]


def offsets(broker: OneGroupBroker) -> dict[tuple[str, int], tuple[int, str]]:
    """Return all committed offsets with their metadata, by OffsetFetch."""
    request = OffsetFetchRequest(group_id=GROUP, topics=None)
    response = broker.send(request, 7).response
    return {
        (topic.name, one.partition_index): (one.committed_offset, one.metadata)
        for topic in response.topics
        for one in topic.partitions
    }


def fetch(broker: OneGroupBroker, topic: str, *partitions: int, version: int = 7) -> Any:
    """Return the OffsetFetch response for named partitions."""
    topics = [OffsetFetchRequestTopic(name=topic, partition_indexes=list(partitions))]
    return broker.send(OffsetFetchRequest(group_id=GROUP, topics=topics), version).response


def offset_delete(broker: OneGroupBroker, *partitions: tuple[str, int]) -> Any:
    """Return the OffsetDelete response."""
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=partition))
    request = OffsetDeleteRequest(
        group_id=GROUP,
        topics=[
            OffsetDeleteRequestTopic(name=name, partitions=wanted)
            for name, wanted in topics.items()
        ],
    )
    return broker.send(request, 0).response


class GroupContext:
    """A broker, and helpers that bring its group into a state."""

    def __init__(self, **settings: Any) -> None:
        defaults: dict[str, Any] = {"initial_rebalance_delay_ms": 0, "max_size": 4}
        self.broker = OneGroupBroker(GroupSettings(**defaults | settings))

    def member(self, name: str, **options: Any) -> Member:
        """Return a client that has not joined yet."""
        return Member(self.broker, name, **options)

    def completing(self, *names_or_members: str | Member, **options: Any) -> list[Member]:
        """Let all members join one generation without syncing; return the members."""
        members = [
            self.member(one, **options) if isinstance(one, str) else one for one in names_or_members
        ]
        for member in members:
            if member.version >= 4 and member.instance_id is None:
                member.join()  # the first join gets a member id
        with self.broker.one_drain():
            for member in members:
                member.join()
        self.broker.advance(self.broker.settings.initial_rebalance_delay_ms * 3)
        for member in members:
            member.learn()
        assert self.state == GroupState.COMPLETING_REBALANCE
        return members

    def stable(self, *names_or_members: str | Member, **options: Any) -> list[Member]:
        """Let all members join and sync; return the members.

        Each member gets the assignment b"asg-<name>".
        """
        members = self.completing(*names_or_members, **options)
        self.sync_all(members)
        return members

    def sync_all(self, members: list[Member]) -> None:
        """Sync all members, the leader last."""
        leader = next(one for one in members if one.is_leader)
        assignments = {one.id: b"asg-" + one.name.encode() for one in members}
        for member in members:
            if member is not leader:
                member.sync()
        leader.sync(assignments)
        assert self.state == GroupState.STABLE

    def preparing(self, *names: str, **options: Any) -> tuple[list[Member], Member, Answer]:
        """Return a Stable group that N has just joined: (members, N, N's parked JoinGroup)."""
        members = self.stable(*names, **options)
        newcomer = self.member("N")
        answer = newcomer.join()
        assert answer.parked
        return members, newcomer, answer

    def empty(self) -> Member:
        """Return a group whose only member has left."""
        (member,) = self.stable("Z")
        assert member.leave() is ErrorCode.NONE
        return member

    @property
    def generation(self) -> int:
        """Return the generation of the group, which must exist."""
        assert self.broker.group is not None
        return self.broker.group.generation_id

    @property
    def state(self) -> str:
        """Return the state in DescribeGroups."""
        state: str = self.broker.describe().group_state
        return state
