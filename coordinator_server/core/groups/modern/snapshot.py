"""GroupSnapshot: the members of a group and their partitions at one moment.

Snapshots exist for groups whose members have epochs. A partition is a topic id and an index; in a
streams group, the subtopology id and index of an active task. Taking a snapshot copies two dicts
while requests wait. Topic names are looked up only on demand, because that is slow for members with
many partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from coordinator_server.core.groups.settings import GroupEnvironment, GroupKind

Partition = tuple[Any, int]
"""A topic id or subtopology id, and an index."""

Indexes = Mapping[Any, Iterable[int]]
"""Topic id or subtopology id -> indexes."""


class DescribableGroup(Protocol):
    """The attributes that consumer, share and streams groups share.

    `members`, `targets` and `currents` are by member id; their types depend on the kind of group.
    """

    group_id: str
    environment: GroupEnvironment
    epoch: int
    metadata_hash: int
    assignment_epoch: int

    @property
    def kind(self) -> GroupKind:
        """The kind of the group."""

    @property
    def members(self) -> Mapping[str, Any]:
        """Member id -> the attributes that the member sends."""

    @property
    def targets(self) -> Mapping[str, Any]:
        """Member id -> target assignment."""

    @property
    def currents(self) -> Mapping[str, Any]:
        """Member id -> current assignment."""


class MemberThen(NamedTuple):
    """A member at the time of the snapshot.

    `held` are the partitions that the member owned or still had to revoke.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member: Any
    held: tuple[Indexes, ...]
    environment: GroupEnvironment

    @property
    def subscription(self) -> frozenset[str]:
        """The subscribed topic names and the regular expression."""
        return subscription(self.member)

    def owned(self) -> dict[str, list[int]]:
        """Return topic name -> indexes of the member's partitions, both sorted."""
        return by_name(self.environment, *self.held)


class GroupSnapshot:
    """The members of a group and their partitions at one moment."""

    __slots__ = ("_currents", "_environment", "_kind", "_listed", "_members", "protocol")

    leader: str | None = None

    def __init__(self, group: DescribableGroup) -> None:
        self._kind = group.kind
        self._members = dict(group.members)
        self._currents = dict(group.currents)
        self._environment = group.environment
        self._listed: list[MemberThen] | None = None
        self.protocol = assignor(group)

    def without(self, member_ids: set[str]) -> GroupSnapshot:
        """Remove some members from this snapshot, and return the snapshot."""
        for member_id in member_ids:
            self._members.pop(member_id, None)
        self._listed = None
        return self

    @property
    def members(self) -> list[MemberThen]:
        """The members at the time of the snapshot."""
        if self._listed is None:
            self._listed = [
                MemberThen(
                    member_id,
                    instance_id(member),
                    member.client_id,
                    member.client_host,
                    member,
                    sides(self._kind, self._currents.get(member_id)),
                    self._environment,
                )
                for member_id, member in self._members.items()
            ]
        return self._listed


def assignor(group: Any) -> str | None:
    """Return the assignor of a consumer group, or None for kinds that have only one assignor."""
    if group.kind is not GroupKind.CONSUMER:
        return None
    name: str = group.preferred_assignor(group.members)
    return name


def instance_id(member: Any) -> str | None:
    """Return the instance id of a static member, or None; share groups have no static members."""
    instance: str | None = getattr(member, "instance_id", None)
    return instance


def subscription(member: Any) -> frozenset[str]:
    """Return a member's subscribed topic names and regular expression; empty for streams."""
    regex = getattr(member, "regex", None)
    return frozenset(getattr(member, "topics", ())) | ({regex} if regex else frozenset())


def sides(kind: GroupKind, current: Any) -> tuple[Indexes, Indexes]:
    """Return the partitions that a member owns, and the partitions that it still has to revoke."""
    if current is None:
        return {}, {}
    if kind is GroupKind.SHARE:
        return current.assigned, {}
    if kind is GroupKind.STREAMS:
        return current.assigned.active, current.revoking.active
    return current.assigned, current.revoking


def wanted(kind: GroupKind, target: Any) -> Indexes:
    """Return the partitions of a target assignment, or none if `target` is None."""
    if target is None:
        return {}
    indexes: Indexes = target.active if kind is GroupKind.STREAMS else target
    return indexes


def held(kind: GroupKind, current: Any) -> Iterator[Partition]:
    """Return the partitions that a member owns or still has to revoke."""
    for side in sides(kind, current):
        yield from pairs(side)


def pairs(indexes: Indexes) -> Iterator[Partition]:
    """Yield each partition."""
    for topic, of_topic in indexes.items():
        for index in of_topic:
            yield topic, index


def by_name(environment: GroupEnvironment, *held: Indexes) -> dict[str, list[int]]:
    """Return topic name -> indexes, both sorted; a deleted topic is shown by its id."""
    named: dict[str, list[int]] = {}
    for indexes in held:
        for topic, of_topic in indexes.items():
            if of_topic:
                named.setdefault(_name(environment, topic), []).extend(of_topic)
    return {name: sorted(named[name]) for name in sorted(named)}


def _name(environment: GroupEnvironment, topic: str | bytes) -> str:
    if isinstance(topic, str):
        return topic
    known = environment.topics.topic_by_id(topic)
    return topic.hex() if known is None else known.name
