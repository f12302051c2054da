"""`group.max.size`, which is 4 here."""

from __future__ import annotations

from tests.conformance.stage import Area, Stage

AREA = Area("sizes")
FULL = ("A", "B", "C", "D")


@AREA.each(state=["completing", "stable"], version=[3, 5, 9])
def fifth(t: Stage, state: str, version: int) -> None:
    """A fifth member of v{version} asks to join in {state}."""
    members = t.reach(state, *FULL)
    t.member("X", v=version).join_now()
    t.member("Y", v=max(version, 5), inst="i-Y").join_now(note="with an instance")
    members[3].hb()
    t.state()


@AREA.scenario
def fifth_with_an_id_given_before(t: Stage) -> None:
    """A pending member id from before the group was full is refused and becomes invalid."""
    a, b, c = t.reach("stable", "A", "B", "C")
    x, y = t.member("X"), t.member("Y")
    x.join_now()
    y.join_now()
    join = x.join()
    t.until("PreparingRebalance")
    joins = [join, *t.rejoin(a, b, c)]
    t.parked(*joins)
    y.join_now(note="fifth, with id")
    t.parked(*joins)
    t.state()
    y.leave()
    t.parked(*joins)


@AREA.scenario
def fifth_id_in_stable(t: Stage) -> None:
    """The group filled up after the id was given, which is refused twice in Stable."""
    a, b, c = t.reach("stable", "A", "B", "C")
    x = t.member("X")
    x.join_now()
    d = t.member("D", inst="i-D")
    join = d.join()
    t.until("PreparingRebalance")
    joins = t.rejoin(a, b, c)
    t.parked(join, *joins)
    x.leave()
    t.setup(t.got, join, *joins)
    x.join_now(note="after it left")
    t.member("Y").join_now(note="completing")
    t.state()


@AREA.scenario
def room_again_after_a_leave(t: Stage) -> None:
    """One of four members leaves, which makes room for one in the same rebalance."""
    a, b, c, d = t.reach("stable", *FULL)
    d.leave()
    x = t.member("X", v=3)
    join = x.join()
    t.parked(join)
    joins = t.rejoin(b, c)
    t.got(a.join(), join, *joins)
    t.state()


@AREA.scenario
def rejoiners_of_a_full_group(t: Stage) -> None:
    """All four members of a full group may rejoin."""
    a, b, c, d = t.reach("stable", *FULL)
    join = a.join()
    t.parked(join)
    t.member("X", v=3, protos=[("z", b"")]).join_now(note="no common protocol either")
    t.end_round([join], b, c, d)


@AREA.scenario
def rejoiner_asks_twice_in_a_full_round(t: Stage) -> None:
    """A waiting member sends JoinGroup again, and is not refused though four members wait."""
    a, b, c, d = t.reach("stable", *FULL)
    t.setup(t.member("P", protos=d.protos).join_now, v=4)
    joins = t.rejoin(a)
    t.until("PreparingRebalance")
    joins += t.rejoin(b, c)
    t.parked(*joins)
    b.hb()
    joins.append(d.join())
    t.setup(t.got, *joins)
    t.rec("generations", [one.gen for one in (a, b, c, d)])


@AREA.scenario
def full_after_empty(t: Stage) -> None:
    """An empty group gives five member ids, of which four may join."""
    five = [t.member(name) for name in "ABCDE"]
    for one in five:
        one.join_now()
    a = five[0]
    a.join_now(note="with id")
    join = five[1].join()
    t.parked(join)
    joins = [join, a.join(), five[2].join(), five[3].join()]
    t.parked(*joins)
    five[4].join_now(note="the fifth")
    t.state()


@AREA.scenario
def static_restart_in_a_full_round(t: Stage) -> None:
    """Is a restarted static member the fifth if four members wait?"""
    a, b, c, d = t.reach("stable", *t.static(*FULL))
    e = t.member("E")
    joins = t.rejoin(a)
    t.until("PreparingRebalance")
    joins += t.rejoin(b, c)
    t.parked(*joins)
    e.join_now(note="fifth, three wait")
    t.state()
    joins.append(d.join())
    t.parked(*joins)
    t.again(d, "Y").join_now(note="D restarted, four wait")
    d.hb()
    e.leave()
    t.parked(*joins)
