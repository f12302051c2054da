"""The initial rebalance delay of an Empty group, 1500 ms (profile B, KIP-134)."""

from __future__ import annotations

from tests.conformance.stage import Area, Stage
from tests.conformance.subscriptions import subscription

AREA = Area("initial", profile="b")


@AREA.scenario
def newcomers_prolong_the_delay(t: Stage) -> None:
    """A second member joins late and extends the delay, so that a third member is in time."""
    a, b, c = (t.member(name, v=3) for name in "ABC")
    joins = [a.join()]
    t.until("PreparingRebalance")
    t.nap(0.9)
    joins.append(b.join())
    t.nap(1.0)
    t.parked(*joins)
    joins.append(c.join())
    t.parked(*joins)
    t.got(*joins)
    t.state()


@AREA.scenario
def no_longer_than_the_rebalance_timeout(t: Stage) -> None:
    """Newcomers extend the delay up to the rebalance timeout of the first member."""
    a, b = t.member("A", v=3, rebalance=2500), t.member("B", v=3, rebalance=60_000)
    joins = [a.join()]
    t.until("PreparingRebalance")
    t.nap(0.8)
    joins.append(b.join())
    t.nap(0.9)
    t.parked(*joins)
    t.rec("answered in the second delay", joins[0].poll(0.6))
    t.got(*joins)
    t.state()


@AREA.scenario
def leader_leaves_within_the_delay(t: Stage) -> None:
    """The first member leaves, and the second one leads after the delay."""
    a, b = t.member("A", v=3), t.member("B", v=3)
    first = a.join()
    t.until("PreparingRebalance")
    second = b.join()
    t.parked(first, second)
    ids = [one["member_id"] for one in t.describe()["members"]]
    t.rec("members", len(ids))
    b.id = next(one for one in ids if one)
    a.id = ids[0]
    t.call(t.ctl, "LeaveGroup", 1, {"group_id": t.g, "member_id": ids[0]}, "one leaves")
    t.setup(t.got, first, second)
    t.rec("errors", sorted([first.raw["error_code"], second.raw["error_code"]]))
    t.rec("leaders", [a.leader, b.leader].count(True))


@AREA.scenario
def pending_id_is_not_waited_for(t: Stage) -> None:
    """A pending member id does not extend the delay; its later use starts a rebalance."""
    t.setup(t.commit, [(t.t1, 0, 1)])  # a committed offset keeps the empty group from being deleted
    a, x = t.member("A"), t.member("X")
    a.join_now()
    x.join_now()
    join = a.join()
    t.parked(join)
    t.got(join)
    t.state()
    late = x.join()
    t.parked(late)
    t.end_round([late], a)


@AREA.scenario
def pending_id_used_within_the_delay(t: Stage) -> None:
    """A pending member id that joins within the delay is in the first generation."""
    t.setup(t.commit, [(t.t1, 0, 1)])  # a committed offset keeps the empty group from being deleted
    a, x = t.member("A"), t.member("X")
    a.join_now()
    x.join_now()
    first = a.join()
    t.until("PreparingRebalance")
    t.nap(0.5)
    t.got(first, x.join())
    t.state()


@AREA.scenario
def expiry_of_a_pending_id_ends_the_delay(t: Stage) -> None:
    """Does the delay end if all members wait and the last pending member id expires?"""
    t.setup(t.commit, [(t.t1, 0, 1)])  # a committed offset keeps the empty group from being deleted
    a, x = t.member("A"), t.member("X", session=400)
    a.join_now()
    x.join_now()
    join = a.join()
    t.until("PreparingRebalance")
    t.rec("answered before the delay is over", join.poll(1.1))
    t.got(join)
    t.state()


@AREA.scenario
def static_restart_within_the_delay(t: Stage) -> None:
    """A static member restarts while it waits for the first generation."""
    (a,) = t.static("A")
    first = a.join()
    t.until("PreparingRebalance")
    x = t.again(a, "X")
    second = x.join(note="restarted")
    t.setup(t.got, first)
    t.rec("first", first.raw["error_code"])
    t.parked(second)
    t.got(second)
    t.state()


