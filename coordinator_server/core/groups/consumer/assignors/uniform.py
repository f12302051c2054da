"""The uniform assignor for members with identical subscriptions.

The partition counts of any two members differ by at most one; within this limit, members keep their
partitions. Source: UniformHomogeneousAssignmentBuilder.
"""

from __future__ import annotations

from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.effects import Pace
from coordinator_server.core.groups.modern.assignor_spec import (
    Assignment,
    GroupSpec,
    Partitions,
    with_added,
)

if TYPE_CHECKING:
    from coordinator_server.steps import Computation


def _assign_homogeneous(spec: GroupSpec) -> Computation[Assignment]:
    """Return the assignment; the group must have members and topics."""
    topic_ids = next(iter(spec.members.values())).topic_ids
    unassigned = yield from _unassigned(spec, topic_ids)
    pace = Pace()
    total = sum(map(spec.partition_counts.__getitem__, topic_ids))
    quota, extras = divmod(total, len(spec.members))

    assignment: dict[str, Partitions] = {}
    unfilled: list[tuple[str, int]] = []
    members_left = len(spec.members)
    for member_id, member in spec.members.items():
        # Give extra partitions first to members that already own more than the quota, then to the
        # last members.
        has_extra = extras > 0
        kept, revoked, room = _kept(member.partitions, topic_ids, quota + has_extra)
        if room and has_extra and members_left > extras:
            room -= 1
            has_extra = False
        if room:
            unfilled.append((member_id, room))
        assignment[member_id] = kept
        unassigned += revoked
        extras -= has_extra
        members_left -= 1
        if pace.is_due(1 + len(member.partitions)):
            yield

    rest = iter(unassigned)
    for member_id, room in unfilled:
        assignment[member_id] = with_added(assignment[member_id], islice(rest, room))
        if pace.is_due(room):
            yield
    return assignment


def _unassigned(
    spec: GroupSpec, topic_ids: frozenset[bytes]
) -> Computation[list[tuple[bytes, int]]]:
    """Return the partitions without an owner, as (topic id, partition)."""
    pace = Pace()
    assigned: dict[bytes, set[int]] = {topic_id: set() for topic_id in topic_ids}
    for member in spec.members.values():
        for topic_id, partitions in member.partitions.items():
            if topic_id in assigned:
                assigned[topic_id] |= partitions
        if pace.is_due(1 + len(member.partitions)):
            yield
    unassigned: list[tuple[bytes, int]] = []
    for topic_id in sorted(topic_ids):
        count, of_topic = spec.partition_counts[topic_id], assigned[topic_id]
        unassigned += [(topic_id, index) for index in range(count) if index not in of_topic]
        if pace.is_due(1 + count):
            yield
    return unassigned


class _Kept(NamedTuple):
    partitions: Partitions
    revoked: list[tuple[bytes, int]]
    room: int


def _kept(partitions: Partitions, topic_ids: frozenset[bytes], quota: int) -> _Kept:
    """Return the kept (at most `quota`) and the revoked partitions, and the remaining quota."""
    kept: dict[bytes, frozenset[int]] = {}
    revoked: list[tuple[bytes, int]] = []
    for topic_id, of_topic in sorted(partitions.items(), key=itemgetter(0)):
        if topic_id not in topic_ids:
            continue
        if len(of_topic) > quota:
            ordered = sorted(of_topic)
            revoked += [(topic_id, partition) for partition in ordered[quota:]]
            of_topic = frozenset(ordered[:quota])
        if of_topic:
            kept[topic_id] = of_topic
        quota -= len(of_topic)
    return _Kept(kept, revoked, quota)


def assign(spec: GroupSpec) -> Computation[Assignment]:
    """Return the target assignment, by the assignor that fits the members' subscriptions."""
    if not any(member.topic_ids for member in spec.members.values()):
        return {}
    if spec.is_homogeneous:
        return (yield from _assign_homogeneous(spec))
    # Imported lazily: most brokers never have a group with different subscriptions.
    from coordinator_server.core.groups.consumer.assignors import uniform_heterogeneous

    return (yield from uniform_heterogeneous.assign(spec))
