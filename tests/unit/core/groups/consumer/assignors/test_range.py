"""The range assignor."""

from __future__ import annotations

from functools import partial

from coordinator_server.core.groups.modern.assignor_spec import GroupSpec, MemberSpec
from tests.unit.core.groups.consumer.assignors.evolving import assigned

ONE, TWO = b"1" * 16, b"2" * 16
BOTH = frozenset((ONE, TWO))
assign = partial(assigned, "range")


def test_members_get_the_same_numbers_of_each_topic() -> None:
    """A member gets the same partition numbers of each topic.

    Co-partitioned data is thus read by one member.
    """
    spec = GroupSpec(
        {"b": MemberSpec(BOTH, {}), "a": MemberSpec(BOTH, {})},
        {ONE: 3, TWO: 3},
        is_homogeneous=True,
    )
    assert assign(spec) == {
        "a": {ONE: {0, 1}, TWO: {0, 1}},
        "b": {ONE: {2}, TWO: {2}},
    }


def test_each_topic_is_divided_among_those_who_read_it() -> None:
    """Each topic is divided among its subscribers; surplus subscribers get no partition."""
    spec = GroupSpec(
        {
            "a": MemberSpec(BOTH, {}),
            "b": MemberSpec(frozenset((ONE,)), {}),
            "c": MemberSpec(BOTH, {}),
            "d": MemberSpec(frozenset(), {}),
        },
        {ONE: 2, TWO: 3},
        is_homogeneous=False,
    )
    assert assign(spec) == {
        "a": {ONE: {0}, TWO: {0, 1}},
        "b": {ONE: {1}},
        "c": {TWO: {2}},
        "d": {},
    }


def test_static_members_come_first_by_their_instance_ids() -> None:
    """Static members come first, ordered by instance id in UTF-16 units, as in Java."""
    topics = frozenset((ONE,))
    members = {
        "a": MemberSpec(topics, {}),
        "x": MemberSpec(topics, {}, "j"),
        "y": MemberSpec(topics, {}, "i"),
        "\ue000": MemberSpec(topics, {}),
        "\U0001f600": MemberSpec(topics, {}),
    }
    assignment = assign(GroupSpec(members, {ONE: 5}, is_homogeneous=True))
    assert sorted(members, key=lambda name: min(assignment[name][ONE])) == [
        "y",
        "x",
        "a",
        "\U0001f600",
        "\ue000",
    ]


def test_nobody_gets_nothing() -> None:
    """A group without members gets an empty assignment."""
    assert assign(GroupSpec({}, {}, is_homogeneous=True)) == {}
