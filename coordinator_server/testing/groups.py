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


def from_json(answer: Mapping[str, Any]) -> Group:
    """A group from the answer of the control server."""
    return Group(
        group=answer["group"],
        state=answer["state"],
        generation=answer["generation"],
        protocol=answer["protocol"],
        leader=answer["leader"],
        coordinator=answer["coordinator"],
        members=tuple(_member(member) for member in answer["members"]),
        offsets={
            TopicPartition(entry["topic"], entry["partition"]): entry["offset"]
            for entry in answer["offsets"]
        },
        last_rebalance=tuple(answer["last_rebalance"]),
    )


def _member(answer: Mapping[str, Any]) -> GroupMember:
    return GroupMember(
        member_id=answer["member_id"],
        instance_id=answer["instance_id"],
        client_id=answer["client_id"],
        host=answer["host"],
        subscription=tuple(answer["subscription"]),
        assignment=tuple(
            TopicPartition(topic, partition)
            for topic, partitions in answer["assignment"].items()
            for partition in partitions
        ),
        waits_for=answer["waits_for"],
    )


def _told(member: GroupMember) -> str:
    name = member.member_id
    if member.instance_id is not None:
        name = f"{member.instance_id} ({name})"
    owns = _some([str(partition) for partition in member.assignment])
    waits = f", waits in {member.waits_for}" if member.waits_for else ""
    asks = ", ".join(member.subscription) or "nothing"
    return f"{name} on {member.host}: subscribed to {asks}, assigned {owns}{waits}"


def _some(names: list[str]) -> str:
    if len(names) > _PARTITIONS_TOLD:
        names = [*names[:_PARTITIONS_TOLD], f"and {len(names) - _PARTITIONS_TOLD} more"]
    return ", ".join(names) or "nothing"
