"""Rebalance records of share groups: members share partitions and never wait for each other."""

from __future__ import annotations

from tests.unit.core.groups.modern.told import records, stories
from tests.unit.core.groups.share.context import ShareContext


def test_members_come_and_go() -> None:
    """A share group's rebalance is complete when all members have sent a heartbeat."""
    context = ShareContext()
    first, second = context.member("a", "three"), context.member("b", "three")
    context.joined(first)
    context.joined(second)
    first.beat()
    context.broker.explained.clear()
    second.leave()
    context.broker.advance(5)
    first.beat()
    context.broker.advance(45_000)
    found = records(context.broker)
    assert [(one["trigger"], one["outcome"]) for one in found] == [
        ("member left", "stable"),
        ("member expired", "empty"),
    ]
    assert found[0]["group_type"] == "share"
    assert found[0]["delays"] == []
    assert found[1]["timeout_ms"] == 45_000


def test_partitions_that_are_new() -> None:
    """Partitions of a topic are assigned once their state is initialized."""
    context = ShareContext()
    first = context.member("a", "three")
    context.joined(first)
    context.broker.explained.clear()
    context.change_topics(three=5)
    for _ in range(3):
        context.broker.advance(5_000)
        first.beat()
    lines = [line for line, *_ in stories(context.broker)]
    assert "the topics that the group reads have changed" in lines[0]
    assert "added" in lines[-1]


def test_end() -> None:
    """Deleting a share group ends its rebalance record."""
    context = ShareContext()
    first = context.member("a", "three")
    context.joined(first)
    first.leave()
    context.broker.explained.clear()
    context.broker.delete()
    assert [line.split(": ")[1] for line, *_ in stories(context.broker)] == [
        "the group was deleted"
    ]
