"""Helpers for tests of groups with members of both protocols."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.core.groups.records import CoordinatorRecord
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from tests.harness.one_group import Answer
from tests.unit.core.groups.consumer.context import ConsumerContext, ConsumerMember, Owned
from tests.unit.core.groups.context import SESSION_MS, Member

THREE: Owned = {"three": [0, 1, 2]}


def subscribed(
    *topics: str, owned: Owned | None = None, version: int = 1, **fields: Any
) -> list[tuple[str, bytes]]:
    """Return the protocols of a member that subscribes to `topics` and owns some partitions."""
    said = ConsumerProtocolSubscription(
        topics=list(topics),
        owned_partitions=[
            TopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in (owned or {}).items()
        ],
        **fields,
    )
    return [("range", encode_subscription(said, version))]


def assignment(owned: Owned, user_data: bytes | None = None) -> bytes:
    """Return an assignment by a leader."""
    named = [TopicPartition(topic=topic, partitions=ones) for topic, ones in owned.items()]
    return encode_assignment(
        ConsumerProtocolAssignment(assigned_partitions=named, user_data=user_data)
    )


def assigned(answer: Answer) -> Owned:
    """Return the assignment in a SyncGroup response."""
    assert answer.error is ErrorCode.NONE, answer.response
    found = decode_assignment(answer.response.assignment).assigned_partitions
    return {one.topic: list(one.partitions) for one in found}


class MigrationContext(ConsumerContext):
    """A broker whose group has members of both protocols."""

    def old(self, name: str, *topics: str, **options: Any) -> Member:
        """Return a classic protocol member that has not joined yet; it subscribes to `three`."""
        options.setdefault("protocols", subscribed(*(topics or ("three",))))
        return self.classic(name, **options)

    def stable(self, owned: dict[str, Owned], **options: Any) -> list[Member]:
        """Return a Stable classic group in which each member owns these partitions.

        The first member leads.
        """
        members = [self.old(name, **options) for name in owned]
        self.completing(*members)
        given = {member.id: assignment(owned[member.name]) for member in members}
        self.assign(members, given)
        return members

    def completing(self, *members: Member) -> None:
        """Let all members join one generation of a classic group, without syncing."""
        with self.broker.one_drain():
            for member in members:
                member.join()
        self.broker.advance(self.broker.settings.initial_rebalance_delay_ms)
        for member in members:
            member.learn()

    def assign(self, members: list[Member], given: dict[str, bytes]) -> None:
        """Sync all members with this assignment by the leader."""
        for member in members:
            if not member.is_leader:
                member.sync()
        for member in members:
            if member.is_leader:
                member.sync(given)
        assert self.classic_group.state.value == "Stable"

    def mixed(self) -> tuple[Member, ConsumerMember]:
        """Return a group in which classic M owns two partitions of `three`, and A owns one."""
        (m,) = self.stable({"M": THREE})
        a = self.member("A", "three")
        assert a.join().error is ErrorCode.NONE
        self.settle(m, a)
        return m, a

    def settle(self, *members: Member | ConsumerMember) -> None:
        """Let all members follow their responses until the group is stable."""
        for _ in range(10):
            for member in members:
                if isinstance(member, ConsumerMember):
                    assert member.own() is ErrorCode.NONE
                elif member.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS:
                    self.rejoin(member)
            if self.state == "Stable":
                return
        raise AssertionError(f"{self.state} after ten rounds")

    def rejoin(self, member: Member) -> Owned:
        """Let a member give up all partitions, rejoin and sync; return its partitions."""
        assert member.join().error is ErrorCode.NONE
        return assigned(member.sync())

    @property
    def classic_group(self) -> GroupMetadata:
        """Return the group, which must be a classic group."""
        group = self.broker.any_group
        assert isinstance(group, GroupMetadata), group
        return group

    def owned_by(self, member: Member | ConsumerMember) -> Owned:
        """Return the partitions that the group counts as owned by a member."""
        owned = self.group.current(member.id).assigned
        return {self.name_of(topic_id): sorted(ones) for topic_id, ones in owned.items()}

    def since(self, mark: int) -> Iterator[CoordinatorRecord]:
        """Return the records written since the log had `mark` records."""
        return iter(list(self.broker.records())[mark:])

    def kinds_since(self, mark: int) -> list[str]:
        """Return the key type of each record since `mark`, with "-" before a tombstone."""
        return [
            ("-" if value is None else "") + type(key).__name__.removesuffix("Key")
            for key, value in self.since(mark)
        ]


__all__ = [
    "SESSION_MS",
    "THREE",
    "MigrationContext",
    "assigned",
    "assignment",
    "subscribed",
]
