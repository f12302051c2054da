"""Static members of consumer groups: temporary leaves, returns, and mixed-up ids."""

from __future__ import annotations

from typing import Any

from tests.conformance.consumer_members import (
    ConsumerMember,
    listed,
    look,
    look_closely,
    members,
    settle,
    silently,
    stable,
    statics,
)
from tests.conformance.stage import Area, Stage

AREA = Area("consumer_statics", "d")


@AREA.scenario
def away_and_back_under_the_same_id(t: Stage) -> None:
    """Member A leaves temporarily and returns under its own id, with its epoch and partitions."""
    a, b = statics(t, "AB")
    stable(t, a, b)
    a.leave_for_a_while()
    look(t)
    listed(t)
    b.beat("nothing for B")
    a.join("comes back")
    look(t)
    b.beat("still nothing")


@AREA.scenario
def away_and_back_under_another_id(t: Stage) -> None:
    """Member A leaves temporarily and returns under another id; the old id is unknown."""
    a, b = statics(t, "AB")
    stable(t, a, b)
    a.leave_for_a_while()
    x = a.again("X")
    x.join("comes back")
    look(t)
    a.beat("the old one")
    a.leave("the old one leaves")
    x.ack()
    b.beat()
    look(t)
    look_closely(t)


@AREA.each(request=["beat", "full", "leave", "away again", "join of a stranger"])
def while_away(t: Stage, request: str) -> None:
    """Member A has left temporarily; this request is sent with its id: {request}."""
    a, b = statics(t, "AB")
    stable(t, a, b)
    a.leave_for_a_while()
    if request == "beat":
        a.beat()
        a.beat("beats with -3", member_epoch=-3)
    elif request == "full":
        a.full()
    elif request == "leave":
        a.leave()
    elif request == "away again":
        a.leave_for_a_while("goes away again")
    else:
        ConsumerMember(t, "X", instance_id="i-other").join()
    look(t)
    b.beat()
    b.ack()
    look(t)


RETURNS: dict[str, dict[str, Any]] = {
    "other topics": {"topics": ["<t1>"]},
    "more topics": {"topics": ["<t3>", "<t1>"]},
    "no topics": {"topics": []},
    "another assignor": {"assignor": "uniform"},
    "no assignor": {"assignor": None},
    "another rebalance timeout": {"rebalance_timeout_ms": 1234},
    "a rack": {"rack_id": "r1"},
}


@AREA.each(change=list(RETURNS), name=["same", "other"])
def comes_back_with(t: Stage, change: str, name: str) -> None:
    """Member A returns with {change}, under the {name} id."""
    a, b = statics(t, "AB")
    stable(t, a, b)
    a.leave_for_a_while()
    options = dict(RETURNS[change])
    if "topics" in options:
        known = {"<t1>": t.t1, "<t3>": t.t3}
        options["topics"] = [known[topic] for topic in options["topics"]]
    x = a.again("A" if name == "same" else "X", **options)
    x.join("comes back")
    look(t)
    x.ack()
    b.ack()
    x.ack()
    b.ack()
    look(t)
    look_closely(t)


@AREA.scenario
def unreleased(t: Stage) -> None:
    """A newcomer with A's instance id is refused until A has left temporarily."""
    (a,) = statics(t, "A")
    a.join()
    x = a.again("X")
    x.join()
    x.beat("beats with A's epoch", member_epoch=a.epoch)
    x.leave()
    x.leave_for_a_while()
    a.beat()
    a.leave_for_a_while()
    x.join("joins again")
    a.join("the old one joins")
    look(t)


@AREA.scenario
def fenced_by_the_new_one(t: Stage) -> None:
    """Member X has replaced A: all further requests of A are refused."""
    (a,) = statics(t, "A")
    a.join()
    a.leave_for_a_while()
    x = a.again("X")
    x.join()
    a.beat()
    a.full()
    a.beat("without its instance", instance_id=None)
    a.leave()
    a.leave_for_a_while()
    a.join("joins")
    x.beat()
    look(t)


@AREA.each(instance=["none", "another", "unknown"])
def beats_with_instance(t: Stage, instance: str) -> None:
    """Member A sends heartbeats and leaves with a wrong instance id: {instance}."""
    a, b = statics(t, "AB")
    stable(t, a, b)
    instance_id = {"none": None, "another": "i-B", "unknown": "i-Z"}[instance]
    a.beat("beats", instance_id=instance_id)
    a.full("says everything", instance_id=instance_id)
    look_closely(t)
    a.leave_for_a_while("leaves for a while", instance_id=instance_id)
    a.leave("leaves", instance_id=instance_id)
    look(t)


@AREA.each(instance=["none", "unknown"])
def joins_again_with_instance(t: Stage, instance: str) -> None:
    """Member A joins again with epoch 0 and another instance id: {instance}."""
    a, b = statics(t, "AB")
    stable(t, a, b)
    instance_id = {"none": None, "unknown": "i-Z"}[instance]
    a.join("joins again", instance_id=instance_id)
    look(t)
    look_closely(t)
    a.beat()
    ConsumerMember(t, "X", instance_id="i-A").join("joins with A's instance")
    look(t)


@AREA.scenario
def dynamic_member_becomes_static(t: Stage) -> None:
    """A dynamic member joins again with an instance id."""
    a = ConsumerMember(t, "A").joined()
    a.join("joins as i-A", instance_id="i-A")
    look(t)
    look_closely(t)
    a.beat("beats without")
    a.beat("beats as i-A", instance_id="i-A")
    ConsumerMember(t, "X", instance_id="i-A").join()
    a.leave_for_a_while(instance_id="i-A")
    look(t)