@AREA.scenario
def others_within_the_delay(t: Stage) -> None:
    """Commits, deletions and other protocols are sent while the first members wait."""
    t.setup(t.commit, [(t.t1, 0, 1)])
    a = t.member("A", v=3)
    join = a.join()
    t.until("PreparingRebalance")
    t.commit([(t.t1, 0, 2)], label="standalone")
    t.delete_groups()
    t.delete_offsets((t.t1, 0))
    t.member("X", v=3, protos=[("z", b"")]).join_now(note="no common protocol")
    t.member("Y", v=3, ptype="connect").join_now(note="another type")
    t.state()
    t.parked(join)
    t.got(join)
    t.offs()


@AREA.scenario
def fifth_within_the_delay(t: Stage) -> None:
    """Five members join within the delay; the maximum group size is four."""
    joins = []
    for name in "ABCD":
        joins.append(t.member(name, v=3).join())
        t.until("PreparingRebalance")
        t.nap(0.05)
    t.member("E", v=3).join_now(note="the fifth")
    t.parked(*joins)
    t.got(*joins)
    t.state()


@AREA.scenario
def all_leave_within_the_delay(t: Stage) -> None:
    """Is the group Empty at once if everybody leaves within the delay?"""
    t.setup(t.commit, [(t.t1, 0, 1)])
    a = t.member("A", inst="i-A")
    join = a.join()
    t.until("PreparingRebalance")
    t.call(
        t.ctl,
        "LeaveGroup",
        3,
        {"group_id": t.g, "members": [{"member_id": "", "group_instance_id": "i-A"}]},
        "all leave",
    )
    t.setup(t.got, join)
    t.rec("error", join.raw["error_code"])
    t.state(label="state at once")
    t.until("Empty")
    t.state(label="state later")
    x = t.member("X", v=3)
    second = x.join()
    t.parked(second)
    t.got(second)


@AREA.scenario
def joined_again_after_all_left_within_the_delay(t: Stage) -> None:
    """A member joins in the remaining delay, after all other members have left."""
    t.setup(t.commit, [(t.t1, 0, 1)])
    a = t.member("A", inst="i-A")
    join = a.join()
    t.until("PreparingRebalance")
    t.call(
        t.ctl,
        "LeaveGroup",
        3,
        {"group_id": t.g, "members": [{"member_id": "", "group_instance_id": "i-A"}]},
        "all leave",
    )
    t.setup(t.got, join)
    x = t.member("X", v=3, ptype="connect", protos=[("other", b"")])
    second = x.join(note="another type")
    t.parked(second)
    t.got(second)
    t.state()


@AREA.scenario
def empty_group_with_offsets_stays(t: Stage) -> None:
    """Expiry deletes an Empty group without offsets, and keeps one with offsets."""
    idle = t.group("idle")
    t.setup(t.commit, [(t.t1, 0, 1)])
    t.setup(t.commit, [(t.t1, 0, 1)], group=idle)
    t.ask(
        "OffsetDelete",
        0,
        {"group_id": idle, "topics": [{"name": t.t1, "partitions": [{"partition_index": 0}]}]},
    )
    t.nap(1.6)
    t.state()
    t.state(group=idle, label="state of the other")


@AREA.each(retention_ms=[0, 700, 60_000])
def asked_retention(t: Stage, retention_ms: int) -> None:
    """A v4 commit has a retention of {retention_ms} ms; expiry runs every 500 ms."""
    t.commit([(t.t1, 0, 1)], 4, retention_time_ms=retention_ms)
    t.nap(2.0)
    t.offs()
    t.state()


@AREA.scenario
def expired_group_with_a_pending_id(t: Stage) -> None:
    """Expiry deletes a group with only a pending member id; then a join uses the id."""
    x = t.member("X")
    x.join_now()
    t.nap(1.6)
    t.state()
    x.join_now(note="with the id")


@AREA.each(state=["completing", "stable"])
def asked_retention_in_a_live_group(t: Stage, state: str) -> None:
    """A member commits with a short retention for a subscribed topic and for another topic."""
    reading = t.member("A", protos=[("range", subscription([t.t1], version=0))])
    (a,) = t.reach("stable", reading)
    a.commit([(t.t1, 0, 1), (t.t3, 0, 2)], v=4, retention_time_ms=300)
    a.commit([(t.t3, 1, 3)], v=4)
    if state == "completing":
        t.setup(a.join_now)
    t.nap(2.0)
    t.offs()
    t.state()
