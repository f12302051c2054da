"""`group.max.size`, which is 4 here."""

from __future__ import annotations

from tests.conformance.stage import Area, Stage

AREA = Area("sizes")
FULL = ("A", "B", "C", "D")


@AREA.scenario
def rejoiner_asks_twice_in_a_full_round(t: Stage) -> None:
    """In a full group, a waiting member sends JoinGroup again and is not refused."""
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
