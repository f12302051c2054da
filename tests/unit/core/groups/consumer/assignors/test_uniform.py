"""The uniform assignor; tests/oracle/test_assignors.py compares further groups with Kafka."""

from __future__ import annotations

import random
from functools import partial

from coordinator_server.core.groups.modern.assignor_spec import GroupSpec, MemberSpec, Partitions
from tests.unit.core.groups.consumer.assignors.evolving import assigned, evolving

ONE, TWO = b"1" * 16, b"2" * 16
TOPICS = frozenset((ONE,))
BOTH = frozenset((ONE, TWO))
assign = partial(assigned, "uniform")


def parts(*numbers: int) -> frozenset[int]:
    """Return a set of partitions."""
    return frozenset(numbers)


def same_topics(partitions: dict[str, Partitions], counts: dict[bytes, int]) -> GroupSpec:
    """Return a group whose members all subscribe to all topics and owned `partitions`."""
    topic_ids = frozenset(counts)
    members = {name: MemberSpec(topic_ids, owned) for name, owned in partitions.items()}
    return GroupSpec(members, counts, is_homogeneous=True)


def test_who_reads_nothing_gets_nothing() -> None:
    """Without members or without topics the assignment is empty."""
    assert assign(GroupSpec({}, {}, is_homogeneous=True)) == {}
    members = {"a": MemberSpec(frozenset(), {ONE: parts(0)})}
    assert assign(GroupSpec(members, {}, is_homogeneous=True)) == {}
    assert assign(GroupSpec(members, {}, is_homogeneous=False)) == {}


def test_partitions_are_dealt_out_evenly() -> None:
    """Partitions are divided evenly and in order; the last members get surplus partitions."""
    assert assign(same_topics({"a": {}, "b": {}, "c": {}}, {ONE: 2, TWO: 3})) == {
        "a": {ONE: {0}},
        "b": {ONE: {1}, TWO: {0}},
        "c": {TWO: {1, 2}},
    }


def test_members_keep_what_they_have() -> None:
    """A balanced assignment stays; a new member gets only surplus partitions of other members."""
    balanced: dict[str, Partitions] = {"a": {ONE: parts(4, 5)}, "b": {ONE: parts(0, 1, 3)}}
    assert assign(same_topics({**balanced, "c": {}}, {ONE: 6})) == {
        "a": {ONE: {4, 5}},
        "b": {ONE: {0, 1}},
        "c": {ONE: {2, 3}},
    }
    assert assign(
        same_topics({"a": {ONE: parts(2, 4, 5)}, "b": {ONE: parts(0, 1, 3)}}, {ONE: 6})
    ) == {
        "a": {ONE: {2, 4, 5}},
        "b": {ONE: {0, 1, 3}},
    }


def test_topics_that_are_read_no_more_are_taken_away() -> None:
    """A member loses partitions of unsubscribed topics, and partitions beyond its quota."""
    owned: dict[str, Partitions] = {
        "a": {TWO: parts(0), ONE: parts(0, 1)},
        "b": {ONE: parts(2)},
        "c": {},
    }
    assert assign(same_topics(owned, {ONE: 3})) == {
        "a": {ONE: {0}},
        "b": {ONE: {2}},
        "c": {ONE: {1}},
    }
    full: dict[str, Partitions] = {"a": {ONE: parts(0), TWO: parts(0)}, "b": {}}
    assert assign(same_topics(full, {ONE: 1, TWO: 1})) == {"a": {ONE: {0}}, "b": {TWO: {0}}}


def test_different_topics_load_all_members_the_same() -> None:
    """If subscriptions differ, a member with fewer topics gets more partitions of each topic."""
    members = {
        "a": MemberSpec(BOTH, {}),
        "b": MemberSpec(TOPICS, {}),
        "c": MemberSpec(frozenset(), {ONE: parts(0)}),
    }
    assert assign(GroupSpec(members, {ONE: 4, TWO: 2}, is_homogeneous=False)) == {
        "a": {ONE: {3}, TWO: {0, 1}},
        "b": {ONE: {0, 1, 2}},
        "c": {},
    }


def test_partitions_move_only_where_that_helps() -> None:
    """Partitions move from the most loaded member that owns partitions of the same topic."""
    members = {
        "a": MemberSpec(BOTH, {ONE: parts(0, 1, 2, 3)}),
        "b": MemberSpec(BOTH, {TWO: parts(0, 1, 2, 3, 4, 5)}),
        "c": MemberSpec(TOPICS, {}),
    }
    assert assign(GroupSpec(members, {ONE: 4, TWO: 6}, is_homogeneous=False)) == {
        "a": {ONE: {0}, TWO: {4, 5}},
        "b": {TWO: {0, 1, 2, 3}},
        "c": {ONE: {1, 2, 3}},
    }


def test_every_partition_has_one_owner_and_moves_seldom() -> None:
    """Over thousands of changes each partition has one owner, a subscriber, and rarely moves.

    Loads differ by at most one if all subscriptions are equal, and an unchanged group keeps its
    assignment.
    """
    for step, group in enumerate(evolving(11, 3000, 9, 13)):
        ids = group.ids("random")
        spec = group.spec(ids)
        assignment = assign(spec)
        owned = [
            (topic_id, partition)
            for name, partitions in assignment.items()
            for topic_id, of_topic in partitions.items()
            for partition in of_topic
            if topic_id in spec.members[name].topic_ids
        ]
        read = frozenset[bytes]().union(*(one.topic_ids for one in spec.members.values()))
        assert sorted(owned) == sorted(
            (topic_id, partition)
            for topic_id in read
            for partition in range(spec.partition_counts[topic_id])
        ), step
        assert all(of_topic for one in assignment.values() for of_topic in one.values())
        if spec.is_homogeneous and assignment:
            sizes = [sum(map(len, partitions.values())) for partitions in assignment.values()]
            assert max(sizes) - min(sizes) <= 1
        group.take(assignment, ids)
        if spec.is_homogeneous:
            assert assign(group.spec(ids)) == assignment


def test_rounds_end() -> None:
    """The balancing rounds end, even with a long chain of overlapping subscriptions."""
    chosen = random.Random(3)
    topic_ids = [number.to_bytes(16, "big") for number in range(40)]
    members = {
        f"m{number}": MemberSpec(frozenset(topic_ids[number : number + 2]), {})
        for number in range(39)
    }
    counts = dict.fromkeys(topic_ids, 30)
    counts[topic_ids[0]] = counts[topic_ids[1]] = 5000
    names = list(members)
    chosen.shuffle(names)
    assignment = assign(
        GroupSpec({name: members[name] for name in names}, counts, is_homogeneous=False)
    )
    assert (
        sum(len(one) for owned in assignment.values() for one in owned.values()) == 38 * 30 + 10000
    )
