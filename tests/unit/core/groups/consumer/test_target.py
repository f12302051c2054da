"""The target assignment: the choice of the assignor, and its input."""

from __future__ import annotations

from typing import cast

import pytest

from coordinator_server.core.groups.consumer.target import ASSIGNORS, Assignor
from coordinator_server.core.groups.modern.assignor_spec import Assignment, GroupSpec
from coordinator_server.steps import Computation
from protocol.errors import ErrorCode
from tests.unit.core.groups.consumer.context import ConsumerContext


def spy(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, GroupSpec]]:
    """Return a list to which each further call of an assignor is added."""
    calls: list[tuple[str, GroupSpec]] = []
    table = cast("dict[str, Assignor]", ASSIGNORS)
    for name, assignor in [*table.items()]:
        monkeypatch.setitem(table, name, _spied(calls, name, assignor))
    return calls


def _spied(calls: list[tuple[str, GroupSpec]], name: str, assignor: Assignor) -> Assignor:
    def assign(spec: GroupSpec) -> Computation[Assignment]:
        calls.append((name, spec))
        return assignor(spec)

    return assign


def test_the_first_assignor_of_the_broker_is_the_default() -> None:
    """If no member names an assignor, the broker's first assignor is used."""
    context = ConsumerContext(consumer_assignors=("range", "uniform"))
    context.joined(context.member("a", "three"))
    assert context.describe().assignor_name == "range"


@pytest.mark.parametrize(
    ("named", "chosen"),
    [
        (["range", None, None], "range"),
        (["range", "range", "uniform"], "range"),
        (["range", "uniform", "uniform"], "uniform"),
        (["range", "uniform", None], "uniform"),
        (["uniform", "range", None], "uniform"),
    ],
)
def test_the_assignor_that_most_members_name(
    monkeypatch: pytest.MonkeyPatch, named: list[str | None], chosen: str
) -> None:
    """The most named assignor is used; a tie is broken by the order of Kafka's tables."""
    calls = spy(monkeypatch)
    context = ConsumerContext()
    for name, assignor in zip("abc", named, strict=True):
        assert context.member(name, "three", assignor=assignor).join().error is ErrorCode.NONE
    assert calls[-1][0] == chosen
    assert context.describe().assignor_name == chosen


def test_a_static_member_that_comes_back_votes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replaced static member does not vote, and its partitions belong to its successor."""
    calls = spy(monkeypatch)
    context = ConsumerContext()
    a = context.member("a", "three", instance_id="i", assignor="range")
    context.joined(a)
    assert context.member("z", "one", assignor="uniform").join().error is ErrorCode.NONE
    assert a.leave(-2) is ErrorCode.NONE
    b = context.member("b", "three", "one", instance_id="i", assignor="uniform")
    assert b.join().error is ErrorCode.NONE
    name, spec = calls[-1]
    assert name == "uniform"
    assert spec.members.keys() == {"b", "z"}
    assert spec.members["b"].partitions == {context.id_of("three"): {0, 1, 2}}


@pytest.mark.parametrize(
    ("subscriptions", "is_homogeneous"),
    [
        ([(["three"], None), (["three"], None)], True),
        ([(["three"], None), (["three"], "")], True),
        ([(["three"], None), (["one"], None)], False),
        ([(["three"], None), ([], None)], False),
        ([(["three"], None), (["three"], "t.*")], False),
        ([([], "t.*"), ([], "t.*")], True),
        ([([], "t.*"), ([], "th.*")], False),
        ([(["three"], "t.*"), (["three"], "t.*")], False),
        ([([], None), ([], None)], True),
    ],
)
def test_all_members_read_the_same(
    monkeypatch: pytest.MonkeyPatch,
    subscriptions: list[tuple[list[str], str | None]],
    is_homogeneous: bool,
) -> None:
    """A group is homogeneous if all members have the same names, or only the same pattern.

    Assignors have a faster path for homogeneous groups.
    """
    calls = spy(monkeypatch)
    context = ConsumerContext()
    members = [
        context.member(name, *topics, regex=regex)
        for name, (topics, regex) in zip("ab", subscriptions, strict=True)
    ]
    for member in members:
        assert member.join().error is ErrorCode.NONE
    context.broker.advance(10_001)
    context.change_topics(three=4)
    for member in members:
        assert member.beat() is ErrorCode.NONE
    if any(topics or regex for topics, regex in subscriptions):
        assert calls[-1][1].is_homogeneous is is_homogeneous
    context.reconcile(*members)
    context.check()


def test_only_targets_that_change_are_recorded() -> None:
    """Only changed member targets are recorded; the target epoch is always recorded."""
    context = ConsumerContext()
    a, b = context.member("a", "three"), context.member("b", "one")
    context.joined(a)
    context.written()
    assert b.join().error is ErrorCode.NONE
    assert context.written() == ["member b", "epoch 3", "target b", "target epoch 3", "current b 3"]
    context.change_topics(one=2)
    assert a.own() is ErrorCode.NONE
    assert context.written() == ["epoch 4", "target b", "target epoch 4", "current a 4"]
    context.check()


def test_a_member_that_gets_nothing_has_a_target_all_the_same() -> None:
    """The empty target of a member without partitions is recorded once."""
    context = ConsumerContext()
    a, b = context.member("a", "one"), context.member("b", "one")
    assert a.join().error is ErrorCode.NONE
    context.written()
    assert b.join().error is ErrorCode.NONE
    written = context.written()
    assert "target a" in written or "target b" in written
    assert sorted(map(len, context.group.targets.values())) == [0, 1]
    context.check()


def test_topics_that_do_not_exist_have_no_part_in_it() -> None:
    """Nonexistent topics are not assigned; a topic created later is assigned."""
    context = ConsumerContext()
    a = context.member("a", "later")
    context.joined(a)
    assert (a.owned, context.epochs) == ({}, (2, 2))
    context.change_topics(later=2)
    context.reconcile(a)
    assert a.owned == {"later": [0, 1]}
    assert context.epochs == (3, 3)
    context.check()
