"""Consumer groups as tests look at them, and in words for the report of a test that failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from coordinator_server.testing.records import TopicPartition

STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")
"""Kafka's states; a group that does not exist (any more) is Dead."""

_PARTITIONS_TOLD = 40


class GroupMember(NamedTuple):
    """A member of a group. `host` is its address as Kafka writes it, "/127.0.0.1".

    `waits_for` is "JoinGroup" or "SyncGroup" while such a request of the member is parked.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    subscription: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]
    waits_for: str | None


class Group(NamedTuple):
    """A consumer group at one moment. `coordinator` is the id of the broker that serves it.

    `offsets` are its committed offsets, `last_rebalance` the story of its last rebalance, a line
    each, empty when there was none.
    """

    group: str
    state: str
    generation: int
    protocol: str | None
    leader: str | None
    coordinator: int
    members: tuple[GroupMember, ...]
    offsets: dict[TopicPartition, int]
    last_rebalance: tuple[str, ...]

    def __str__(self) -> str:
        """The group in words, several lines."""
        count = len(self.members)
        lines = [
            f"{self.state}, generation {self.generation}, "
            f"{count} {'member' if count == 1 else 'members'}"
        ]
        lines += [f"  {_told(member)}" for member in self.members]
        offsets = [f"{partition} at {offset}" for partition, offset in self.offsets.items()]
        lines.append(f"  committed: {_some(offsets)}")
        if self.last_rebalance:
            lines.append(f"  last rebalance: {self.last_rebalance[0]}")
            lines += [f"  {line}" for line in self.last_rebalance[1:]]
        return "\n".join(lines)


def from_json(told: Mapping[str, Any]) -> Group:
    """A group as the control server tells it."""
    return Group(
        group=told["group"],
        state=told["state"],
        generation=told["generation"],
        protocol=told["protocol"],
        leader=told["leader"],
        coordinator=told["coordinator"],
        members=tuple(_member(one) for one in told["members"]),
        offsets={
            TopicPartition(one["topic"], one["partition"]): one["offset"] for one in told["offsets"]
        },
        last_rebalance=tuple(told["last_rebalance"]),
    )


def _member(told: Mapping[str, Any]) -> GroupMember:
    return GroupMember(
        member_id=told["member_id"],
        instance_id=told["instance_id"],
        client_id=told["client_id"],
        host=told["host"],
        subscription=tuple(told["subscription"]),
        assignment=tuple(
            TopicPartition(topic, partition)
            for topic, partitions in told["assignment"].items()
            for partition in partitions
        ),
        waits_for=told["waits_for"],
    )


def _told(member: GroupMember) -> str:
    name = member.member_id
    if member.instance_id is not None:
        name = f"{member.instance_id} ({name})"
    owns = _some([str(one) for one in member.assignment])
    waits = f", waits in {member.waits_for}" if member.waits_for else ""
    asks = ", ".join(member.subscription) or "nothing"
    return f"{name} on {member.host}: subscribed to {asks}, assigned {owns}{waits}"


def _some(told: list[str]) -> str:
    if len(told) > _PARTITIONS_TOLD:
        told = [*told[:_PARTITIONS_TOLD], f"and {len(told) - _PARTITIONS_TOLD} more"]
    return ", ".join(told) or "nothing"
