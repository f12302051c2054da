"""A classic group that is driven through random rebalances, and what each member then had.

All members are in this thread, and the broker's clock is frozen: time only passes by `advance`, so
that a crash is a member that sends no more heartbeats while the clock advances.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from select import select
from typing import Any, NamedTuple, TypeVar

from protocol.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.apis.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from protocol.apis.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from protocol.apis.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from protocol.codec import decoder, encoder
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from protocol.registry import SPEC_BY_NAME
from protocol.schema import Message
from tests.support import Broker, Wire, frame, wait_for

_VERSIONS = {"JoinGroup": 5, "SyncGroup": 3, "Heartbeat": 3, "LeaveGroup": 3}
"""The newest versions without tagged fields; they have static members."""

SESSION_SECONDS, HEARTBEAT_SECONDS = 10, 3
M = TypeVar("M", bound=Message)


@dataclass
class Member:
    """A member with its connection; `partitions` are those of its last SyncGroup response."""

    wire: Wire
    client_id: str
    instance: str | None = None
    member_id: str = ""
    partitions: list[int] = field(default_factory=list)

    @property
    def identity(self) -> str:
        """Return the instance id, which outlives a restart, otherwise the member id."""
        return self.instance or self.member_id

    def send(self, request: Message) -> None:
        """Send a request without waiting for the response."""
        spec = SPEC_BY_NAME[type(request).__name__.removesuffix("Request")]
        version = _VERSIONS[spec.name]
        name = self.client_id.encode()
        header = struct.pack(">hhih", spec.key, version, 1, len(name)) + name
        self.wire.send(frame(header + encoder(type(request), version)(request)))

    def receive(self, kind: type[M]) -> M:
        """Return the response to the last request."""
        payload = self.wire.receive()
        assert payload is not None, f"{self.client_id} was disconnected"
        decode = decoder(kind, _VERSIONS[kind.__name__.removesuffix("Response")])
        return decode(payload, 4)[0]


class Generation(NamedTuple):
    """A finished rebalance: who has which partition, and the members before and after."""

    owners: Mapping[int, str]
    names: Mapping[str, str]
    """Instance id or client id, by identity, of all members before and after."""
    ids: Mapping[str, str]
    """Member ids by identity."""


class RandomGroup:
    """A group on one topic; `rebalance` does something random that leads to a new generation."""

    def __init__(self, broker: Broker, group: str, topic: str, partitions: int, seed: int) -> None:
        self._broker = broker
        self._group = group
        self._topic = topic
        self._partitions = partitions
        self._random = random.Random(seed)
        self._generation = 0
        self._count = 0
        self.members: list[Member] = []
        self.generations: list[Generation] = []
        self.returns = 0
        """How often a static member with partitions has restarted."""

    def close(self) -> None:
        """Close all connections; the members stay in the group."""
        for member in self.members:
            member.wire.socket.close()

    def rebalance(self) -> None:
        """Let some time pass, and do one random change."""
        for _ in range(self._random.randint(1, 4)):
            self._pass_time()
        if self._random.random() < 0.4:
            self._return()
        before = list(self.members)
        changes = {"join": 4, "static join": 3, "leave": 3, "crash": 3, "all": 1}
        change = self._random.choices(list(changes), list(changes.values()))[0]
        if len(self.members) < 2 and change != "static join":
            change = "join"
        if change in ("join", "static join"):
            self._add(is_static=change == "static join")
        elif change == "leave":
            self._leave([self._random.choice(self.members)])
        elif change == "all":
            self._leave(list(self.members))
        else:
            self._crash(self._random.choice(self.members))
        if self.members:
            self._join_all()
        else:
            self._generation += 1
        self._note(before)

    # --- changes ----------------------------------------------------------------------------------

    def _add(self, *, is_static: bool) -> None:
        self._count += 1
        # Of three consecutive clients, two share a client id.
        name = f"client-{self._count // 3 if self._count % 3 else self._count}"
        instance = f"static-{self._count}" if is_static else None
        member = Member(self._broker.connect(), name, instance)
        if not is_static:
            answer = self._ask_to_join(member)
            assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
            member.member_id = answer.member_id
        self.members.append(member)

    def _return(self) -> None:
        """Restart a static member, if there is one: it gets its assignment without a rebalance."""
        known = [member for member in self.members if member.instance is not None]
        if not known:
            return
        old = self._random.choice(known)
        old.wire.socket.close()
        new = Member(self._broker.connect(), old.client_id, old.instance)
        answer = self._ask_to_join(new)
        assert (answer.error_code, answer.generation_id) == (0, self._generation)
        new.member_id = answer.member_id
        new.send(self._sync_request(new, []))
        self._take(new, new.receive(SyncGroupResponse))
        assert (new.partitions, new.member_id != old.member_id) == (old.partitions, True)
        self.members[self.members.index(old)] = new
        self.returns += bool(new.partitions)

    def _leave(self, members: Sequence[Member]) -> None:
        for member in members:
            identity = MemberIdentity(member_id=member.member_id, group_instance_id=member.instance)
            member.send(LeaveGroupRequest(group_id=self._group, members=[identity]))
            assert member.receive(LeaveGroupResponse).error_code == 0
            self._remove(member)

    def _crash(self, member: Member) -> None:
        self._remove(member)
        while not self._pass_time():
            pass

    def _remove(self, member: Member) -> None:
        member.wire.socket.close()
        self.members.remove(member)

    def _pass_time(self) -> bool:
        """Advance the clock, and send heartbeats; return whether a rebalance has begun."""
        self._broker.clock.advance(HEARTBEAT_SECONDS + self._random.random())
        errors = set()
        for member in self.members:
            member.send(
                HeartbeatRequest(
                    group_id=self._group,
                    generation_id=self._generation,
                    member_id=member.member_id,
                    group_instance_id=member.instance,
                )
            )
            errors.add(member.receive(HeartbeatResponse).error_code)
        assert errors <= {0, ErrorCode.REBALANCE_IN_PROGRESS}, errors
        return ErrorCode.REBALANCE_IN_PROGRESS in errors

    # --- joining ----------------------------------------------------------------------------------

    def _is_rebalancing(self) -> bool:
        state = self._broker.api.groups_show(self._group)["state"]
        return state == "PreparingRebalance"

    def _ask_to_join(self, member: Member) -> Any:
        member.send(self._join_request(member))
        return member.receive(JoinGroupResponse)

    def _join_request(self, member: Member) -> JoinGroupRequest:
        subscription = encode_subscription(ConsumerProtocolSubscription(topics=[self._topic]))
        return JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=SESSION_SECONDS * 1000,
            rebalance_timeout_ms=60_000,
            member_id=member.member_id,
            group_instance_id=member.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="random", metadata=subscription)],
        )

    def _join_all(self) -> None:
        # The others rejoin only after the rebalance has begun, because the join of the last member
        # may begin it.
        last = self.members[-1]
        last.send(self._join_request(last))
        others = self.members[:-1]
        if others:
            wait_for(self._is_rebalancing, "the rebalance begins")
        for member in others:
            member.send(self._join_request(member))
        while not select([self.members[0].wire.socket], [], [], 0.2)[0]:
            # End the initial rebalance delay of a group that was empty.
            self._broker.clock.advance(0.01)
        answers = [member.receive(JoinGroupResponse) for member in self.members]
        assert {answer.error_code for answer in answers} == {0}
        self._generation = answers[0].generation_id
        for member, answer in zip(self.members, answers, strict=True):
            member.member_id = answer.member_id
        assignments = self._assign()
        for member, answer in zip(self.members, answers, strict=True):
            is_leader = answer.leader == answer.member_id
            member.send(self._sync_request(member, assignments if is_leader else []))
        for member in self.members:
            self._take(member, member.receive(SyncGroupResponse))

    def _assign(self) -> list[SyncGroupRequestAssignment]:
        """Return an assignment that keeps most partitions, moves some, and leaves some out."""
        own: dict[str, list[int]] = {member.member_id: [] for member in self.members}
        owners = {
            partition: member.member_id
            for member in self.members
            for partition in member.partitions
        }
        for partition in range(self._partitions):
            owner = owners.get(partition)
            if owner is None or self._random.random() < 0.4:
                owner = self._random.choice([*own, ""])
            if owner:
                own[owner].append(partition)
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=self._encoded(partitions))
            for member_id, partitions in own.items()
        ]

    def _encoded(self, partitions: list[int]) -> bytes:
        topics = [TopicPartition(topic=self._topic, partitions=partitions)] if partitions else []
        return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=topics))

    def _sync_request(
        self, member: Member, assignments: list[SyncGroupRequestAssignment]
    ) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=member.member_id,
            group_instance_id=member.instance,
            assignments=assignments,
        )

    def _take(self, member: Member, answer: SyncGroupResponse) -> None:
        assert answer.error_code == 0
        assigned = decode_assignment(answer.assignment).assigned_partitions
        member.partitions = sorted(index for topic in assigned for index in topic.partitions)

    def _note(self, before: Sequence[Member]) -> None:
        members = {member.identity: member for member in [*before, *self.members]}
        self.generations.append(
            Generation(
                {
                    partition: member.identity
                    for member in self.members
                    for partition in member.partitions
                },
                {
                    identity: member.instance or member.client_id
                    for identity, member in members.items()
                },
                {identity: member.member_id for identity, member in members.items()},
            )
        )
