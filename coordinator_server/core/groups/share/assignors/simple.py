"""The simple assignor: partitions are shared evenly, by several members if needed.

With more members than partitions, several members read each partition; with fewer members, each
partition has one reader. Members keep their partitions within their quota. With different
subscriptions, each topic is assigned separately. Source: SimpleAssignor,
SimpleHomogeneousAssignmentBuilder and SimpleHeterogeneousAssignmentBuilder (KIP-932).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from math import ceil
from typing import TYPE_CHECKING

from coordinator_server.core.groups.effects import Pace
from coordinator_server.core.groups.modern.assignor_spec import (
    Assignment,
    GroupSpec,
    MemberSpec,
    with_added,
)

if TYPE_CHECKING:
    from coordinator_server.core.groups.modern.assignor_spec import Partitions
    from coordinator_server.steps import Computation

TopicPartition = tuple[bytes, int]
"""Topic id and partition."""


def simple(spec: GroupSpec) -> Computation[Assignment]:
    """Return the assignment of the partitions in `spec.assignable`."""
    pace = Pace()
    members = list(spec.members.values())
    readers: dict[bytes, list[int]] = {}
    for index, member in enumerate(members):
        for topic_id in member.topic_ids:
            readers.setdefault(topic_id, []).append(index)
        if pace.is_due(len(member.topic_ids)):
            yield
    if not readers:
        return {}
    scopes = [list(readers)] if spec.is_homogeneous else [[topic_id] for topic_id in readers]
    taken: list[list[TopicPartition]] = [[] for _ in members]
    for topic_ids in scopes:
        of_scope = readers[topic_ids[0]]
        held: dict[int, set[TopicPartition]] = {index: set() for index in of_scope}
        for index, (_, partitions, _) in enumerate(members):
            for topic_id in topic_ids:
                if topic_id in partitions:
                    had = ((topic_id, partition) for partition in partitions[topic_id])
                    held.setdefault(index, set()).update(had)
            if pace.is_due(len(topic_ids)):
                yield
        targets = list(_assignable(spec, topic_ids))
        yield from _share_out(targets, of_scope, held, pace)
        for index, of_member in held.items():
            taken[index] += of_member
            if pace.is_due(len(of_member)):
                yield
    assignment: dict[str, Partitions] = {}
    for (member_id, member), to_read in zip(spec.members.items(), taken, strict=True):
        assignment[member_id] = with_added(_topics_kept(spec, member, readers), to_read)
        if pace.is_due(len(to_read)):
            yield
    return assignment


def _topics_kept(
    spec: GroupSpec, member: MemberSpec, readers: Container[bytes]
) -> dict[bytes, frozenset[int]]:
    """Return the initial assignment of a member: its previous topics, without partitions.

    A topic without subscribers keeps its partitions if the members' subscriptions differ, and is
    dropped if all members have the same subscription, as in Kafka.
    """
    return {
        topic_id: frozenset() if topic_id in readers else had
        for topic_id, had in member.partitions.items()
        if topic_id in readers or not spec.is_homogeneous
    }


def _assignable(spec: GroupSpec, topic_ids: Iterable[bytes]) -> Iterable[TopicPartition]:
    for topic_id in topic_ids:
        for partition in range(spec.partition_counts[topic_id]):
            if spec.assignable is None or partition in spec.assignable.get(topic_id, ()):
                yield topic_id, partition


def _share_out(
    targets: Sequence[TopicPartition],
    readers: Sequence[int],
    held: dict[int, set[TopicPartition]],
    pace: Pace,
) -> Computation[None]:
    """Change `held` (member -> partitions) so that the subscribers share `targets` evenly."""
    sharing = -(-len(readers) // len(targets)) if targets else 0
    quotas = _quotas(sharing * len(targets), readers)
    holders: dict[TopicPartition, set[int]] = {partition: set() for partition in targets}
    for index, of_member in held.items():
        for partition in of_member:
            holders.setdefault(partition, set()).add(index)
        if pace.is_due(len(of_member)):
            yield
    for index, of_member in held.items():
        surplus = len(of_member) - quotas.get(index, 0)
        if surplus > 0:
            for partition in sorted(of_member)[:surplus]:
                of_member.remove(partition)
                holders[partition].remove(index)
        if pace.is_due(len(of_member)):
            yield
    for partition, of_one in holders.items():
        surplus = len(of_one) - sharing
        if surplus > 0:
            for index in sorted(of_one)[:surplus]:
                of_one.remove(index)
                held[index].remove(partition)
        if pace.is_due(len(of_one)):
            yield
    yield from _fill(holders, sharing, quotas, held, pace)


def _quotas(total: int, readers: Sequence[int]) -> dict[int, int]:
    """Divide `total` partitions among the subscribers; return the number for each subscriber."""
    each = total / len(readers)
    return {
        index: ceil(each * (place + 1)) - ceil(each * place) for place, index in enumerate(readers)
    }


def _fill(
    holders: dict[TopicPartition, set[int]],
    sharing: int,
    quotas: dict[int, int],
    held: dict[int, set[TopicPartition]],
    pace: Pace,
) -> Computation[None]:
    """Give the partitions with too few members to members with too few partitions, in turn.

    As in Kafka, the loop stops at a partition that all remaining members hold, although another
    order might place more partitions. A member that gets the same partition twice holds it once.
    """
    unfilled = [index for index, quota in quotas.items() if len(held[index]) < quota]
    turn, has_given = 0, False
    for partition in sorted(holders):
        missing = sharing - len(holders[partition])
        if pace.is_due(1 + missing):
            yield
        while missing > 0 and unfilled:
            if turn == len(unfilled):
                if not has_given:
                    return
                turn, has_given = 0, False
            index = unfilled[turn]
            if index in holders[partition]:
                turn += 1
                continue
            held[index].add(partition)
            missing -= 1
            has_given = True
            if len(held[index]) >= quotas[index]:
                del unfilled[turn]
            else:
                turn += 1
