"""Sessions, rebalance timeouts and pending member ids, and the order of their events.

Only the order of events is recorded, never durations.
"""

from __future__ import annotations

from tests.conformance.members import Member
from tests.conformance.stage import Area, Stage

AREA = Area("timers")

SHORT_MS = 1200
BEYOND_SHORT_SECONDS = 1.9
REBALANCE_MS = 1500
LATE_SECONDS = 5.0


def short_lived(t: Stage, name: str, instance_id: str | None = None) -> Member:
    """Return a member with a short session."""
    return t.member(name, inst=instance_id, session=t.ms(SHORT_MS))


@AREA.each(who=["leader", "follower"])
def session_ends_in_stable(t: Stage, who: str) -> None:
    """The {who} expires in Stable, and the other member notices and continues alone."""
    if who == "leader":
        silent, other = t.reach("stable", short_lived(t, "A"), "B")
    else:
        other, silent = t.reach("stable", "A", short_lived(t, "B"))
    other.hb()
    t.until("PreparingRebalance", timeout=LATE_SECONDS)
    other.hb()
    silent.hb()
    silent.commit([(t.t1, 0, 1)])
    t.end_round([], other)


@AREA.scenario
def sole_member_falls_silent(t: Stage) -> None:
    """A sole member expires: the group is Empty with the next generation."""
    (a,) = t.reach("stable", short_lived(t, "A"))
    t.until("Empty", timeout=LATE_SECONDS)
    t.state()
    a.hb()
    a.join_now()
    x = t.member("X", v=3)
    x.join_now()


@AREA.each(request=["heartbeat", "commit"])
def just_before_the_deadline(t: Stage, request: str) -> None:
    """A {request} shortly before the end of each session keeps a member in the group."""
    (a,) = t.reach("stable", short_lived(t, "A"))
    for offset in range(3):
        t.sleep(0.8)
        if request == "heartbeat":
            a.hb()
        else:
            a.commit([(t.t1, 0, offset)])
    t.state()
    t.until("Empty", timeout=LATE_SECONDS)
    a.hb()


REFUSED = ["heartbeat", "commit", "sync", "join", "leave"]


@AREA.each(request=REFUSED)
def refused_requests_do_not_keep_alive(t: Stage, request: str) -> None:
    """A refused {request} in the name of a silent member does not renew its session."""
    a, b = t.reach("stable", "A", short_lived(t, "B"))
    t.sleep(0.8)
    if request == "heartbeat":
        b.hb(generation_id=99)
    elif request == "commit":
        b.commit([(t.t1, 0, 1)], gen=99)
    elif request == "sync":
        b.sync_now(generation_id=99)
    elif request == "join":
        b.join_now(protocols=[{"name": "z", "metadata": b""}])
    else:
        b.leave(v=3, members=[{"member_id": b.id, "group_instance_id": "i-none"}])
    t.sleep(0.8)
    t.gone(1)
    a.hb()
    b.hb()


@AREA.each(request=["sync", "join"])
def harmless_requests_do_not_keep_alive(t: Stage, request: str) -> None:
    """A follower's {request} in Stable is answered, but does not renew its session."""
    a, b = t.reach("stable", "A", short_lived(t, "B"))
    for _ in range(3):
        t.sleep(0.6)
        t.setup(b.sync_now if request == "sync" else b.join_now)
    t.gone(1)
    a.hb()
    b.hb()


@AREA.scenario
def heartbeat_while_preparing_keeps_alive(t: Stage) -> None:
    """Heartbeats renew a session during a rebalance; without them the rebalance ends."""
    a, b = t.reach("stable", "A", short_lived(t, "B"))
    join = a.join()
    t.parked(join)
    for _ in range(3):
        t.sleep(0.7)
        b.hb()
    t.parked(join)
    t.got(join, timeout=LATE_SECONDS)
    t.state()
    b.hb()


@AREA.scenario
def commit_while_preparing_keeps_alive(t: Stage) -> None:
    """A commit during a rebalance is accepted and renews the session."""
    a, b = t.reach("stable", "A", short_lived(t, "B"))
    join = a.join()
    t.parked(join)
    for offset in range(3):
        t.sleep(0.7)
        b.commit([(t.t1, 0, offset)])
    t.parked(join)
    t.got(b.join(), join)


@AREA.scenario
def parked_join_protects(t: Stage) -> None:
    """A known member that waits in JoinGroup does not expire."""
    a, b = t.reach("stable", "A", short_lived(t, "B"))
    b.protos = [("range", b"changed")]
    join = b.join()
    t.sleep(BEYOND_SHORT_SECONDS)
    t.parked(join)
    t.state()
    t.end_round([join], a)


@AREA.scenario
def leader_expires_while_syncs_are_parked(t: Stage) -> None:
    """The leader expires before it has synced, and the waiting members must rejoin."""
    a, b = t.reach("completing", short_lived(t, "A"), "B")
    sync = b.sync()
    t.parked(sync)
    t.got(sync, timeout=LATE_SECONDS)
    t.state()
    a.sync_now()
    t.end_round([], b)


