"""Who owned which partitions before and after a rebalance, and how many changed hands.

Taken from the two records of the group in the log that lie around it. Only the consumer protocol
has partitions; its bytes come from clients, so that they cannot be read is no error. A static
member is the same member under a new id, as it is to Kafka (KIP-345).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from protocol.consumer_protocol import decode_assignment, decode_subscription
from protocol.errors import ProtocolError

if TYPE_CHECKING:
    from protocol.offsets_log import GroupMetadataValue, RecordedMember

CONSUMER = "consumer"
CANNOT_BE_READ = "cannot be read"

ASSIGNMENTS_KEPT = 2048

Partitions = dict[str, list[int]]
"""Partition indexes by topic, both in order."""

Identity = tuple[str, str]
"""What stays the same when a static member comes back."""


class Member(NamedTuple):
    """One member as the log has it; its partitions are None when they cannot be read."""

    recorded: RecordedMember
    partitions: Partitions | None


class Moves(NamedTuple):
    """Numbers of partitions; together they are all that was owned before or is owned after."""

    moved: int
    added: int
    revoked: int
    stayed: int


def identity(member_id: str, group_instance_id: str | None) -> Identity:
    """Who it is."""
    return ("", member_id) if group_instance_id is None else ("static", group_instance_id)


def members_of(value: GroupMetadataValue | None) -> dict[Identity, Member]:
    """The members of a group by identity, in the order of the log."""
    if value is None:
        return {}
    readable = value.protocol_type == CONSUMER
    return {
        identity(member.member_id, member.group_instance_id): Member(
            member, assigned(member.assignment) if readable else None
        )
        for member in value.members
    }


@lru_cache(maxsize=ASSIGNMENTS_KEPT)
def assigned(assignment: bytes) -> Partitions | None:
    """The partitions in the bytes of an assignment, not to be changed; None if they are unreadable.

    No bytes at all are no partitions: the leader has not named the member. What is owned before a
    rebalance was read after the last one, and much of it is owned after this one as well.
    """
    if not assignment:
        return {}
    try:
        decoded = decode_assignment(assignment)
    except ProtocolError:
        return None
    owned: dict[str, set[int]] = {}
    for topic_partitions in decoded.assigned_partitions:
        owned.setdefault(topic_partitions.topic, set()).update(topic_partitions.partitions)
    return {topic: sorted(owned[topic]) for topic in sorted(owned) if owned[topic]}


def subscribed(metadata: bytes) -> frozenset[str]:
    """The topics of a subscription; none when it cannot be read."""
    try:
        return frozenset(decode_subscription(metadata).topics)
    except ProtocolError:
        return frozenset()


def unknown(protocol_type: str | None, members: Iterable[dict[Identity, Member]]) -> str | None:
    """Why nothing can be said about partitions; None when it can."""
    if protocol_type and protocol_type != CONSUMER:
        return f"protocol type {protocol_type}"
    if any(owned.partitions is None for side in members for owned in side.values()):
        return CANNOT_BE_READ
    return None


def moves(before: dict[Identity, Member], after: dict[Identity, Member]) -> Moves:
    """How many partitions changed hands; those of every member have to be known."""
    old, new = _owners(before), _owners(after)
    both = old.keys() & new.keys()
    stayed = sum(old[partition] == new[partition] for partition in both)
    return Moves(
        moved=len(both) - stayed,
        added=len(new.keys() - both),
        revoked=len(old.keys() - both),
        stayed=stayed,
    )


def _owners(members: dict[Identity, Member]) -> dict[tuple[str, int], Any]:
    """Partition -> who owns it; a careless assignor may give one partition to several."""
    owners: dict[tuple[str, int], Identity | set[Identity]] = {}
    for who, member in members.items():
        for topic, indexes in (member.partitions or {}).items():
            for index in indexes:
                other = owners.setdefault((topic, index), who)
                if other is not who:
                    others = other if isinstance(other, set) else {other}
                    owners[topic, index] = {*others, who}
    return owners
