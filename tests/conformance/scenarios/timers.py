"""Sessions, rebalance timeouts and pending member ids, and the order of their events.

Only the order of events is recorded, never durations.
"""

from __future__ import annotations

from tests.conformance.stage import Area, Stage

AREA = Area("timers")

REBALANCE_MS = 1500


# Rebalance timeout


@AREA.scenario
def only_static_members_and_nobody_comes(t: Stage) -> None:
    """A rebalance in which no member waits lasts until a member joins."""
    members = t.static("A", "B", rebalance=t.ms(REBALANCE_MS))
    newcomer = t.member("N", v=3, rebalance=t.ms(REBALANCE_MS))
    a, b = t.reach("stable", *members)
    join = newcomer.join()
    t.until("PreparingRebalance")
    newcomer.id = t.describe()["members"][-1]["member_id"]
    away = [one["member_id"] for one in t.describe()["members"] if not one["group_instance_id"]]
    t.call(
        t.ctl,
        "LeaveGroup",
        3,
        {"group_id": t.g, "members": [{"member_id": one} for one in away]},
        "the newcomer is sent away",
    )
    t.setup(t.got, join)
    t.sleep(2 * REBALANCE_MS / 1000)
    t.state()
    a.hb()
    joins = t.rejoin(a, b)
    t.got(*joins)
    t.state()


@AREA.scenario
def rebalance_timeout_of_nothing(t: Stage) -> None:
    """With a rebalance timeout of 1 ms the rebalance ends at once without the second member."""
    a = t.member("A", rebalance=1, inst="i-A")
    join = a.join()
    t.setup(t.got, join)
    t.rec("error", join.raw["error_code"])