@AREA.scenario
def sessions_start_when_the_leader_has_synced(t: Stage) -> None:
    """A follower whose SyncGroup waited long has a whole session after the answer."""
    a, b = t.reach("completing", "A", short_lived(t, "B"))
    sync = b.sync()
    t.sleep(BEYOND_SHORT_SECONDS)
    t.got(a.sync(), sync)
    t.sleep(0.7)
    b.hb()
    t.state()


@AREA.scenario
def session_length_changes_with_a_rejoin(t: Stage) -> None:
    """A member rejoins with a shorter session timeout, which applies from then on."""
    a, b = t.reach("stable", "A", "B")
    b.session = t.ms(SHORT_MS)
    b.protos = [("range", b"changed")]
    join = b.join()
    t.parked(join)
    t.got(a.join(), join)
    t.sync_all(a, b)
    t.gone(1)
    a.hb()
    b.hb()


@AREA.scenario
def session_length_of_a_harmless_rejoin(t: Stage) -> None:
    """Does a shorter session timeout apply after a follower's unchanged rejoin in Stable?"""
    _, b = t.reach("stable", "A", "B")
    b.join_now(session_timeout_ms=t.ms(SHORT_MS))
    b.hb()
    t.sleep(BEYOND_SHORT_SECONDS)
    b.hb()
    t.state()


# Rebalance timeout


@AREA.scenario
def straggler_is_dropped_though_it_heartbeats(t: Stage) -> None:
    """A dynamic member that only heartbeats is removed at the rebalance timeout."""
    a, b = t.reach("stable", *[t.member(name, rebalance=t.ms(REBALANCE_MS)) for name in "AB"])
    join = a.join()
    t.parked(join)
    b.hb()
    t.got(join, timeout=LATE_SECONDS)
    t.state()
    b.hb()
    b.sync_now()
    b.commit([(t.t1, 0, 1)])
    b.join_now(note="old id")
    a.sync_now()
    b.id = ""
    b.join_now(note="no id")


@AREA.scenario
def leader_is_dropped_as_straggler(t: Stage) -> None:
    """The leader does not rejoin in time, and the member that did leads."""
    a, b = t.reach("stable", *[t.member(name, rebalance=t.ms(REBALANCE_MS)) for name in "AB"])
    b.protos = [("range", b"changed")]
    join = b.join()
    t.parked(join)
    t.got(join, timeout=LATE_SECONDS)
    t.state()
    a.sync_now()
    b.sync_now()
    t.state()


@AREA.scenario
def static_straggler_stays(t: Stage) -> None:
    """A static member that missed a rebalance stays a member, and returns with its own id."""
    members = t.static("A", "B", v=9, rebalance=t.ms(REBALANCE_MS))
    a, b = t.reach("stable", *members)
    join = a.join()
    t.parked(join)
    t.got(join, timeout=LATE_SECONDS)
    t.state()
    b.hb()
    b.sync_now()
    b.commit([(t.t1, 0, 1)])
    a.sync_now()
    t.state()
    b.join_now(note="unchanged")
    b.sync_now()
    b.hb()
    t.state()


@AREA.scenario
def static_straggler_restarts_in_the_next_generation(t: Stage) -> None:
    """A static member missed a rebalance and restarts while the others are Stable."""
    members = t.static("A", "B", v=9, rebalance=t.ms(REBALANCE_MS))
    a, b = t.reach("stable", *members)
    join = a.join()
    t.parked(join)
    t.got(join, timeout=LATE_SECONDS)
    a.sync_now()
    x = t.again(b, "X")
    x.join_now(note="restarted")
    x.sync_now(v=5)
    t.state()


@AREA.scenario
def static_and_dynamic_stragglers(t: Stage) -> None:
    """Two members miss a rebalance: the dynamic one is removed, the static one stays."""
    options = {"rebalance": t.ms(REBALANCE_MS)}
    a, b, c = t.reach(
        "stable", t.member("A", **options), *t.static("B", **options), t.member("C", **options)
    )
    join = a.join()
    t.parked(join)
    t.got(join, timeout=LATE_SECONDS)
    t.state()
    b.hb()
    c.hb()


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
def round_is_as_long_as_at_its_start(t: Stage) -> None:
    """The member with the long rebalance timeout leaves after the rebalance has begun."""
    a, b, c = t.reach(
        "stable",
        t.member("A", rebalance=t.ms(REBALANCE_MS)),
        t.member("B", rebalance=60_000),
        t.member("C", rebalance=t.ms(REBALANCE_MS)),
    )
    join = a.join()
    t.parked(join)
    b.leave()
    t.sleep(REBALANCE_MS / 1000 + 1)
    t.parked(join)
    c.leave()
    t.got(join)
    t.state()


