"""The input and output of assignors.

Assignors process members in mapping order, and topics and partitions in ascending order. Kafka uses
the order of its hash tables, which is arbitrary. Source: GroupSpec, MemberSubscription and
MemberAssignment of Kafka's assignor API.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

Partitions = Mapping[bytes, frozenset[int]]
"""Topic id -> partitions."""

Assignment = Mapping[str, Partitions]
"""Member id -> target partitions, without topics that have no partitions. A member that is missing
gets no partitions."""

_UUID = struct.Struct(">qq")


class MemberSpec(NamedTuple):
    """One member; `topic_ids` are its subscribed topics that exist."""

    topic_ids: frozenset[bytes]
    partitions: Partitions
    """The member's partitions in the previous target assignment."""
    instance_id: str | None = None


class GroupSpec(NamedTuple):
    """The group to assign.

    `partition_counts` has every topic of every member. `is_homogeneous` says whether all members
    have the same subscription (Kafka's SubscriptionType). If `assignable` is set (topic id ->
    partitions, for share groups), only these partitions are assigned.
    """

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]
    is_homogeneous: bool
    assignable: Partitions | None = None


def uuid_order(topic_id: bytes) -> tuple[int, int]:
    """Return a sort key that orders topic ids like Kafka's Uuid: as two signed longs."""
    high, low = _UUID.unpack(topic_id)
    return high, low


def with_added(partitions: Partitions, added: Iterable[tuple[bytes, int]]) -> Partitions:
    """Return a copy of `partitions` with the pairs (topic id, partition) of `added`."""
    by_topic: dict[bytes, set[int]] = {}
    for topic_id, partition in added:
        by_topic.setdefault(topic_id, set()).add(partition)
    copy = dict(partitions)
    for topic_id, more in by_topic.items():
        copy[topic_id] = copy.get(topic_id, frozenset()) | more
    return copy
