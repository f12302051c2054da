"""Groups as tests look at them, and in words for the report of a test that failed."""

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
"""Kafka's states, of groups of all types; a group that does not exist (any more) is Dead."""

_PARTITIONS_TOLD = 40


class GroupMember(NamedTuple):
    """A member of a group. `host` is its address as Kafka writes it, "/127.0.0.1".

    `waits_for` is "JoinGroup" or "SyncGroup" while such a request of the member is parked.
    In all but classic groups members have an `epoch`, and come to their `target` one by one: each
    has a `state` on the way, may have still to give up what is `revoking`, and `waits_for` says in
    words for whose partitions it waits. In streams groups these are active tasks, with the
    subtopology for a topic.
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
    """Records that were delivered too often, and the member that had them last.

    In a group with a dead letter queue also records that were `rejected`. `queue` is the topic of
    the queue, and `queue_error` says why the records are not in it.
    """

    first: int
    last: int
    delivery_count: int
    member_id: str
    rejected: bool = False
    queue: str | None = None
    queue_error: str | None = None


class SharePartition(NamedTuple):
    """A partition as a share group reads it; all that is below `start_offset` is done.

    Numbers of records in flight: by `states` ("Available", "Acquired", "Acknowledged",
    "Archiving", "Archived"), by the member that has them, and by how often they were delivered.
    `given_up` are the last records that were given up.
    """

    start_offset: int
    in_flight: int
    states: Mapping[str, int]
    members: Mapping[str, int]
    deliveries: Mapping[int, int]
    given_up: tuple[GivenUp, ...]


class Group(NamedTuple):
    """A group of any type at one moment. `coordinator` is the id of the broker that serves it.

    `offsets` are its committed offsets, `last_rebalance` the story of its last rebalance, a line
    each, empty when there was none. `type` is "classic", "consumer", "share" or "streams". All but
    the first have a group epoch for `generation`, an `assignment_epoch`, and no leader; `under_way`
    is the story so far while members are on the way to their target. `share_partitions` are those
    that somebody has read from in a share group; that one `is_settled` when all members have what
    they shall have, and all partitions are given out, of which its state says nothing.
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
        """The group in words, several lines."""
        count = len(self.members)
        noun = "generation" if self.type == "classic" else "epoch"
        lines = [
            f"{self.state}, {noun} {self.generation}, "
            f"{count} {'member' if count == 1 else 'members'}"
        ]
        lines += [f"  {_told(member)}" for member in self.members]
        lines += [
            f"  {place}: from {one.start_offset} on, {one.in_flight} in flight"
            for place, one in self.share_partitions.items()
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
