"""Model clients of consumer groups: members of both protocols that reconcile, well or badly.

A client counts its assigned partitions as owned after it has given up the revoked partitions; the
world compares the owned partitions with the state of the broker.
"""

from __future__ import annotations

import re
from typing import Any

from coordinator_server.core.groups.consumer.consumer_group import ConsumerGroup
from protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    OwnedTopicPartitions,
)
from protocol.apis.heartbeat import HeartbeatRequest
from protocol.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.apis.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.apis.offset_fetch import OffsetFetchRequest
from protocol.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from tests.harness.one_group import GROUP, topic_id_of
from tests.sim.group_world import RETRY_ERRORS, EpochMember, GroupClient, GroupWorld

E = ErrorCode
NAMES = ["one", "two", "three", "four"]
EXPRESSIONS = ["t.*", "one|four", ".*"]
LEAVING, LEAVING_FOR_A_WHILE = -1, -2

Place = tuple[bytes, int]
"""Topic id and partition."""


def by_topic(places: set[Place]) -> dict[bytes, list[int]]:
    """Group partitions by topic id."""
    found: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(places):
        found.setdefault(topic_id, []).append(partition)
    return found


class ConsumerClient(GroupClient):
    """The parts that members of both protocols share: id, epoch, partitions, commits."""

    instance_id: str | None = None
    regex: str | None = None

    def __init__(self, world: GroupWorld, name: str) -> None:
        super().__init__(world, name)
        self.offset = 0
        self.topics = self.some_topics()
        self.rebalance_ms = self.rng.choice([5_000, 10_000, 30_000])
        self.owned: set[Place] = set()
        self.epoch = 0
        self.member_id = ""

    def some_topics(self) -> list[str]:
        """Return topic names to subscribe to; some may not exist."""
        return self.rng.sample(NAMES, self.rng.randrange(1, len(NAMES)))

    def reads(self, topic: str) -> bool:
        """Return whether the client subscribes to a topic."""
        matches = self.regex is not None and re.fullmatch(self.regex, topic) is not None
        return matches or topic in self.topics

    def commit(self) -> None:
        """Commit an offset of an owned partition, or of any other partition of the topics."""
        places = sorted(self.owned) or [(topic_id_of("one"), 0)]
        topic_id, partition = self.rng.choice(places)
        if self.rng.random() < 0.1:
            partition = 0
        self.offset += 1
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.epoch - (self.rng.random() < 0.1),
            member_id=self.member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic_id.decode().rstrip("-"),
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=self.offset,
                            committed_metadata=self.name,
                        )
                    ],
                )
            ],
        )
        self.ask(request, self.rng.choice([8, 9, 9, 9]))

    def fetch(self) -> None:
        """Fetch all offsets."""
        self.ask(OffsetFetchRequest(group_id=GROUP, topics=None), 7)