@AREA.scenario
def last_one_is_away(t: Stage) -> None:
    """The only member has left temporarily: the group is not empty."""
    (a,) = statics(t, "A")
    a.join()
    a.leave_for_a_while()
    look(t)
    listed(t)
    t.delete_groups()
    t.delete_offsets((t.t3, 0))
    t.commit([(t.t3, 0, 1)], 9)
    t.commit([(t.t3, 0, 1)], 9, gen=-2, member=a.id, inst="i-A", label="commit with -2")
    t.commit([(t.t3, 0, 1)], 9, gen=a.epoch, member=a.id, inst="i-A", label="commit of A")
    a.leave("leaves for good")
    look(t)


@AREA.scenario
def all_are_away(t: Stage) -> None:
    """Both members have left temporarily; one returns."""
    a, b = statics(t, "AB")
    stable(t, a, b)
    a.leave_for_a_while()
    b.leave_for_a_while()
    look(t)
    x = b.again("X")
    x.join("comes back")
    look(t)
    a.join("comes back")
    look(t)


@AREA.scenario
def newcomer_while_one_is_away(t: Stage) -> None:
    """Member C joins while A is away: A's partitions are free once A returns or expires."""
    a, b = statics(t, "AB")
    stable(t, a, b)
    a.leave_for_a_while()
    c = ConsumerMember(t, "C")
    c.join()
    look(t)
    b.ack()
    b.ack()
    c.beat()
    look(t)
    x = a.again("X")
    x.join("comes back")
    look(t)
    x.ack()
    b.ack()
    c.ack()
    look(t)


@AREA.scenario
def target_gives_away_what_one_who_is_away_has(t: Stage) -> None:
    """Member B is away; the target gives B's partition to A, which gets it when B returns."""
    (b,) = statics(t, "B")
    stable(t, b)
    b.leave_for_a_while()
    a = ConsumerMember(t, "A", instance_id="i-A")
    a.join()
    look(t)
    a.beat("waits")
    b.join("comes back")
    look(t)
    a.beat("is given its share")
    look(t)


@AREA.scenario
def other_member_leaves_while_one_is_away(t: Stage) -> None:
    """Member B leaves for good while A is away: A gets all partitions when A returns."""
    a, b = statics(t, "AB")
    stable(t, a, b)
    a.leave_for_a_while()
    b.leave()
    look(t)
    x = a.again("X")
    x.join("comes back")
    look(t)
    x.ack()
    look(t)


@AREA.each(owed=["by A", "to A"])
def goes_away_while_reconciling(t: Stage, owed: str) -> None:
    """Member A leaves temporarily before a partition is handed over {owed}."""
    a, b = statics(t, "AB")
    first, second = (a, b) if owed == "by A" else (b, a)
    stable(t, first)
    silently(t, second.join)
    first.beat("learns of it")
    a.leave_for_a_while()
    look(t)
    b.ack()
    look(t)
    x = a.again("X")
    x.join("comes back")
    look(t)
    b.ack()
    x.ack()
    b.ack()
    look(t)


@AREA.each(who=["static", "dynamic"])
def leaves_for_good(t: Stage, who: str) -> None:
    """A static member leaves with -1, and a {who} member with the same id joins."""
    a, b = statics(t, "AB")
    stable(t, a, b)
    a.leave()
    look(t)
    x = ConsumerMember(t, "A", instance_id="i-A" if who == "static" else None)
    x.join()
    look(t)
    b.ack()
    x.ack()
    b.ack()
    look(t)


@AREA.scenario
def same_id_with_two_instances(t: Stage) -> None:
    """Another static member joins with A's member id."""
    a, b = statics(t, "AB")
    stable(t, a, b)
    x = ConsumerMember(t, "A", instance_id="i-X")
    x.join("joins as i-X under A's id")
    look_closely(t)
    a.beat("beats as i-A")
    look(t)


@AREA.scenario
def two_static_members_swap(t: Stage) -> None:
    """Members A and B leave temporarily and return with each other's member ids."""
    a, b = statics(t, "AB")
    stable(t, a, b)
    a.leave_for_a_while()
    b.leave_for_a_while()
    x = ConsumerMember(t, "A", instance_id="i-B")
    x.join("comes as i-B under A's id")
    look(t)
    y = ConsumerMember(t, "B", instance_id="i-A")
    y.join("comes as i-A under B's id")
    look(t)
    look_closely(t)


@AREA.scenario
def away_twice_and_offsets(t: Stage) -> None:
    """What do commits and fetches return for a member that returned under another id?"""
    (a,) = statics(t, "A")
    a.join()
    t.commit([(t.t3, 0, 1)], 9, gen=a.epoch, member=a.id, inst="i-A", label="commit of A")
    a.leave_for_a_while()
    x = a.again("X")
    x.join()
    t.commit([(t.t3, 0, 2)], 9, gen=a.epoch, member=a.id, inst="i-A", label="commit of the old A")
    t.commit([(t.t3, 0, 3)], 9, gen=x.epoch, member=x.id, inst="i-A", label="commit of X")
    t.commit([(t.t3, 0, 4)], 9, gen=x.epoch, member=x.id, inst="i-Z", label="other instance")
    t.commit([(t.t3, 0, 5)], 9, gen=x.epoch, member=x.id, label="no instance")
    t.commit([(t.t3, 0, 6)], 9, gen=1, member=x.id, inst="i-A", label="older epoch")
    t.offs()


@AREA.scenario
def static_beside_dynamic(t: Stage) -> None:
    """A static member beside a dynamic one leaves temporarily and returns, twice."""
    (a,) = statics(t, "A")
    (b,) = members(t, "B")
    stable(t, a, b)
    look(t)
    for name in "XY":
        a.leave_for_a_while()
        a = a.again(name)
        a.join("comes back")
        b.beat()
    settle(t, a, b)
    look(t)
