"""The state of groups for tests, and its text for the reports of failed tests."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from coordinator_server.testing.records import TopicPartition

STATES = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "NotReady",
    "Assigning",
    "Reconciling",
    "Stable",
    "Dead",
)
"""Kafka's states of all group types; a group that does not exist is Dead."""

_PARTITIONS_TOLD = 40


class GroupMember(NamedTuple):
    """A member of a group. `host` is its address in Kafka's format, "/127.0.0.1".

    `waits_for` is "JoinGroup" or "SyncGroup" while such a request of the member is pending. In all
    but classic groups, members have an `epoch` and reach their `target` one by one. Meanwhile a
    member has a `state`, `revoking` holds the partitions that it still must revoke, and `waits_for`
    describes the members whose partitions it waits for. In streams groups the partitions are active
    tasks, with the subtopology as the topic.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    subscription: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]
    waits_for: str | None
    epoch: int = 0
    state: str = ""
    target: tuple[TopicPartition, ...] = ()
    revoking: tuple[TopicPartition, ...] = ()


class GivenUp(NamedTuple):
    """Records that reached the delivery limit, and the last member that acquired them.

    In a group with a dead letter queue this includes `rejected` records. `queue` is the topic of
    the dead letter queue, and `queue_error` says why the records are not in the queue.
    """

    first: int
    last: int
    delivery_count: int
    member_id: str
    rejected: bool = False
    queue: str | None = None
    queue_error: str | None = None


class SharePartition(NamedTuple):
    """A share partition; records below `start_offset` are done.

    The counts of in-flight records are by state (`states`: "Available", "Acquired", "Acknowledged",
    "Archiving", "Archived"), by member, and by delivery count. `given_up` holds the latest records
    that reached the delivery limit.
    """

    start_offset: int
    in_flight: int
    states: Mapping[str, int]
    members: Mapping[str, int]
    deliveries: Mapping[int, int]
    given_up: tuple[GivenUp, ...]


class Group(NamedTuple):
    """A group of any type at one moment. `coordinator` is the node id of its coordinator.

    `offsets` are the committed offsets. `last_rebalance` describes the last rebalance in lines of
    text; empty if there was none. `type` is "classic", "consumer", "share" or "streams". For all
    types but classic, `generation` is the group epoch, `assignment_epoch` is set, and there is no
    leader; `under_way` describes the rebalance while members have not reached their target.
    `share_partitions` are the partitions that a share group has read from. A share group
    `is_settled` when all members have their target assignment and all partitions are assigned; its
    state does not tell this.
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
    type: str = "classic"
    assignment_epoch: int = 0
    under_way: tuple[str, ...] = ()
    share_partitions: Mapping[TopicPartition, SharePartition] = MappingProxyType({})
    is_settled: bool = True

    def __str__(self) -> str:
        """Return the group as several lines of text."""
        count = len(self.members)
        noun = "generation" if self.type == "classic" else "epoch"
        lines = [
            f"{self.state}, {noun} {self.generation}, "
            f"{count} {'member' if count == 1 else 'members'}"
        ]
        lines += [f"  {_told(member)}" for member in self.members]
        lines += [
            f"  {place}: from {partition.start_offset} on, {partition.in_flight} in flight"
            for place, partition in self.share_partitions.items()
        ]
        offsets = [f"{partition} at {offset}" for partition, offset in self.offsets.items()]
        lines.append(f"  committed: {_some(offsets)}")
        lines += [f"  under way: {line}" for line in self.under_way[:1]]
        lines += [f"  {line}" for line in self.under_way[1:]]
        if self.last_rebalance:
            lines.append(f"  last rebalance: {self.last_rebalance[0]}")
            lines += [f"  {line}" for line in self.last_rebalance[1:]]
        return "\n".join(lines)


def from_json(answer: Mapping[str, Any]) -> Group:
    """Convert a group from the JSON of the control server."""
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
        type=answer["type"],
        assignment_epoch=answer.get("assignment_epoch", 0),
        under_way=tuple(answer.get("under_way", ())),
        share_partitions={
            TopicPartition(entry["topic"], entry["partition"]): _share_partition(entry)
            for entry in answer.get("share_partitions", ())
        },
        is_settled=answer.get("is_settled", True),
    )


def _share_partition(answer: Mapping[str, Any]) -> SharePartition:
    return SharePartition(
        start_offset=answer["start_offset"],
        in_flight=answer["in_flight"],
        states=answer["states"],
        members=answer["members"],
        deliveries={int(times): count for times, count in answer["deliveries"].items()},
        given_up=tuple(GivenUp(**records) for records in answer["given_up"]),
    )


def _member(answer: Mapping[str, Any]) -> GroupMember:
    return GroupMember(
        member_id=answer["member_id"],
        instance_id=answer["instance_id"],
        client_id=answer["client_id"],
        host=answer["host"],
        subscription=tuple(answer["subscription"]),
        assignment=_partitions(answer["assignment"]),
        waits_for=answer["waits_for"],
        epoch=answer.get("epoch", 0),
        state=answer.get("state", ""),
        target=_partitions(answer.get("target", {})),
        revoking=_partitions(answer.get("revoking", {})),
    )


def _partitions(answer: Mapping[str, list[int]]) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic, partition)
        for topic, partitions in answer.items()
        for partition in partitions
    )


def _told(member: GroupMember) -> str:
    name = member.member_id
    if member.instance_id is not None:
        name = f"{member.instance_id} ({name})"
    owns = _some([str(partition) for partition in member.assignment])
    waits = ""
    if member.revoking:
        waits = f", has to give up {_some([str(partition) for partition in member.revoking])}"
    if member.waits_for:
        waits += f", waits {'for' if member.state else 'in'} {member.waits_for}"
    asks = ", ".join(member.subscription) or "nothing"
    return f"{name} on {member.host}: subscribed to {asks}, assigned {owns}{waits}"


def _some(names: list[str]) -> str:
    if len(names) > _PARTITIONS_TOLD:
        names = [*names[:_PARTITIONS_TOLD], f"and {len(names) - _PARTITIONS_TOLD} more"]
    return ", ".join(names) or "nothing"
