"""The simple assignor; tests/oracle/test_assignors.py compares further groups with Kafka."""

from __future__ import annotations

from collections import Counter
from functools import partial

from coordinator_server.core.groups.modern.assignor_spec import GroupSpec, MemberSpec
from tests.unit.core.groups.consumer.assignors.evolving import assigned, evolving

simple = partial(assigned, "simple")
ONE, TWO = b"1" * 16, b"2" * 16
TOPICS = frozenset((ONE,))
BOTH = frozenset((ONE, TWO))


def parts(*numbers: int) -> frozenset[int]:
    """Return a set of partitions."""
    return frozenset(numbers)


def test_who_reads_nothing_gets_nothing() -> None:
    """Without members or without topics the assignment is empty."""
    assert simple(GroupSpec({}, {}, is_homogeneous=True)) == {}
    members = {"a": MemberSpec(frozenset(), {ONE: parts(0)})}
    assert simple(GroupSpec(members, {}, is_homogeneous=True)) == {}


def test_partitions_are_shared_when_members_are_many() -> None:
    """With more members than partitions, each member gets the same number of partitions."""
    members = {name: MemberSpec(TOPICS, {}) for name in "abcd"}
    assert simple(GroupSpec(members, {ONE: 2}, is_homogeneous=True)) == {
        "a": {ONE: {0}},
        "b": {ONE: {0}},
        "c": {ONE: {1}},
        "d": {ONE: {1}},
    }


def test_members_keep_what_they_may_have() -> None:
    """A member keeps partitions within its own quota and the partition's quota.

    Other partitions are taken away.
    """
    members = {
        "a": MemberSpec(BOTH, {ONE: parts(0, 1, 2), TWO: parts(0)}),
        "b": MemberSpec(BOTH, {}),
    }
    assert simple(GroupSpec(members, {ONE: 3, TWO: 1}, is_homogeneous=True)) == {
        "a": {ONE: {2}, TWO: {0}},
        "b": {ONE: {0, 1}},
    }
    members = {name: MemberSpec(TOPICS, {ONE: parts(1)}) for name in "ab"}
    assert simple(GroupSpec(members, {ONE: 2}, is_homogeneous=True)) == {
        "a": {ONE: {0}},
        "b": {ONE: {1}},
    }


def test_only_what_is_assignable_is_handed_out() -> None:
    """Only initialized partitions of a share group are assigned."""
    members = {name: MemberSpec(BOTH, {}) for name in "ab"}
    counts = {ONE: 3, TWO: 2}
    assignable = {ONE: parts(1)}
    spec = GroupSpec(members, counts, is_homogeneous=True, assignable=assignable)
    assert simple(spec) == {"a": {ONE: {1}}, "b": {ONE: {1}}}
    members = {"a": MemberSpec(BOTH, {ONE: parts(0)}), "b": MemberSpec(BOTH, {})}
    spec = GroupSpec(members, counts, is_homogeneous=True, assignable={})
    assert simple(spec) == {"a": {ONE: set()}, "b": {}}


def test_what_may_be_assigned_no_more_fills_members_all_the_same() -> None:
    """Partitions that are no longer assignable stay with their members and count for the quota.

    The assignor ends even if another partition has too few members.
    """
    members = {
        "a": MemberSpec(TOPICS, {ONE: parts(1)}),
        "b": MemberSpec(TOPICS, {ONE: parts(1)}),
        "c": MemberSpec(TOPICS, {}),
    }
    spec = GroupSpec(members, {ONE: 2}, is_homogeneous=True, assignable={ONE: parts(0)})
    assert simple(spec) == {"a": {ONE: {1}}, "b": {ONE: {1}}, "c": {ONE: {0}}}


def test_each_topic_is_shared_by_itself_where_members_read_different_ones() -> None:
    """With different subscriptions each topic is assigned separately.

    A member loses unsubscribed topics, except topics without any subscriber, as in Kafka.
    """
    gone = b"0" * 16
    members = {
        "a": MemberSpec(BOTH, {ONE: parts(0, 1), gone: parts(7)}),
        "b": MemberSpec(TOPICS, {TWO: parts(0, 1)}),
    }
    assert simple(GroupSpec(members, {ONE: 2, TWO: 2}, is_homogeneous=False)) == {
        "a": {ONE: {1}, TWO: {0, 1}, gone: {7}},
        "b": {ONE: {0}, TWO: set()},
    }


def test_turns_end_when_all_had_the_partition_before() -> None:
    """The assignor ends if a member has room only for the partition that it already has."""
    members = {
        "a": MemberSpec(TOPICS, {ONE: parts(1)}),
        "b": MemberSpec(TOPICS, {ONE: parts(0)}),
        "c": MemberSpec(TOPICS, {ONE: parts(0)}),
    }
    assert simple(GroupSpec(members, {ONE: 2}, is_homogeneous=True)) == {
        "a": {ONE: {1}},
        "b": {ONE: {0}},
        "c": {ONE: {0}},
    }


def test_every_partition_is_read_and_all_have_the_same() -> None:
    """Over many changes only subscribed partitions are assigned, and loads are even.

    Members with the same subscription differ by at most one partition.
    """
    for group in evolving(12, 1500, 9, 13):
        ids = group.ids("random")
        spec = group.spec(ids)
        assignment = simple(spec)
        read = Counter(topic_id for one in spec.members.values() for topic_id in one.topic_ids)
        holders = Counter(
            (topic_id, partition)
            for partitions in assignment.values()
            for topic_id, of_topic in partitions.items()
            if topic_id in read
            for partition in of_topic
        )
        assert set(holders) == {
            (topic_id, partition)
            for topic_id in read
            for partition in range(spec.partition_counts[topic_id])
        }
        if spec.is_homogeneous and assignment:
            sizes = [sum(map(len, partitions.values())) for partitions in assignment.values()]
            assert max(sizes) - min(sizes) <= 2
        group.take(assignment, ids)
