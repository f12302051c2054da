"""The assignment interval: a group that waits for its next target assignment is Assigning.

Kafka computes a target at most once per `group.consumer.assignment.interval.ms`, in the first
heartbeat of any member after that. The interval is a group config here.
"""

from __future__ import annotations

from tests.conformance import group_settings
from tests.conformance.consumer_members import (
    ConsumerMember,
    listed,
    look,
    members,
    silently,
    stable,
    statics,
)
from tests.conformance.stage import Area, Stage

AREA = Area("consumer_intervals", "d")

LONG_MS = 15_000
SHORT_MS = 1_000


def wait_long(t: Stage) -> None:
    """Set the interval so long that no further target is computed in the scenario."""
    group_settings.use(t, consumer_assignment_interval_ms=LONG_MS)


def do_not_wait(t: Stage) -> None:
    """Set the interval so that targets are computed at once."""
    group_settings.use(t, consumer_assignment_interval_ms=0)


@AREA.scenario
def first_target_at_once(t: Stage) -> None:
    """A group's first target is computed at once, the second one is not."""
    wait_long(t)
    a, b = members(t, "AB")
    a.join()
    look(t)
    b.join()
    look(t)
    listed(t)
    a.beat()
    b.beat()
    look(t)


@AREA.scenario
def until_the_interval_is_over(t: Stage) -> None:
    """With an interval of one second, the first heartbeat after it computes the target."""
    group_settings.use(t, consumer_assignment_interval_ms=t.ms(SHORT_MS))
    a, b = members(t, "AB")
    silently(t, a.join)
    b.join()
    look(t)
    t.sleep(1.2)
    look(t, "nobody has beaten")
    b.beat()
    look(t)
    a.beat()
    a.ack()
    b.beat()
    look(t)


@AREA.scenario
def interval_is_taken_away(t: Stage) -> None:
    """The config becomes 0, and the next heartbeat computes the target."""
    wait_long(t)
    a, b = members(t, "AB")
    silently(t, a.join)
    silently(t, b.join)
    look(t)
    do_not_wait(t)
    look(t, "nobody has beaten")
    a.beat()
    look(t)


@AREA.scenario
def changes_are_gathered(t: Stage) -> None:
    """Three joins and a leave within the interval raise the epoch each, and give one target."""
    wait_long(t)
    a, b, c, d = members(t, "ABCD")
    a.join()
    b.join()
    c.join()
    d.join()
    c.leave()
    look(t)
    do_not_wait(t)
    d.beat()
    look(t)
    a.ack()
    a.ack()
    b.beat()
    d.beat()
    look(t)


@AREA.each(owned=["unsaid", "nothing", "all"])
def topics_are_given_up(t: Stage, owned: str) -> None:
    """Member A unsubscribes from a topic within the interval and must revoke it; owned: {owned}."""
    wait_long(t)
    a = ConsumerMember(t, "A", [t.t3, t.tx]).joined()
    lists = {"unsaid": None, "nothing": {}, "all": a.owned}
    a.subscribe(t.tx, owned=lists[owned])
    look(t)
    a.ack()
    look(t)
    a.beat()
    do_not_wait(t)
    a.ack()
    look(t)


@AREA.scenario
def topics_are_given_up_and_taken_again(t: Stage) -> None:
    """Within the interval, A unsubscribes from a topic and subscribes again."""
    wait_long(t)
    a = ConsumerMember(t, "A", [t.t3, t.tx]).joined()
    a.subscribe(t.tx)
    a.ack()
    look(t)
    a.subscribe(t.t3, t.tx)
    look(t)
    a.ack()
    look(t)


@AREA.scenario
def topics_are_added(t: Stage) -> None:
    """Within the interval, A subscribes to another topic and must wait."""
    wait_long(t)
    a = ConsumerMember(t, "A", [t.t3]).joined()
    a.subscribe(t.t3, t.tx)
    look(t)
    a.ack()
    do_not_wait(t)
    a.ack()
    look(t)


@AREA.scenario
def everything_is_given_up(t: Stage) -> None:
    """Within the interval, A unsubscribes from all topics."""
    wait_long(t)
    a = ConsumerMember(t, "A").joined()
    a.subscribe()
    look(t)
    a.ack()
    look(t)


@AREA.scenario
def given_up_while_another_waits(t: Stage) -> None:
    """Partitions that A gives up within the interval are not assigned to others yet."""
    wait_long(t)
    a, b = members(t, "AB", [t.t3, t.tx])
    silently(t, a.join)
    silently(t, b.join)
    a.subscribe(t.tx)
    a.ack()
    b.beat()
    look(t)
    do_not_wait(t)
    b.beat()
    look(t)


@AREA.scenario
def leaves_and_comes_back(t: Stage) -> None:
    """Within the interval, B leaves and joins again."""
    a, b = members(t, "AB")
    stable(t, a, b)
    wait_long(t)
    b.leave()
    look(t)
    a.beat()
    b.join()
    look(t)
    b.beat()