@AREA.scenario
def newcomers_do_not_prolong_the_round(t: Stage) -> None:
    """A newcomer with a long rebalance timeout joins a rebalance with a short one."""
    a, b = t.reach("stable", *[t.member(name, rebalance=t.ms(REBALANCE_MS)) for name in "AB"])
    join = a.join()
    t.parked(join)
    newcomer = t.member("N", v=3, rebalance=60_000)
    second = newcomer.join()
    t.got(join, second, timeout=LATE_SECONDS)
    t.state()
    b.hb()


@AREA.scenario
def rebalance_timeout_of_nothing(t: Stage) -> None:
    """With a rebalance timeout of 1 ms the rebalance ends at once without the second member."""
    a = t.member("A", rebalance=1, inst="i-A")
    join = a.join()
    t.setup(t.got, join)
    t.rec("error", join.raw["error_code"])


# Members that never sync


@AREA.each(who=["dynamic", "static"])
def one_never_syncs(t: Stage, who: str) -> None:
    """A {who} follower never syncs in Stable, is removed, and a rebalance starts."""
    options = {"rebalance": t.ms(REBALANCE_MS)}
    members = t.static("A", "B", **options)
    if who == "dynamic":
        members = [t.member(name, **options) for name in "AB"]
    a, b = t.reach("completing", *members)
    a.sync_now()
    b.hb()
    t.until("PreparingRebalance", timeout=LATE_SECONDS)
    t.state()
    b.hb()
    a.hb()
    t.end_round([], a)


@AREA.scenario
def late_sync_is_in_time(t: Stage) -> None:
    """The last follower syncs shortly before the deadline, and nobody is removed."""
    a, b = t.reach("completing", *[t.member(name, rebalance=t.ms(REBALANCE_MS)) for name in "AB"])
    a.sync_now()
    t.sleep(0.8)
    b.sync_now()
    t.sleep(1.2)
    t.state()
    b.hb()


@AREA.scenario
def one_leaves_instead_of_syncing(t: Stage) -> None:
    """The only member that has not synced leaves, which ends the deadline."""
    a, b = t.reach("completing", *[t.member(name, rebalance=t.ms(REBALANCE_MS)) for name in "AB"])
    a.sync_now()
    b.leave()
    t.got(a.join())
    a.sync_now()
    t.sleep(BEYOND_SHORT_SECONDS)
    t.state()
    a.hb()


# Unused member ids


@AREA.each(state=["empty", "completing", "stable"])
def pending_id_runs_out(t: Stage, state: str) -> None:
    """A pending member id from {state} is invalid after its session timeout."""
    t.reach(state, "A")
    x = t.member("X", session=t.ms(SHORT_MS))
    x.join_now()
    t.sleep(BEYOND_SHORT_SECONDS)
    x.join_now(note="too late")
    t.state()


@AREA.scenario
def pending_id_in_time(t: Stage) -> None:
    """A pending member id is used shortly before it expires."""
    x = t.member("X", session=t.ms(SHORT_MS))
    x.join_now()
    t.sleep(0.8)
    x.join_now(note="in time")
    x.sync_now()
    t.sleep(0.8)
    x.hb()
    t.state()


@AREA.scenario
def pending_id_runs_out_while_static_stragglers_are_awaited(t: Stage) -> None:
    """A pending member id expires while another member is missing: the rebalance continues."""
    a, b = t.reach("stable", *t.static("A", "B"))
    join = a.join()
    x = t.member("X", session=t.ms(SHORT_MS))
    t.until("PreparingRebalance")
    x.join_now()
    t.sleep(BEYOND_SHORT_SECONDS)
    t.parked(join)
    t.got(b.join(), join)
    t.state()


# Static members


@AREA.scenario
def session_of_the_former_self(t: Stage) -> None:
    """A static member restarts with a longer session: the old, short one no longer applies."""
    a, b = t.reach(
        "stable", *t.static("A", v=9), t.member("B", v=9, inst="i-B", session=t.ms(SHORT_MS))
    )
    x = t.again(b, "X", session=30_000)
    x.join_now(note="restarted")
    t.sleep(BEYOND_SHORT_SECONDS)
    x.hb()
    a.hb()
    t.state()


@AREA.scenario
def session_of_the_new_self(t: Stage) -> None:
    """A static member restarts with a shorter session, which applies from its next heartbeat."""
    a, b = t.reach("stable", *t.static("A", "B", v=9))
    x = t.again(b, "X", session=t.ms(SHORT_MS))
    x.join_now(note="restarted")
    t.sleep(BEYOND_SHORT_SECONDS)
    x.hb(note="the first one")
    t.gone(1)
    x.hb()
    b.hb()
    a.hb()


@AREA.scenario
def static_leader_expires_while_preparing(t: Stage) -> None:
    """A static leader's session expires before the rebalance timeout."""
    a, b = t.reach("stable", short_lived(t, "A", "i-A"), *t.static("B"))
    b.protos = [("range", b"changed")]
    join = b.join()
    t.parked(join)
    t.got(join, timeout=LATE_SECONDS)
    t.state()
    t.again(a, "X").join_now(note="old instance, parked or not", member_id=a.id)
