"""What an assignor is given, and what it answers.

Assignors take members in the order of the mapping, topics and partitions in ascending order. In
Kafka all of it is in the order of hash tables, which means nothing. Source: GroupSpec,
MemberSubscription and MemberAssignment of Kafka's API of assignors.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

Partitions = Mapping[bytes, frozenset[int]]
"""Topic id -> partitions."""

Assignment = Mapping[str, Partitions]
"""Member id -> what the member shall own: a topic without partitions is not in it. A member that is
not in it gets nothing."""

_UUID = struct.Struct(">qq")


class MemberSpec(NamedTuple):
    """A member. `topic_ids` are the topics that it reads, as far as they exist."""

    topic_ids: frozenset[bytes]
    partitions: Partitions
    """What the last assignment gave to it."""
    instance_id: str | None = None


class GroupSpec(NamedTuple):
    """A group.

    `partition_counts` has every topic of every member. `is_homogeneous` says that all members have
    the same subscription (Kafka's SubscriptionType). Where `assignable` is given, as for share
    groups, nothing else is handed out: topic id -> partitions.
    """

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]
    is_homogeneous: bool
    assignable: Partitions | None = None


def uuid_order(topic_id: bytes) -> tuple[int, int]:
    """A key that sorts topic ids as Kafka's Uuid does: as two signed numbers."""
    high, low = _UUID.unpack(topic_id)
    return high, low


def with_added(partitions: Partitions, added: Iterable[tuple[bytes, int]]) -> Partitions:
    """A copy of `partitions` that has more of them, which are given as (topic id, partition)."""
    by_topic: dict[bytes, set[int]] = {}
    for topic_id, partition in added:
        by_topic.setdefault(topic_id, set()).add(partition)
    copy = dict(partitions)
    for topic_id, more in by_topic.items():
        copy[topic_id] = copy.get(topic_id, frozenset()) | more
    return copy
