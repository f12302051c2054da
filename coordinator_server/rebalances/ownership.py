"""The owners of partitions before and after a rebalance, and the number of partitions moved.

The source is the group's metadata records before and after the rebalance, or the group itself if
its members have epochs. Classic groups have partitions only with the consumer protocol; clients
write these bytes, so unreadable bytes are not an error. A static member keeps its identity under a
new member id (KIP-345).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain, product
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.effects import STEP_ITEMS, Pace
from coordinator_server.core.groups.modern.snapshot import GroupSnapshot
from protocol.consumer_protocol import decode_assignment, decode_subscription
from protocol.errors import ProtocolError

if TYPE_CHECKING:
    from coordinator_server.core.groups.modern.snapshot import MemberThen
    from coordinator_server.steps import Computation
    from protocol.offsets_log import GroupMetadataValue, RecordedMember

CONSUMER = "consumer"
CANNOT_BE_READ = "cannot be read"

ASSIGNMENTS_KEPT, KEPT_BYTES = 1024, 4096
"""Number of decoded assignments in the cache, and the largest size of a cached assignment."""

Partitions = dict[str, list[int]]
"""Partition indexes by topic, both sorted."""

Identity = str | tuple[str, str]
"""The member id, or for a static member a tuple with the instance id, which survives restarts."""


Owners = Identity | frozenset[Identity]
"""One or several owners of a partition."""


class PartitionsInThreeForms(NamedTuple):
    """The partitions of an assignment in three forms. Objects are cached: do not modify them."""

    by_topic: Partitions
    pairs: tuple[tuple[str, int], ...]
    json: str


class LoggedMember(NamedTuple):
    """A member as recorded in the log; `assignment` is None if unreadable."""

    recorded: RecordedMember | MemberThen
    assignment: PartitionsInThreeForms | None


class Moves(NamedTuple):
    """Counts of partitions, which add up to all partitions owned before or after."""

    moved: int
    added: int
    revoked: int
    stayed: int


def identity(member_id: str, group_instance_id: str | None) -> Identity:
    """Return the identity of a member."""
    return member_id if group_instance_id is None else ("static", group_instance_id)


def members_of(
    value: GroupMetadataValue | GroupSnapshot | None,
) -> Computation[dict[Identity, LoggedMember]]:
    """Return the members of a group by identity, in the order of the log."""
    if value is None:
        return {}
    if isinstance(value, GroupSnapshot):
        members = {}
        pace = Pace()
        for member in value.members:
            owned = member.owned()
            if pace.is_due(len(owned)):
                yield
            assignment = _assignment(owned)
            members[identity(member.member_id, member.group_instance_id)] = LoggedMember(
                member, assignment
            )
            if pace.is_due(len(assignment.pairs)):
                yield
        return members
    readable = value.protocol_type == CONSUMER
    return {
        identity(member.member_id, member.group_instance_id): LoggedMember(
            member, assigned(member.assignment) if readable else None
        )
        for member in value.members
    }


def assigned(assignment: bytes) -> PartitionsInThreeForms | None:
    """Decode an assignment; return None if the bytes are unreadable.

    Empty bytes mean no partitions: the leader assigned nothing to the member. Small assignments are
    cached, because most of them are needed again for the next rebalance.
    """
    return _kept(assignment) if len(assignment) <= KEPT_BYTES else _read(assignment)


def _read(assignment: bytes) -> PartitionsInThreeForms | None:
    if not assignment:
        return PartitionsInThreeForms({}, (), "{}")
    try:
        decoded = decode_assignment(assignment)
    except ProtocolError:
        return None
    owned: dict[str, set[int]] = {}
    for topic_partitions in decoded.assigned_partitions:
        owned.setdefault(topic_partitions.topic, set()).update(topic_partitions.partitions)
    return _assignment({topic: sorted(owned[topic]) for topic in sorted(owned) if owned[topic]})


def _assignment(by_topic: Partitions) -> PartitionsInThreeForms:
    pairs = chain.from_iterable(product((topic,), of_topic) for topic, of_topic in by_topic.items())
    return PartitionsInThreeForms(
        by_topic, tuple(pairs), json.dumps(by_topic, separators=(",", ":"))
    )


_kept = lru_cache(ASSIGNMENTS_KEPT)(_read)


def subscribed(metadata: bytes | frozenset[str]) -> frozenset[str]:
    """Return the topics of a subscription; empty if the subscription is unreadable."""
    if isinstance(metadata, frozenset):
        return metadata
    try:
        return frozenset(decode_subscription(metadata).topics)
    except ProtocolError:
        return frozenset()


def unknown(
    protocol_type: str | None, members: Iterable[dict[Identity, LoggedMember]]
) -> str | None:
    """Return why partitions are unknown, or None if they are known."""
    if protocol_type and protocol_type != CONSUMER:
        return f"protocol type {protocol_type}"
    if any(member.assignment is None for side in members for member in side.values()):
        return CANNOT_BE_READ
    return None


def moves(
    before: dict[Identity, LoggedMember], after: dict[Identity, LoggedMember]
) -> Computation[Moves]:
    """Count moved, added, revoked and unmoved partitions. All assignments must be readable."""
    old = yield from _owners(before)
    new = yield from _owners(after)
    moved = stayed = 0
    for partition, owner in old.items():
        new_owner = new.get(partition)
        if new_owner == owner:
            stayed += 1
        elif new_owner is not None:
            moved += 1
    partitions = moved + stayed
    return Moves(
        moved=moved, added=len(new) - partitions, revoked=len(old) - partitions, stayed=stayed
    )


def _owners(members: dict[Identity, LoggedMember]) -> Computation[dict[tuple[str, int], Owners]]:
    """Return the owners by partition. An assignor may give one partition to several members."""
    owners: dict[tuple[str, int], Owners] = {}
    given = 0
    for who, member in members.items():
        if member.assignment is not None:
            given += len(member.assignment.pairs)
            owners.update(dict.fromkeys(member.assignment.pairs, who))
            if len(member.assignment.pairs) > STEP_ITEMS:
                yield
    if len(owners) < given:
        _add_other_owners(owners, members)
    return owners


def _add_other_owners(
    owners: dict[tuple[str, int], Owners], members: dict[Identity, LoggedMember]
) -> None:
    """Set all owners of each partition that has several."""
    of_all: dict[tuple[str, int], set[Identity]] = {}
    for who, member in members.items():
        if member.assignment is not None:
            for partition in member.assignment.pairs:
                of_all.setdefault(partition, set()).add(who)
    for partition, several in of_all.items():
        if len(several) > 1:
            owners[partition] = frozenset(several)
