"""Server-side assignors: who chooses the assignor, when a choice applies, and the assignments.

With `uniform` the assignment is random, so only counts are recorded.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.conformance.consumer_members import (
    ConsumerMember,
    balance,
    look,
    members,
    settle,
    silently,
    stable,
)
from tests.conformance.stage import Area, Stage

AREA = Area("consumer_assignors", "d")

VOTES: dict[str, list[str | None]] = {
    "nobody": [None, None, None],
    "one for range": ["range", None, None],
    "one for uniform": ["uniform", None, None],
    "two against one": ["range", "uniform", "range"],
    "one against two": ["uniform", "range", "uniform"],
    "all for range": ["range", "range", "range"],
}


@AREA.each(votes=list(VOTES))
def votes(t: Stage, votes: str) -> None:
    """Which assignor serves three members whose choices are: {votes}?"""
    group = [
        ConsumerMember(t, name, [t.t3], assignor=choice)
        for name, choice in zip("ABC", VOTES[votes], strict=True)
    ]
    stable(t, *group)
    used = look_at_assignor(t, "used")
    if used == "range":
        t.rec("shares", {member.name: member.owned[t.t3] for member in group})
    balance(t, *group)


def look_at_assignor(t: Stage, label: str) -> str:
    """Record and return the group's assignor."""
    seen = t.raw("ConsumerGroupDescribe", 1, {"group_ids": [t.g]})["groups"][0]
    name: str = t.rec(label, seen["assignor_name"])
    return name


@AREA.scenario
def choice_of_one_who_leaves(t: Stage) -> None:
    """A member's vote ends when the member leaves."""
    a, b, c = (
        ConsumerMember(t, name, assignor=choice)
        for name, choice in zip("ABC", ["range", "uniform", "uniform"], strict=True)
    )
    for member in (a, b, c):
        silently(t, member.join)
    look_at_assignor(t, "of three")
    b.leave()
    c.leave()
    look_at_assignor(t, "of A alone")
    a.leave()
    look_at_assignor(t, "of nobody")


@AREA.scenario
def choice_changes(t: Stage) -> None:
    """The only member changes its assignor: the change shows at once, without a new epoch."""
    a = ConsumerMember(t, "A", assignor=None).joined()
    look(t)
    a.beat("for range", server_assignor="range")
    look(t)
    a.beat("for uniform", server_assignor="uniform")
    look(t)
    a.beat("says nothing")
    look(t)
    a.join("joins again, without a choice", server_assignor=None)
    look(t)


@AREA.scenario
def new_choice_holds_from_the_next_target_on(t: Stage) -> None:
    """Two members change to `range`: their assignment stays until a topic is added."""
    a, b = members(t, "AB", [t.t3], assignor="uniform")
    stable(t, a, b)
    silently(t, a.beat, server_assignor="range")
    silently(t, b.beat, server_assignor="range")
    settle(t, a, b)
    balance(t, a, b)
    t.rec("epochs", [a.epoch, b.epoch])
    silently(t, a.subscribe, t.t3, t.tx)
    silently(t, b.subscribe, t.t3, t.tx)
    settle(t, a, b)
    look(t)


SUBSCRIPTIONS: dict[str, Sequence[str]] = {
    "the same topic": ["3", "3", "3"],
    "two topics": ["3x", "3x", "3x"],
    "all topics": ["13x", "13x", "13x"],
    "one apiece": ["1", "3", "x"],
    "overlapping": ["13", "3x", "1x"],
    "one has all": ["13x", "3", "x"],
    "one has none": ["3", "3", ""],
    "one partition": ["1", "1", "1"],
}


@AREA.each(subscriptions=list(SUBSCRIPTIONS))
def range_gives(t: Stage, subscriptions: str) -> None:
    """Which partitions does `range` assign to three members with {subscriptions}?"""
    group = _with(t, SUBSCRIPTIONS[subscriptions], "range")
    stable(t, *group)
    look(t)


@AREA.each(subscriptions=list(SUBSCRIPTIONS))
def uniform_gives(t: Stage, subscriptions: str) -> None:
    """How many partitions does `uniform` assign to three members with {subscriptions}?"""
    group = _with(t, SUBSCRIPTIONS[subscriptions], "uniform")
    stable(t, *group)
    balance(t, *group)
    silently(t, group[0].leave)
    settle(t, *group[1:])
    balance(t, *group[1:], label="without A")


def _with(t: Stage, subscriptions: Sequence[str], assignor: str) -> list[ConsumerMember]:
    names = {"1": t.t1, "3": t.t3, "x": t.tx}
    return [
        ConsumerMember(t, name, [names[one] for one in topics], assignor=assignor)
        for name, topics in zip("ABC", subscriptions, strict=True)
    ]


@AREA.each(order=["ABC", "CBA", "BCA"])
def range_does_not_mind_the_order(t: Stage, order: str) -> None:
    """Members join in the order {order}: `range` sorts them by id."""
    group = {member.name: member for member in members(t, "ABC", [t.t3, t.tx])}
    for name in order:
        silently(t, group[name].join)
    settle(t, *group.values())
    look(t)


@AREA.scenario
def range_by_instance_ids(t: Stage) -> None:
    """`range` sorts static members by instance id, which here reverses the order of member ids."""
    a = ConsumerMember(t, "A", [t.t3], instance_id="i-2")
    b = ConsumerMember(t, "B", [t.t3], instance_id="i-1")
    c = ConsumerMember(t, "C", [t.t3], instance_id="i-0")
    stable(t, a, b, c)
    look(t)


@AREA.scenario
def range_keeps_topics_of_equal_members_together(t: Stage) -> None:
    """`range` assigns the same partition numbers of equally sized topics to the same member."""
    for suffix in ("one", "two"):
        t.topic(4, suffix)
    t.coordinator_learns()
    a, b, c = members(t, "ABC", [f"{t.g}-one", f"{t.g}-two"])
    stable(t, a, b, c)
    look(t)
    c.leave()
    settle(t, a, b)
    look(t)


@AREA.scenario
def racks_do_not_count(t: Stage) -> None:
    """Racks without partitions of the topics do not change the assignment."""
    a = ConsumerMember(t, "A", [t.t3], rack_id="r1")
    b = ConsumerMember(t, "B", [t.t3], rack_id="r2")
    stable(t, a, b)
    look(t)
    a.beat("moves to another rack", rack_id="r2")
    b.beat()
    look(t)