class Consumer(EpochMember, ConsumerClient):
    """A member of the consumer protocol: revokes partitions, reports this, gets new ones."""

    revoke_rate = 0.7
    """The probability per turn that the revoked partitions are given up."""

    def __init__(self, world: GroupWorld, name: str) -> None:
        super().__init__(world, name)
        self.regex = self.rng.choice(EXPRESSIONS) if self.rng.random() < 0.25 else None
        self.assignor = self.rng.choice([None, None, "range", "uniform"])
        if self.regex is not None and self.rng.random() < 0.5:
            self.topics = []
        self.crash()

    def abandon(self) -> None:
        """Drop the assignment and rejoin the group."""
        self.epoch = 0
        self.owned = set()
        self.target: set[Place] = set()
        self.reported: set[Place] | None = None
        self.is_unsure = False

    def act(self) -> None:
        """Join, reconcile, or do another action of a consumer."""
        chance = self.rng.random()
        if self.epoch == 0:
            self.beat(has_all=True)
            return
        if self.owned - self.target and self.rng.random() < self.revoke_rate:
            self.owned &= self.target
        if self.owned <= self.target:
            self.owned = set(self.target)
        if self.patience == 1.0 or chance < 0.7:
            self.beat(has_all=self.is_unsure)
        elif chance < 0.82:
            self.commit()
        elif chance < 0.86:
            self.fetch()
        elif chance < 0.92:
            self.topics = self.some_topics()
            self.beat(has_all=True)
        elif chance < 0.95:
            self.leave()
        else:
            self.beat(has_all=True)

    def beat(self, *, has_all: bool) -> None:
        """Send a heartbeat with every field, or only with the changed fields."""
        fields: dict[str, Any] = {"topic_partitions": None}
        if has_all or self.owned != self.reported:
            fields["topic_partitions"] = self.listed()
            self.reported = set(self.owned)
        if has_all:
            fields |= {
                "rebalance_timeout_ms": self.rebalance_ms,
                "subscribed_topic_names": self.topics,
                "subscribed_topic_regex": self.regex,
                "server_assignor": self.assignor,
            }
        self.send(self.epoch, **fields)

    def listed(self) -> list[OwnedTopicPartitions]:
        """Return the owned partitions in the form of a request field."""
        return [
            OwnedTopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in by_topic(self.owned).items()
        ]

    def send(self, epoch: int, **fields: Any) -> None:
        """Send a heartbeat with the given epoch."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
            **fields,
        )
        self.ask(request, 1)

    def leave(self) -> None:
        """Revoke all partitions and leave for good."""
        self.owned = set()
        self.send(LEAVING)

    def take(self, request: Any, response: Any) -> None:
        """Update the state of the client from a response."""
        if not isinstance(request, ConsumerGroupHeartbeatRequest):
            return  # a fenced commit changes nothing
        error = E(response.error_code)
        if request.member_epoch < 0 or error is E.FENCED_INSTANCE_ID:
            self.crash()
        elif error is E.NONE:
            self.is_unsure = False
            self.epoch = response.member_epoch
            if response.assignment is not None:
                self.target = {
                    (one.topic_id, partition)
                    for one in response.assignment.topic_partitions
                    for partition in one.partitions
                }
        elif error in RETRY_ERRORS:
            self.is_unsure = True
        else:
            self.abandon()

    def hear_nothing(self, request: Any) -> None:
        """Send every field again, because the broker may not have got the request."""
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            self.is_unsure = True
            if request.member_epoch < 0:
                self.crash()

    def calm_down(self) -> None:
        """From now on reconcile at once."""
        super().calm_down()
        self.revoke_rate = 1.0


class SlowToRevoke(Consumer):
    """Revokes partitions so late that its rebalance timeout often expires."""

    revoke_rate = 0.05


class Lagging(Consumer):
    """Acts so rarely that its session often expires."""

    patience = 0.1


class Crashing(Consumer):
    """Sometimes dies and restarts as a new process."""

    crash_rate = 0.04


class Static(Consumer):
    """Has an instance id; leaves for a while and returns, or dies."""

    crash_rate = 0.02

    def __init__(self, world: GroupWorld, name: str) -> None:
        self.instance_id = f"i-{name}"
        super().__init__(world, name)

    def leave(self) -> None:
        """Leave the group, mostly only temporarily."""
        self.owned = set()
        self.send(self.world.rng.choice([LEAVING, LEAVING_FOR_A_WHILE, LEAVING_FOR_A_WHILE]))


class Hostile(Consumer):
    """Mixes valid and invalid fields, also with the ids of other members; ignores the responses.

    A hostile client never claims that another member has revoked a partition: the broker could not
    tell such a heartbeat from a true one.
    """

    def act(self) -> None:
        """Send a false heartbeat, or act as before."""
        if self.patience == 1.0 or self.rng.random() < 0.5:
            super().act()
            return
        own_id = self.member_id
        group = self.broker.any_group
        others = [*group.members] if isinstance(group, ConsumerGroup) else []
        self.member_id = self.rng.choice(["ghost", *others])
        epoch = self.rng.choice([-1, 1, 2, 3, *range(1, self.world.epoch + 2)])
        try:
            self.send(epoch, topic_partitions=None)
        finally:  # the member id is restored even if the broker is killed
            self.member_id = own_id
            self.waiting = None


class Classic(ConsumerClient):
    """A member of the classic protocol; an eager member revokes everything before it rejoins."""

    def __init__(self, world: GroupWorld, name: str) -> None:
        super().__init__(world, name)
        self.version = self.rng.randrange(5, 10)
        self.session_ms = self.rng.choice([6_000, 10_000])
        self.subscription_version = self.rng.randrange(4)
        self.crash()

    def crash(self) -> None:
        """Become a new process without a member id."""
        self.member_id = ""
        self.waiting = None
        self.abandon()

    def abandon(self) -> None:
        """Give up all partitions and rejoin the group."""
        self.epoch = 0
        self.owned = set()
        self.is_synced = False
        self.led: dict[str, list[str]] = {}

    def act(self) -> None:
        """Join, sync, or send a heartbeat."""
        chance = self.rng.random()
        if self.epoch == 0:
            self.join()
        elif not self.is_synced:
            self.sync()
        elif self.patience == 1.0 or chance < 0.6:
            self.heartbeat()
        elif chance < 0.8:
            self.commit()
        elif chance < 0.85:
            self.fetch()
        elif chance < 0.9:
            self.topics = self.some_topics()
            self.abandon()
            self.join()
        elif chance < 0.93:
            self.leave()
        else:
            self.heartbeat()

    def join(self) -> None:
        """Send JoinGroup."""
        subscription = ConsumerProtocolSubscription(topics=self.topics)
        metadata = encode_subscription(subscription, self.subscription_version)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        self.ask(request, self.version)

    def sync(self) -> None:
        """Send SyncGroup; a leader assigns the partitions round-robin."""
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=member_id,
                    assignment=encode_assignment(
                        ConsumerProtocolAssignment(assigned_partitions=dealt), 0
                    ),
                )
                for member_id, dealt in self.dealt().items()
            ],
        )
        self.ask(request, 5)

    def dealt(self) -> dict[str, list[TopicPartition]]:
        """Return the assignments of all members, if this client is the leader."""
        dealt: dict[str, list[TopicPartition]] = {member_id: [] for member_id in self.led}
        for topic, count in self.broker.topics.counts.items():
            readers = sorted(one for one, topics in self.led.items() if topic in topics)
            for index, member_id in enumerate(readers):
                partitions = list(range(index, count, len(readers)))
                dealt[member_id].append(TopicPartition(topic=topic, partitions=partitions))
        return dealt

    def heartbeat(self) -> None:
        """Send Heartbeat."""
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        self.ask(request, 4)

    def leave(self) -> None:
        """Send LeaveGroup."""
        self.owned = set()
        one = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        self.ask(LeaveGroupRequest(group_id=GROUP, members=[one]), 4)

    def take(self, request: Any, response: Any) -> None:
        """Update the state of the client from a response."""
        match request:
            case JoinGroupRequest():
                self.take_join(response)
            case SyncGroupRequest():
                self.take_sync(response)
            case HeartbeatRequest() if response.error_code:
                self.take_error(E(response.error_code))
            case LeaveGroupRequest():
                self.crash()

    def take_join(self, response: Any) -> None:
        """Take the member id, the generation and, as the leader, the members of the group."""
        error = E(response.error_code)
        if error is E.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif error is not E.NONE:
            self.take_error(error)
        else:
            self.member_id, self.epoch = response.member_id, response.generation_id
            self.is_synced = False
            is_leader = response.leader == response.member_id and not response.skip_assignment
            members = response.members if is_leader else []
            self.led = {one.member_id: decode_subscription(one.metadata).topics for one in members}

    def take_sync(self, response: Any) -> None:
        """Take the assignment from a SyncGroup response."""
        if response.error_code:
            self.take_error(E(response.error_code))
            return
        self.is_synced = True
        if response.assignment:
            assignment = decode_assignment(response.assignment)
            self.owned = {
                (topic_id_of(one.topic), partition)
                for one in assignment.assigned_partitions
                for partition in one.partitions
            }

    def take_error(self, error: ErrorCode) -> None:
        """Rejoin, as a new member if the broker does not know the member id any more."""
        if error in (E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID, E.GROUP_ID_NOT_FOUND):
            self.crash()
        elif error not in RETRY_ERRORS:
            self.abandon()

    def hear_nothing(self, request: Any) -> None:
        """Rejoin the group, because a request or its response was lost."""
        self.abandon()


class StaticClassic(Classic):
    """A `Classic` member with an instance id."""

    crash_rate = 0.03

    def __init__(self, world: GroupWorld, name: str) -> None:
        self.instance_id = f"i-{name}"
        super().__init__(world, name)
