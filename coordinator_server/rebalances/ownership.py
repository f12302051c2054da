"""Who owned which partitions before and after a rebalance, and how many changed hands.

Taken from the two records of the group in the log that lie around it, or from the group itself if
its members have epochs. Of classic groups only those of the consumer protocol have partitions; the
bytes come from clients, so that they cannot be read is no error. A static
member is the same member under a new id, as it is to Kafka (KIP-345).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain, product
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.effects import STEP_ITEMS
from coordinator_server.core.groups.modern.snapshot import GroupSnapshot
from coordinator_server.core.groups.pace import Pace
from protocol.consumer_protocol import decode_assignment, decode_subscription
from protocol.errors import ProtocolError

if TYPE_CHECKING:
    from coordinator_server.core.groups.modern.snapshot import MemberThen
    from coordinator_server.steps import Computation
    from protocol.offsets_log import GroupMetadataValue, RecordedMember

CONSUMER = "consumer"
CANNOT_BE_READ = "cannot be read"

ASSIGNMENTS_KEPT, KEPT_BYTES = 1024, 4096
"""Assignments that are read once, and how long they may be."""

Partitions = dict[str, list[int]]
"""Partition indexes by topic, both in order."""

Identity = str | tuple[str, str]
"""What stays the same when a static member comes back."""


Owners = Identity | frozenset[Identity]
"""One owner of a partition, or several."""


class PartitionsInThreeForms(NamedTuple):
    """The partitions of an assignment, in three forms; not to be changed."""

    by_topic: Partitions
    pairs: tuple[tuple[str, int], ...]
    json: str


class LoggedMember(NamedTuple):
    """One member as the log has it; its assignment is None when it cannot be read."""

    recorded: RecordedMember | MemberThen
    assignment: PartitionsInThreeForms | None


class Moves(NamedTuple):
    """Numbers of partitions; together they are all that was owned before or is owned after."""

    moved: int
    added: int
    revoked: int
    stayed: int


def identity(member_id: str, group_instance_id: str | None) -> Identity:
    """Who it is."""
    return member_id if group_instance_id is None else ("static", group_instance_id)


def members_of(
    value: GroupMetadataValue | GroupSnapshot | None,
) -> Computation[dict[Identity, LoggedMember]]:
    """The members of a group by identity, in the order of the log."""
    if value is None:
        return {}
    if isinstance(value, GroupSnapshot):
        found = {}
        pace = Pace()
        for member in value.members:
            owned = member.owned()
            if pace.is_due(len(owned)):
                yield
            assignment = _assignment(owned)
            found[identity(member.member_id, member.group_instance_id)] = LoggedMember(
                member, assignment
            )
            if pace.is_due(len(assignment.pairs)):
                yield
        return found
    readable = value.protocol_type == CONSUMER
    return {
        identity(member.member_id, member.group_instance_id): LoggedMember(
            member, assigned(member.assignment) if readable else None
        )
        for member in value.members
    }


def assigned(assignment: bytes) -> PartitionsInThreeForms | None:
    """What the bytes of an assignment assign; None if they are unreadable.

    No bytes at all are no partitions: the leader has not named the member. What is owned before a
    rebalance was read after the last one, and much of it is owned after this one as well.
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
    """The topics of a subscription; none when it cannot be read."""
    if isinstance(metadata, frozenset):
        return metadata
    try:
        return frozenset(decode_subscription(metadata).topics)
    except ProtocolError:
        return frozenset()


def unknown(
    protocol_type: str | None, members: Iterable[dict[Identity, LoggedMember]]
) -> str | None:
    """Why nothing can be said about partitions; None when it can."""
    if protocol_type and protocol_type != CONSUMER:
        return f"protocol type {protocol_type}"
    if any(member.assignment is None for side in members for member in side.values()):
        return CANNOT_BE_READ
    return None


def moves(
    before: dict[Identity, LoggedMember], after: dict[Identity, LoggedMember]
) -> Computation[Moves]:
    """How many partitions changed hands; those of every member have to be known."""
    old = yield from _owners(before)
    new = yield from _owners(after)
    moved = stayed = 0
    for partition, owner in old.items():
        new_owner = new.get(partition)
        if new_owner == owner:
            stayed += 1
        elif new_owner is not None:
            moved += 1
    both = moved + stayed
    return Moves(moved=moved, added=len(new) - both, revoked=len(old) - both, stayed=stayed)


def _owners(members: dict[Identity, LoggedMember]) -> Computation[dict[tuple[str, int], Owners]]:
    """Partition -> who owns it; a careless assignor may give one partition to several."""
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
    """Name all owners of the partitions that have several."""
    of_all: dict[tuple[str, int], set[Identity]] = {}
    for who, member in members.items():
        if member.assignment is not None:
            for partition in member.assignment.pairs:
                of_all.setdefault(partition, set()).add(who)
    for partition, several in of_all.items():
        if len(several) > 1:
            owners[partition] = frozenset(several)
