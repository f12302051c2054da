"""Rebalance records of streams groups: tasks instead of partitions, and settings."""

from __future__ import annotations

from tests.harness.topologies import subtopology, topology
from tests.unit.core.groups.modern.told import stories
from tests.unit.core.groups.streams.context import (
    StreamsContext,
)


def test_release() -> None:
    """A new member waits for tasks of another process."""
    context = StreamsContext()
    first, second = context.member("a"), context.member("b")
    context.joined(first)
    context.broker.explained.clear()
    second.join()
    context.broker.advance(5)
    context.reconcile(first, second)
    assert stories(context.broker) == [
        [
            "epoch 3: b on /127.0.0.1 joined; 2 of 2 members had the new assignment after 5 ms; "
            "1 of 3 tasks moved",
            "last to get there: a after 5 ms, b after 5 ms",
            "a was giving tasks up for 0 ms",
            "b waited 5 ms for a to release 0 2",
            "waited: reconciliation 5 ms",
            "a: 0 0-2 -> 0 0-1",
            "b: new -> 0 2",
        ]
    ]


def test_first_assignment() -> None:
    """All members that join in the initial delay share one rebalance record."""
    context = StreamsContext(streams_initial_rebalance_delay_ms=3000)
    first, second = context.member("a"), context.member("b")
    first.join()
    second.join()
    context.broker.advance(3000)
    context.reconcile(first, second)
    ((line, *lines),) = stories(context.broker)
    assert line.startswith("epoch 3: a on /127.0.0.1 joined; 2 of 2 members had the new assignment")
    assert lines[0] == "after 0 ms: b on /127.0.0.1 joined"
    assert "waited: assignment 3 000 ms" in lines


def test_settings() -> None:
    """The rebalance record names changed assignor settings and changed topics as the cause."""
    context = StreamsContext()
    first = context.member("a")
    context.joined(first)
    context.broker.explained.clear()
    context.broker.configs["streams.num.standby.replicas"] = "1"
    first.own()
    context.change_topics(three=4)
    first.own()
    assert [line.split(";")[0] for line, *_ in stories(context.broker)] == [
        "epoch 3: the settings of the assignor have changed",
        "epoch 4: the topics that the group reads have changed",
    ]


def test_member_changes() -> None:
    """A member that changes any of its fields raises the epoch."""
    context = StreamsContext()
    first = context.member("a")
    context.joined(first)
    context.broker.explained.clear()
    first.own(rack_id="r")
    ((line, *_),) = stories(context.broker)
    assert line.startswith("epoch 3: client on /127.0.0.1 changed its metadata; 1 of 1 member")


def test_member_gone() -> None:
    """The rebalance record says that a session expired, or that a member was fenced."""
    context = StreamsContext()
    first, second = context.member("a"), context.member("b")
    context.joined(first)
    context.broker.explained.clear()
    second.join()
    first.beat()
    for _ in range(30):
        context.broker.advance(1_000)
        first.beat()
    second.own()
    context.broker.advance(45_000)
    context.broker.delete()
    lines = [line for line, *_ in stories(context.broker)]
    assert "a on /127.0.0.1 did not give its tasks up within 30 000 ms" in lines[1]
    assert lines[-2].endswith("nobody is left; 3 tasks revoked")
    assert "missed its session timeout of 45 000 ms" in lines[-2]
    assert lines[-1].endswith("the group was deleted")


def test_loaded() -> None:
    """The rebalance record continues after a restart."""
    context = StreamsContext()
    context.joined(context.member("a", topology(subtopology("0", "three"))))
    context.broker.crash()
    assert stories(context.broker)[-1] == [
        "epoch 2: the coordinator loaded the group; 1 member as before"
    ]
    context.broker.unload()
    assert stories(context.broker) == []
