"""Model clients: consumers that follow the protocol well or badly.

A client remembers its member id, generation and leadership, has one request in flight at a time,
and chooses its next action at each turn. Its random generator is passed in.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

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
from protocol.errors import ErrorCode
from protocol.schema import Message
from tests.harness.one_group import GROUP, TOPICS, Answer, OneGroupBroker
from tests.sim.votes import subscribe

E = ErrorCode
Send = Callable[[Message, int, str], Answer]
"""Sends a request of a version under a client id; the request may be delayed."""

START_OVER = {E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID, E.GROUP_MAX_SIZE_REACHED}
KEEP_ID = {E.REBALANCE_IN_PROGRESS, E.ILLEGAL_GENERATION}


class Client:
    """A consumer that follows the protocol."""

    patience = 0.9
    """The probability of an action per turn."""
    retention_ms = -1
    """The retention of the client's commits in ms; -1 is the broker's default."""

    def __init__(
        self,
        broker: OneGroupBroker,
        send: Send,
        rng: Random,
        name: str,
        instance_id: str | None = None,
    ) -> None:
        self.broker = broker
        self.send = send
        self.rng = rng
        self.name = name
        self.instance_id = instance_id
        self.version = rng.randrange(5, 10) if instance_id else rng.randrange(10)
        self.session_ms = rng.choice([6_000, 10_000, 20_000])
        self.rebalance_ms = rng.choice([5_000, 10_000, 30_000])
        self.protocols = [("range", self.metadata()), ("sticky", subscribe("one"))]
        rng.shuffle(self.protocols)
        self.offset = 0
        self.syncs = 0
        self.waiting: Answer | None = None
        self.forget()

    def forget(self) -> None:
        """Become a new process without any state."""
        self.member_id = ""
        self.generation = -1
        self.is_leader = False
        self.is_synced = False
        self.assigned_to: list[str] = []
        self.waiting = None

    def turn(self) -> None:
        """Take the pending response and choose the next action."""
        if self.waiting is not None:
            if self.waiting.parked:
                if self.rng.random() < 0.04:
                    self.repeat()
                return
            answer, self.waiting = self.waiting, None
            if answer.lost:
                self.is_synced = False
            else:
                self.take(answer.request, answer.response)
        if self.rng.random() < self.patience:
            self.act()

    def repeat(self) -> None:
        """Lose the connection and send the same request again."""
        assert self.waiting is not None
        if self.generation >= 0 and self.rng.random() < 0.3:
            self.resubscribe()
            return
        request = self.waiting.request
        if isinstance(request, SyncGroupRequest):
            # Do not resend the old request: a leader may compute another assignment for its
            # repeated SyncGroup.
            self.sync()
            return
        assert isinstance(request, Message)
        self.ask(request, self.asked_at)

    def ask(self, request: Message, version: int) -> None:
        """Send a request; its response is taken later."""
        self.asked_at = version
        self.waiting = self.send(request, version, self.name)

    def metadata(self) -> bytes:
        """Return a subscription; sometimes an unreadable one."""
        if self.rng.random() < 0.1:
            return self.name.encode()
        return subscribe(*self.rng.sample(sorted(TOPICS), self.rng.randrange(len(TOPICS))))

    def act(self) -> None:
        """Choose the next action of a consumer."""
        if self.generation < 0:
            self.join()
        elif not self.is_synced:
            # A consumer's other threads commit and send heartbeats during the rebalance.
            verbs = [self.sync] * 8 + [self.commit, self.heartbeat]
            self.rng.choice(verbs)()
        else:
            chance = self.rng.random()
            if chance < 0.4:
                self.heartbeat()
            elif chance < 0.82:
                self.commit()
            elif chance < 0.9:
                self.ask(OffsetFetchRequest(group_id=GROUP, topics=None), 7)
            elif chance < 0.93:
                self.resubscribe()
            elif chance < 0.96:
                self.join()
            else:
                self.leave()

    def resubscribe(self) -> None:
        """Rejoin with other metadata."""
        self.protocols[0] = (self.protocols[0][0], self.metadata())
        self.join()

    def join(self) -> None:
        """Send JoinGroup."""
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=n, metadata=m) for n, m in self.protocols],
        )
        self.ask(request, self.version)

    def sync(self) -> None:
        """Send SyncGroup; the leader assigns `<generation>:<member id>:<number>` to each member."""
        self.syncs += 1
        assignments = []
        if self.is_leader:
            assignments = [
                SyncGroupRequestAssignment(
                    member_id=member_id,
                    assignment=f"{self.generation}:{member_id}:{self.syncs}".encode(),
                )
                for member_id in self.assigned_to
            ]
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=self.protocol_name,
            assignments=assignments,
        )
        self.ask(request, 5)

    def heartbeat(self) -> None:
        """Send Heartbeat."""
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        self.ask(request, 4)

    def commit(self) -> None:
        """Send OffsetCommit for one partition of each of the client's topics."""
        self.offset += 1
        topics = []
        for name, count in TOPICS.items():
            partition = OffsetCommitRequestPartition(
                partition_index=self.rng.randrange(min(count, 3) + (self.offset % 50 == 0)),
                committed_offset=self.offset,
                committed_metadata=self.name,
            )
            topics.append(OffsetCommitRequestTopic(name=name, partitions=[partition]))
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            retention_time_ms=self.retention_ms,
            topics=self.rng.sample(topics, self.rng.randrange(1, len(topics) + 1)),
        )
        self.ask(request, 8 if self.retention_ms == -1 else 3)

    def leave(self) -> None:
        """Send LeaveGroup."""
        one = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        self.ask(LeaveGroupRequest(group_id=GROUP, members=[one]), 4)

    def take(self, request: Any, response: Any) -> None:
        """Update the state of the client from a response."""
        match request:
            case JoinGroupRequest():
                self.take_join(response)
            case SyncGroupRequest():
                self.take_error(E(response.error_code))
                if response.error_code == E.NONE:
                    self.is_synced = True
            case HeartbeatRequest():
                self.take_error(E(response.error_code))
            case OffsetCommitRequest():
                for topic in response.topics:
                    for one in topic.partitions:
                        self.take_error(E(one.error_code))
            case LeaveGroupRequest():
                self.forget()

    def take_join(self, response: Any) -> None:
        """Update the state of the client from a JoinGroup response."""
        error = E(response.error_code)
        if error is E.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif error is E.NONE:
            self.member_id = response.member_id
            self.generation = response.generation_id
            self.is_leader = response.leader == response.member_id
            self.is_synced = False
            self.protocol_name = response.protocol_name
            self.assigned_to = [one.member_id for one in response.members]
            if response.skip_assignment:
                self.is_leader = False
        else:
            self.take_error(error)

    def take_error(self, error: ErrorCode) -> None:
        """Start over or rejoin, depending on the error."""
        if error in START_OVER:
            self.forget()
        elif error in KEEP_ID:
            self.generation = -1


