"""Topics that come, grow and go while members of consumer groups are subscribed to them."""

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
    """The name that `t.topic` gives to a topic of the scenario."""
    name = f"{t.g}-{suffix}"
    t.name_it(name, f"<{suffix}>")
    return name


@AREA.each(beside=["alone", "beside another topic"])
def created_later(t: Stage, beside: str) -> None:
    """A is subscribed to a topic before there is one ({beside})."""
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
    """A topic is created that nobody is subscribed to: nothing changes."""
    a = ConsumerMember(t, "A").joined()
    t.topic(2, "new")
    t.coordinator_learns()
    a.beat()
    look(t)


@AREA.each(beside=["alone", "beside another topic"])
def deleted(t: Stage, beside: str) -> None:
    """The topic of A is deleted ({beside}): A is asked to give it up."""
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
    """The topic of two members is deleted: each gives up what it had."""
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
    """A owes B a partition of a topic that is deleted then."""
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
    """The topic is deleted and made anew, with another id, before A beats."""
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
    """A topic is given more partitions: A is told with its next heartbeat."""
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
    """A topic of two members is given more partitions: B's heartbeat is the first one after it."""
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
    """A topic grows while its group is {state}."""
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
    """Of two members of different topics, both get a new epoch when the topic of one grows."""
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
    """A topic grows that nobody is subscribed to any more."""
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
    """Two groups wait for the same topic: each is refreshed by its own member's heartbeat."""
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
    """A member of {topics}, and how many partitions it is given."""
    names = {
        "offsets topic": ["__consumer_offsets"],
        "unknown": [f"no-such-{number}" for number in range(50)],
        "many": [t.t1, t.t3, t.tx, *(f"no-such-{number}" for number in range(50))],
    }[topics]
    a = ConsumerMember(t, "A", names)
    silently(t, a.join)
    settle(t, a)
    t.rec("A", [a.epoch, a.count])
