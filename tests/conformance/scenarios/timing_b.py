"""The initial rebalance delay, in profile B: when a first rebalance is answered."""

from __future__ import annotations

from tests.conformance.stage import Area, Stage

AREA = Area("timing_b", "b")


@AREA.scenario
def only_the_first_rebalance_is_delayed(t: Stage) -> None:
    """A later rebalance ends as soon as all members have joined."""
    a = t.member("A", v=3)
    a.join_now()
    a.sync_now()
    b = t.member("B", v=3)
    second = b.join()
    t.until("PreparingRebalance")
    first = a.join()
    t.rec("answered at once", [pending.poll(0.6) for pending in (first, second)])
    t.got(first, second)


@AREA.scenario
def delay_again_after_empty(t: Stage) -> None:
    """The first rebalance of an empty group is delayed as well."""
    a = t.member("A", v=3)
    a.join_now()
    a.sync_now()
    t.setup(a.commit, [(t.t1, 0, 1)])  # a committed offset keeps the empty group from being deleted
    a.leave()
    b = t.member("B", v=3)
    join = b.join()
    t.parked(join)
    t.got(join)
    t.rec("first answer is complete", b.leader)