class Calm(Client):
    """Joins, syncs, and then only sends heartbeats."""

    def act(self) -> None:
        """Send the request that brings the group to rest."""
        if self.generation < 0:
            self.join()
        elif not self.is_synced:
            self.sync()
        else:
            self.heartbeat()


class Standalone(Client):
    """Assigns partitions to itself and only stores offsets, some for a limited time."""

    def act(self) -> None:
        """Commit without a generation, or fetch the stored offsets."""
        if self.rng.random() < 0.3:
            self.ask(OffsetFetchRequest(group_id=GROUP, topics=None), 7)
            return
        self.retention_ms = self.rng.choice([-1, -1, -1, 0, 5_000, 200_000])
        self.commit()

    def take(self, request: Any, response: Any) -> None:
        """Ignore the response."""


class Slow(Client):
    """Acts so rarely that its session often expires."""

    patience = 0.1


class Crashing(Client):
    """Sometimes dies and restarts as a new process; a static member keeps its instance id."""

    def turn(self) -> None:
        """Sometimes become a new process; then act as before."""
        if self.rng.random() < 0.03:
            self.forget()
        super().turn()


class Zombie(Client):
    """Resumes with the state of a former life, as if nothing had happened."""

    def forget(self) -> None:
        """Remember member id and generation of a former life, then start over."""
        if getattr(self, "member_id", "") and self.generation >= 0:
            self.former = (self.member_id, self.generation)
        super().forget()

    def act(self) -> None:
        """Sometimes send a request with the member id and generation of the former life."""
        former = getattr(self, "former", None)
        if former is None or self.rng.random() < 0.6:
            super().act()
            return
        present = (self.member_id, self.generation)
        self.member_id, self.generation = former
        self.rng.choice([self.heartbeat, self.commit, self.leave])()
        self.member_id, self.generation = present
        self.waiting = None  # a fenced consumer ignores the response


class Hostile(Client):
    """Sends random requests, with the ids of other members."""

    def act(self) -> None:
        """Mix valid and invalid fields; ignore the responses."""
        if self.rng.random() < 0.5:
            super().act()
            return
        keep = (self.member_id, self.generation, self.instance_id, self.protocols, self.version)
        times = (self.session_ms, self.rebalance_ms)
        group = self.broker.group
        ids = ["", "ghost", *(list(group.membership.members) if group is not None else [])]
        pending = list(group.membership.pending) if group is not None else []
        self.member_id = self.rng.choice(ids + pending)
        self.generation = self.rng.randrange(-1, 12)
        if group is not None and self.rng.random() < 0.4:
            self.generation = group.generation_id
        self.instance_id = self.rng.choice([None, None, "i0", "i1", "nope"])
        if self.rng.random() < 0.3:
            self.protocols = self.rng.choice(
                [[], [("other", b"")], [("range", b"\xff")], [("range", b""), ("range", b"2")]]
            )
        if self.rng.random() < 0.1:
            self.session_ms = self.rng.choice([5_999, 1_800_001, 6_000])
            self.rebalance_ms = self.rng.choice([0, 1])
        self.version = self.rng.randrange(10)
        self.is_leader = self.rng.random() < 0.3
        self.assigned_to = [one for one in ids if self.rng.random() < 0.5]
        self.protocol_name = self.rng.choice(["range", "range", "sticky", "other"])
        verb = self.rng.choice([self.join, self.sync, self.heartbeat, self.commit, self.leave])
        verb()
        self.member_id, self.generation, self.instance_id, self.protocols, self.version = keep
        self.session_ms, self.rebalance_ms = times
        self.is_leader = False
        self.waiting = None
