"""The members of a group at one moment: who they were, and which partitions each of them had.

For the kinds of group whose members have epochs. Partitions are topic and index, in a streams group
subtopology and index of the active task. It costs two copies of a dictionary while requests wait;
names are looked up when somebody wants to know, which is long work for members of many partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from coordinator_server.core.groups.settings import GroupEnvironment, GroupKind

Partition = tuple[Any, int]
"""Topic id or subtopology id, and index."""

Indexes = Mapping[Any, Iterable[int]]
"""Indexes by topic id or subtopology id."""


class DescribableGroup(Protocol):
    """A group whose members have epochs: what consumer, share and streams groups have in common.

    Members, targets and current assignments are those of the kind, by member id.
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
        """What each member asks for."""

    @property
    def targets(self) -> Mapping[str, Any]:
        """What each member shall have."""

    @property
    def currents(self) -> Mapping[str, Any]:
        """What each member has."""


class MemberThen(NamedTuple):
    """A member at that moment, with the partitions that it had, or had still to give up."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member: Any
    held: tuple[Indexes, ...]
    environment: GroupEnvironment

    @property
    def subscription(self) -> frozenset[str]:
        """The topics that it read, with its regular expression."""
        return subscription(self.member)

    def owned(self) -> dict[str, list[int]]:
        """The indexes of its partitions by topic, both in order."""
        return by_name(self.environment, *self.held)


class GroupSnapshot:
    """A group at one moment. `is_included` says which of its members count."""

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
        """The same without some of the members."""
        for member_id in member_ids:
            self._members.pop(member_id, None)
        self._listed = None
        return self

    @property
    def members(self) -> list[MemberThen]:
        """The members."""
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
    """The assignor of a consumer group; the other kinds have no choice."""
    if group.kind is not GroupKind.CONSUMER:
        return None
    name: str = group.preferred_assignor(group.members)
    return name


def instance_id(member: Any) -> str | None:
    """The instance id of a static member; members of share groups never are."""
    instance: str | None = getattr(member, "instance_id", None)
    return instance


def subscription(member: Any) -> frozenset[str]:
    """The topics that a member names, and its regular expression; the topology names none."""
    regex = getattr(member, "regex", None)
    return frozenset(getattr(member, "topics", ())) | ({regex} if regex else frozenset())


def sides(kind: GroupKind, current: Any) -> tuple[Indexes, Indexes]:
    """The partitions that a member has, and those that it has still to give up."""
    if current is None:
        return {}, {}
    if kind is GroupKind.SHARE:
        return current.assigned, {}
    if kind is GroupKind.STREAMS:
        return current.assigned.active, current.revoking.active
    return current.assigned, current.revoking


def wanted(kind: GroupKind, target: Any) -> Indexes:
    """The partitions that a member shall have; None is a target without any."""
    if target is None:
        return {}
    indexes: Indexes = target.active if kind is GroupKind.STREAMS else target
    return indexes


def held(kind: GroupKind, current: Any) -> Iterator[Partition]:
    """The partitions that a member has, or has still to give up."""
    for side in sides(kind, current):
        yield from pairs(side)


def pairs(indexes: Indexes) -> Iterator[Partition]:
    """Partitions one by one."""
    for topic, of_topic in indexes.items():
        for index in of_topic:
            yield topic, index


def by_name(environment: GroupEnvironment, *held: Indexes) -> dict[str, list[int]]:
    """Indexes by topic, both in order. A topic that is gone has its id for a name."""
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
