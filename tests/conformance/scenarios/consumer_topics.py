"""Topics that are created, deleted and given partitions while members are subscribed to them."""

from __future__ import annotations

from tests.conformance.consumer_members import (
    ConsumerMember,
    listed,
    look,
    look_closely,
    members,
    reach,
    settle,
    silently,
    stable,
)
from tests.conformance.stage import Area, Stage

AREA = Area("consumer_topics", "d")


def name_of(t: Stage, suffix: str) -> str:
    """Return the name that `t.topic` gives to a topic of the scenario."""
    name = f"{t.g}-{suffix}"
    t.name_it(name, f"<{suffix}>")
    return name


@AREA.each(beside=["alone", "beside another topic"])
def created_later(t: Stage, beside: str) -> None:
    """A subscribes to a topic that is created later ({beside})."""
    more = [] if beside == "alone" else [t.t1]
    a = ConsumerMember(t, "A", [name_of(t, "new"), *more])
    a.join()
    a.beat()
    t.topic(2, "new")
    t.coordinator_learns()
    look(t, "before A beats")
    a.beat()
    look(t)
    a.ack()
    look(t)


@AREA.scenario
def created_that_nobody_wants(t: Stage) -> None:
    """A topic without subscribers is created, and nothing changes."""
    a = ConsumerMember(t, "A").joined()
    t.topic(2, "new")
    t.coordinator_learns()
    a.beat()
    look(t)


@AREA.each(beside=["alone", "beside another topic"])
def deleted(t: Stage, beside: str) -> None:
    """Member A's topic is deleted ({beside}), and A must revoke its partitions."""
    more = [] if beside == "alone" else [t.t1]
    topic = t.topic(2, "gone")
    t.coordinator_learns()
    a = ConsumerMember(t, "A", [topic, *more]).joined()
    look(t)
    t.delete_topic(topic)
    t.coordinator_learns()
    look(t, "before A beats")
    a.beat()
    look(t)
    a.ack()
    a.beat()
    look(t)
    look_closely(t)


@AREA.scenario
def deleted_of_two_members(t: Stage) -> None:
    """The topic of two members is deleted, and each revokes its partitions."""
    topic = t.topic(2, "gone")
    t.coordinator_learns()
    a, b = members(t, "AB", [topic, t.tx])
    stable(t, a, b)
    look(t)
    t.delete_topic(topic)
    t.coordinator_learns()
    b.beat()
    look(t)
    a.beat()
    look(t)
    a.ack()
    b.ack()
    look(t)


@AREA.scenario
def deleted_while_it_is_revoked(t: Stage) -> None:
    """A topic is deleted while A must revoke one of its partitions for B."""
    topic = t.topic(2, "gone")
    t.coordinator_learns()
    a, b = members(t, "AB", [topic])
    stable(t, a)
    silently(t, b.join)
    a.beat("is asked to revoke")
    t.delete_topic(topic)
    t.coordinator_learns()
    b.beat()
    look(t)
    a.beat()
    look(t)
    a.ack()
    a.beat()
    b.beat()
    look(t)


@AREA.scenario
def made_anew_under_the_same_name(t: Stage) -> None:
    """Before A's heartbeat, the topic is deleted and recreated with another id."""
    topic = t.topic(2, "same")
    t.coordinator_learns()
    a = ConsumerMember(t, "A", [topic]).joined()
    look(t)
    old = t.own_topics[topic]
    t.delete_topic(topic)
    t.topic(2, "same")
    t.own_topics["<the old one>"] = old
    t.coordinator_learns()
    look(t, "before A beats")
    a.beat()
    look(t)
    a.ack()
    a.ack()
    look(t)


@AREA.scenario
def grows(t: Stage) -> None:
    """A topic gets more partitions, and A's next heartbeat returns them."""
    topic = t.topic(1, "grows")
    t.coordinator_learns()
    a = ConsumerMember(t, "A", [topic]).joined()
    t.grow_topic(topic, 3)
    look(t, "before A beats")
    a.beat()
    look(t)
    a.ack()
    look(t)


@AREA.scenario
def grows_with_two_members(t: Stage) -> None:
    """The topic of two members gets more partitions; B sends the next heartbeat."""
    topic = t.topic(2, "grows")
    t.coordinator_learns()
    a, b = members(t, "AB", [topic])
    stable(t, a, b)
    look(t)
    t.grow_topic(topic, 4)
    b.beat()
    look(t)
    a.beat()
    look(t)
    b.beat()
    a.ack()
    b.beat()
    look(t)


@AREA.each(state=["Reconciling", "Assigning", "Empty"])
def grows_in(t: Stage, state: str) -> None:
    """A topic gets more partitions while its group is {state}."""
    topic = t.topic(2, "grows")
    t.coordinator_learns()
    a, b = members(t, "AB", [topic])
    reach(t, state, a, b)
    t.grow_topic(topic, 3)
    look(t)
    listed(t)
    if state == "Empty":
        a.join()
    else:
        a.beat()
    look(t)


@AREA.scenario
def grows_for_one_who_is_not_subscribed(t: Stage) -> None:
    """Both of two members get a new epoch when only one member's topic gets partitions."""
    topic = t.topic(1, "grows")
    t.coordinator_learns()
    a, b = ConsumerMember(t, "A", [topic]), ConsumerMember(t, "B", [t.tx])
    stable(t, a, b)
    look(t)
    t.grow_topic(topic, 2)
    b.beat()
    look(t)
    a.beat()
    look(t)


@AREA.scenario
def grows_after_it_was_left(t: Stage) -> None:
    """A topic without subscribers gets more partitions."""
    topic = t.topic(1, "grows")
    t.coordinator_learns()
    a = ConsumerMember(t, "A", [topic, t.t1]).joined()
    a.subscribe(t.t1)
    settle(t, a)
    look(t)
    t.grow_topic(topic, 2)
    a.beat()
    look(t)


@AREA.scenario
def created_and_subscribed_in_two_groups(t: Stage) -> None:
    """Two groups wait for the same topic, and each learns of it by its own member's heartbeat."""
    name, other = name_of(t, "new"), t.group("other")
    a = ConsumerMember(t, "A", [name]).joined()
    b = ConsumerMember(t, "B", [name], group=other).joined()
    t.topic(1, "new")
    t.coordinator_learns()
    a.beat()
    look(t)
    look(t, "other group", other)
    b.beat()
    look(t, "other group", other)


@AREA.each(topics=["offsets topic", "unknown", "many"])
def subscribed_to(t: Stage, topics: str) -> None:
    """How many partitions does a member with {topics} get?"""
    names = {
        "offsets topic": ["__consumer_offsets"],
        "unknown": [f"no-such-{number}" for number in range(50)],
        "many": [t.t1, t.t3, t.tx, *(f"no-such-{number}" for number in range(50))],
    }[topics]
    a = ConsumerMember(t, "A", names)
    silently(t, a.join)
    settle(t, a)
    t.rec("A", [a.epoch, a.count])
