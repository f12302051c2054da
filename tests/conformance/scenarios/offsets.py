"""OffsetCommit, OffsetFetch and OffsetDelete in every state, by every kind of caller."""

from __future__ import annotations

from tests.conformance.stage import Area, Stage

AREA = Area("offsets")


@AREA.each(state=["empty", "preparing", "completing", "stable"])
def delete_of_another_type(t: Stage, state: str) -> None:
    """OffsetDelete in {state} names a group of another protocol type."""
    t.setup(t.commit, [(t.t1, 0, 1)])
    a = t.member("A", v=3, ptype="connect", protos=[("default", b"x")])
    t.reach("stable", a)
    if state == "empty":
        t.setup(a.leave)
    elif state == "preparing":
        t.setup(lambda: t.member("N", v=3, ptype="connect", protos=a.protos).join())
        t.until("PreparingRebalance")
    elif state == "completing":
        t.setup(a.join_now)
    t.delete_offsets((t.t1, 0), (t.t3, 0), ("cf-none", 0))
    t.offs()