@AREA.scenario
def last_one_leaves_and_joins(t: Stage) -> None:
    """Within the interval, the only member leaves, joins again, and is assigned at once."""
    wait_long(t)
    a = ConsumerMember(t, "A").joined()
    a.leave()
    look(t)
    a.join()
    look(t)


@AREA.scenario
def deleted_within_the_interval(t: Stage) -> None:
    """A recreated group need not wait for an interval."""
    wait_long(t)
    a = ConsumerMember(t, "A").joined()
    a.leave()
    t.delete_groups()
    a.join()
    look(t)


@AREA.each(name=["same", "other"], topics=["same", "other"])
def static_member_comes_back(t: Stage, name: str, topics: str) -> None:
    """Within the interval, A returns under the {name} id with the {topics} topics."""
    a, b = statics(t, "AB")
    stable(t, a, b)
    wait_long(t)
    a.leave_for_a_while()
    x = a.again("A" if name == "same" else "X", topics=[t.t3 if topics == "same" else t.tx])
    x.join("comes back")
    look(t)
    x.ack()
    b.beat()
    look(t)


@AREA.scenario
def static_newcomer_while_waiting(t: Stage) -> None:
    """A static member without a target goes away and returns under another id."""
    wait_long(t)
    a, b = statics(t, "AB")
    silently(t, a.join)
    b.join()
    b.leave_for_a_while()
    look(t)
    x = b.again("X")
    x.join("comes back")
    look(t)
    do_not_wait(t)
    x.beat()
    look(t)


@AREA.scenario
def revoking_goes_on(t: Stage) -> None:
    """Member A continues to revoke for B while C, which joins, must wait for the next target."""
    a, b, c = members(t, "ABC")
    stable(t, a)
    silently(t, b.join)
    wait_long(t)
    c.join()
    look(t)
    a.beat("is asked to revoke for B")
    a.ack("has revoked")
    b.beat()
    c.beat()
    look(t)
    do_not_wait(t)
    a.beat()
    a.ack()
    c.beat()
    b.beat()
    look(t)


@AREA.scenario
def topic_grows_within_the_interval(t: Stage) -> None:
    """New partitions must wait for the next target as well."""
    topic = t.topic(1, "grows")
    t.coordinator_learns()
    wait_long(t)
    a = ConsumerMember(t, "A", [topic]).joined()
    t.grow_topic(topic, 3)
    a.beat()
    look(t)
    do_not_wait(t)
    a.beat()
    look(t)


@AREA.scenario
def topic_is_deleted_within_the_interval(t: Stage) -> None:
    """The deletion of a topic waits for the next target."""
    topic = t.topic(1, "gone")
    t.coordinator_learns()
    wait_long(t)
    a = ConsumerMember(t, "A", [topic, t.t1]).joined()
    t.delete_topic(topic)
    t.coordinator_learns()
    a.beat()
    look(t)
    a.ack()
    do_not_wait(t)
    a.beat()
    look(t)


@AREA.scenario
def member_joins_again_while_waiting(t: Stage) -> None:
    """Within the interval, members join again with epoch 0."""
    wait_long(t)
    a, b = members(t, "AB")
    silently(t, a.join)
    silently(t, b.join)
    a.join("joins again")
    b.join("joins again")
    look(t)


@AREA.scenario
def epochs_while_waiting(t: Stage) -> None:
    """Which epochs may heartbeats have while the group is Assigning?"""
    wait_long(t)
    a, b = members(t, "AB")
    silently(t, a.join)
    silently(t, b.join)
    a.beat("the group's epoch", member_epoch=3, topic_partitions=[])
    a.beat("the epoch before", member_epoch=1, topic_partitions=[])
    a.beat("its own")
    b.beat("the group's epoch", member_epoch=3)
    b.beat("its own")
    t.commit([(t.t3, 0, 1)], 9, gen=a.epoch, member=a.id, label="commit of A")
    t.commit([(t.t3, 0, 2)], 9, gen=b.epoch, member=b.id, label="commit of B")
    t.commit([(t.t3, 0, 3)], 9, gen=3, member=a.id, label="commit with the group's epoch")
    t.offs()
    look(t)


@AREA.scenario
def assignor_is_chosen_when_the_target_is_computed(t: Stage) -> None:
    """Within the interval, members change their choice of assignor: the last one applies."""
    wait_long(t)
    a, b = members(t, "AB", assignor="uniform")
    silently(t, a.join)
    silently(t, b.join)
    a.beat("for range", server_assignor="range")
    b.beat("for range", server_assignor="range")
    look(t)
    do_not_wait(t)
    a.beat()
    look(t)


@AREA.each(names=["no name", "a name"])
def regex_is_resolved_within_the_interval(t: Stage, names: str) -> None:
    """Must the topics of a regular expression beside {names} wait for the next target?"""
    t.topic(1, "one")
    t.coordinator_learns()
    wait_long(t)
    a = ConsumerMember(t, "A", [t.t1] if names == "a name" else None, regex=f"{t.g}-.*")
    a.join()
    t.nap(0.4)
    a.beat()
    look(t)
    do_not_wait(t)
    a.beat()
    look(t)
