"""Rebalance records of consumer groups: why the epoch rose, and how members reconciled."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_server.core.groups.explain import Trigger
from protocol.consumer_group_records import ConsumerGroupCurrentMemberAssignmentKey
from protocol.offsets_log import decode_key
from tests.unit.core.groups.consumer.context import ConsumerContext, ConsumerMember
from tests.unit.core.groups.consumer.migration import THREE, MigrationContext
from tests.unit.core.groups.modern.told import records, stories


def stable(*names: str, **settings: Any) -> tuple[ConsumerContext, list[ConsumerMember]]:
    """Return a stable group whose members subscribe to topic `six`, and forget its records."""
    context = ConsumerContext(**settings)
    members = [context.member(name, "six") for name in names]
    context.joined(*members)
    context.broker.explained.clear()
    return context, members


def test_first_member() -> None:
    """The first member of a new group gets all partitions at once."""
    context = ConsumerContext()
    context.joined(context.member("a", "six"))
    assert stories(context.broker) == [
        [
            "epoch 2: client on /127.0.0.1 joined; 1 of 1 member had the new assignment after "
            "0 ms; 6 partitions added",
            "client: new -> six 0-5",
        ]
    ]


def test_release() -> None:
    """A new member waits for a revocation; the rebalance record names the owner and the delay."""
    context, (first,) = stable("a")
    second = context.member("b", "six")
    context.broker.advance(100)
    second.join()
    context.broker.advance(200)
    first.beat()
    context.broker.advance(300)
    first.own({"six": [0, 1, 2]})
    context.broker.advance(400)
    assert stories(context.broker) == []
    second.own()
    assert stories(context.broker) == [
        [
            "epoch 3: b on /127.0.0.1 joined; 2 of 2 members had the new assignment after 900 ms; "
            "3 of 6 partitions moved",
            "last to get there: b after 900 ms, a after 500 ms",
            "a was giving partitions up for 300 ms",
            "b waited 900 ms for a to release six 3-5",
            "waited: reconciliation 900 ms",
            "a: six 0-5 -> six 0-2",
            "b: new -> six 3-5",
        ]
    ]


def test_revocation_that_times_out() -> None:
    """A member that does not revoke is fenced; the rebalance record has delay and removal."""
    context, (first,) = stable("a", consumer_session_timeout_ms=100_000)
    second = context.member("b", "six")
    second.join()
    first.beat()
    context.broker.advance(30_000)
    second.own()
    assert stories(context.broker) == [
        [
            "epoch 3: b on /127.0.0.1 joined; 0 of 2 members had the new assignment after "
            "30 000 ms, then it began anew; 6 partitions stayed",
            "a was giving partitions up for 30 000 ms",
            "b waited 30 000 ms for a to release six 3-5",
            "waited: reconciliation 30 000 ms",
            "a: six 0-5 (not there yet)",
            "b: new -> nothing",
        ],
        [
            "epoch 4: a on /127.0.0.1 did not give its partitions up within 30 000 ms; "
            "1 of 1 member had the new assignment after 0 ms; 6 partitions moved",
            "b waited 30 000 ms for a to release six 3-5",
            "a: six 0-5 -> gone",
            "b: nothing -> six 0-5",
        ],
    ]


def test_epochs_that_rise_before_there_is_a_target() -> None:
    """Members that join within one assignment interval share one rebalance record."""
    context, (first,) = stable("a", consumer_assignment_interval_ms=1000)
    second, third = context.member("b", "six"), context.member("c", "six")
    second.join()
    context.broker.advance(10)
    third.join()
    context.broker.advance(990)
    context.reconcile(first, second, third)
    (record,) = records(context.broker)
    assert (record["generation_before"], record["generation"]) == (2, 4)
    assert record["group_type"] == "consumer"
    assert record["also"][0]["culprit"]["member"] == "c"
    assert record["also"][0]["after_ms"] == 10
    assert (record["assign_ms"], record["reconcile_ms"]) == (1000, 0)
    assert (record["members_before"], record["members_joined"], record["members_after"]) == (
        1,
        2,
        3,
    )


@pytest.mark.parametrize(
    ("silent_ms", "said"),
    [
        (45_000, "b on /127.0.0.1 missed its session timeout of 45 000 ms"),
        (0, "b on /127.0.0.1 left"),
    ],
)
def test_member_gone(silent_ms: int, said: str) -> None:
    """The rebalance record names a member that left, or whose session expired."""
    context, (first, second) = stable("a", "b")
    if silent_ms:
        context.broker.advance(44_000)
        first.own()
        context.broker.advance(1_000)
    else:
        second.leave()
    first.own()
    ((line, *_),) = stories(context.broker)
    assert line.startswith(f"epoch 4: {said}; 1 of 1 member had")


def test_nobody_left() -> None:
    """The rebalance record says that the last member left."""
    context, (first,) = stable("a")
    first.leave()
    assert stories(context.broker) == [
        [
            "epoch 3: client on /127.0.0.1 left; nobody is left; 6 partitions revoked",
            "client: six 0-5 -> gone",
        ]
    ]


def test_subscription() -> None:
    """The rebalance record has a changed subscription, by names or by pattern."""
    context, (first,) = stable("a")
    first.beat(subscribed_topic_names=["six", "two"])
    first.beat(subscribed_topic_regex="o.*")
    context.broker.advance(1)
    first.own()
    first.own()
    lines = [line for line, *_ in stories(context.broker)]
    assert [line.split(";")[0] for line in lines] == [
        "epoch 3: client on /127.0.0.1 changed its subscription (+two)",
        "epoch 4: the topics that the group reads have changed",
    ]


def test_topics() -> None:
    """The rebalance record names a subscribed topic that got more partitions."""
    context, (first,) = stable("a")
    context.change_topics(six=7)
    first.beat()
    ((line, *_),) = stories(context.broker)
    assert line.startswith("epoch 3: the topics that the group reads have changed; 1 of 1 member")
    assert line.endswith("1 of 7 partitions added")


def test_static_member() -> None:
    """The return of a static member is recorded, although the epoch does not rise."""
    context = ConsumerContext()
    first = context.member("a", "six", instance_id="i")
    context.joined(first)
    context.broker.explained.clear()
    first.leave(-2)
    assert stories(context.broker) == []
    again = context.member("b", "six", instance_id="i")
    again.join()
    ((line, *_),) = stories(context.broker)
    assert line == (
        "epoch 2: static member i on /127.0.0.1 came back under a new member id; "
        "1 of 1 member had the new assignment after 0 ms; 6 partitions stayed"
    )


def test_static_member_away() -> None:
    """While a static member is away, the rebalance record stays open until the member returns."""
    context = ConsumerContext()
    first = context.member("a", "six", instance_id="i")
    context.joined(first)
    second = context.member("b", "six")
    context.broker.explained.clear()
    second.join()
    first.own({"six": [0, 1, 2]})
    first.leave(-2)
    second.own()
    assert stories(context.broker) == []
    context.member("c", "six", instance_id="i").join()
    assert [line.split(",")[0].split(";")[0] for line, *_ in stories(context.broker)] == [
        "epoch 3: b on /127.0.0.1 joined",
        "epoch 3: static member i on /127.0.0.1 came back under a new member id",
    ]


def test_loaded_and_unloaded() -> None:
    """The rebalance record continues when another broker loads the group."""
    context, (first,) = stable("a")
    context.broker.crash()
    assert stories(context.broker) == [
        ["epoch 2: the coordinator loaded the group; 1 member as before"]
    ]
    second = context.member("b", "six")
    second.join()
    first.beat()
    context.broker.unload()
    ((line, *_),) = stories(context.broker)
    assert "then the coordinator let go of the group" in line
    context.broker.load()
    assert stories(context.broker) == []
    first.own({"six": [0, 1, 2]})
    second.own()
    ((line, *lines),) = stories(context.broker)
    assert line == "epoch 3: the coordinator loaded the group; 2 members as before"
    assert "b waited 0 ms for a to release six 3-5" in lines


def test_loaded_without_assignment() -> None:
    """Loading is recorded even if the log has no assignments, but not for an empty group."""
    context, (first,) = stable("a")
    broker = context.broker
    current = ConsumerGroupCurrentMemberAssignmentKey
    broker.log = [one for one in broker.log if not isinstance(decode_key(one[0]), current)]
    broker.crash()
    assert stories(broker) == []
    first.leave()
    assert [line for line, *_ in stories(broker)] == [
        "epoch 2: the coordinator loaded the group; 1 member as before",
        "epoch 3: client on /127.0.0.1 left; nobody is left",
    ]
    broker.crash()
    assert stories(broker) == []


def test_deleted() -> None:
    """Deleting or converting a group ends its rebalance record."""
    context, (first,) = stable("a")
    first.leave()
    context.broker.explained.clear()
    context.broker.delete()
    assert stories(context.broker) == [["epoch 3: the group was deleted"]]


def test_classic_group_in_its_place() -> None:
    """A classic join to an empty group is not recorded by the consumer group."""
    context, (first,) = stable("a")
    first.leave()
    context.broker.explained.clear()
    context.classic("c").join()
    assert [record["group_type"] for record in records(context.broker)] == []


def test_member_goes_before_there_is_a_target() -> None:
    """A revoking member may leave before the next target; the rebalance record has its delay."""
    context, (first,) = stable("a")
    context.broker.advance(1)
    second, third = context.member("b", "six"), context.member("c", "six")
    second.join()
    first.beat()
    context.broker.configs["consumer.assignment.interval.ms"] = "1000"
    third.join()
    context.broker.advance(500)
    first.leave()
    context.broker.advance(500)
    context.reconcile(second, third)
    _, record = records(context.broker)
    assert [one["trigger"] for one in (record, *record["also"])] == ["member joined", "member left"]
    assert [(one["member"], one["revoking_ms"]) for one in record["delays"]] == [
        ("a", 500),
        ("b", None),
    ]


def test_upgrade() -> None:
    """The record of an upgrade shows the partitions that the classic members had before."""
    context = MigrationContext()
    (old,) = context.stable({"m": THREE})
    context.broker.explained.clear()
    old.join()
    context.member("a", "three").join()
    overtaken, *after = records(context.broker)
    assert (overtaken["group_type"], overtaken["outcome"]) == ("classic", "superseded")
    assert after == []
    context.broker.unload()
    ((line, *lines),) = stories(context.broker)
    assert line.startswith("epoch 3: client on /127.0.0.1 was the first to speak the consumer prot")
    assert "m: three 0-2 (not there yet)" in lines


def test_downgrade() -> None:
    """A downgrade ends the consumer group's record and starts the classic group's."""
    context = MigrationContext()
    _, new = context.mixed()
    context.broker.explained.clear()
    new.beat(subscribed_topic_names=["three", "six"])
    new.leave()
    (change,) = records(context.broker)
    assert (change["group_type"], change["outcome"]) == ("consumer", "superseded")
    assert context.classic_group.rebalance is not None
    assert context.classic_group.rebalance.cause.trigger is Trigger.GROUP_DOWNGRADED


def test_classic_member_leaves() -> None:
    """The rebalance record has the reason that a leaving classic member gave."""
    context = MigrationContext()
    old, new = context.mixed()
    context.broker.explained.clear()
    old.leave(reason="done")
    new.own()
    ((line, *_),) = stories(context.broker)
    assert line.startswith('epoch 3: M on /127.0.0.1 left (reason: "done"); 1 of 1 member')


def test_classic_member_stalls() -> None:
    """The rebalance record names a classic member that did not rejoin."""
    context = MigrationContext()
    old, new = context.mixed()
    context.broker.explained.clear()
    new.beat(subscribed_topic_names=["three", "six"])
    old.heartbeat()
    for _ in range(40):
        context.broker.advance(1_000)
        new.own()
        old.heartbeat()
    lines = [line for line, *_ in stories(context.broker)]
    assert "M on /127.0.0.1 did not rejoin within" in lines[-1]
