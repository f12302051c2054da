"""Session timeouts: scenarios with loops of heartbeats."""

from __future__ import annotations

from tests.conformance.stage import Area, Stage

AREA = Area("expiry")
SHORT_MS = 1200


@AREA.scenario
def heartbeats_keep_alive(t: Stage) -> None:
    """A member that sends heartbeats outlives its session timeout."""
    (a,) = t.stable("A", session=t.ms(2 * SHORT_MS))
    for _ in range(8):
        t.sleep(0.4)
        t.setup(a.hb)
    t.state()
    a.hb()


@AREA.scenario
def commits_keep_alive(t: Stage) -> None:
    """A member that commits offsets outlives its session timeout."""
    (a,) = t.stable("A", session=t.ms(2 * SHORT_MS))
    for offset in range(8):
        t.sleep(0.4)
        t.setup(a.commit, [(t.t1, 0, offset)])
    t.state()
    a.hb()


@AREA.scenario
def follower_expires_while_awaiting_sync(t: Stage) -> None:
    """A follower that does not sync is removed after its session timeout."""
    a, b = t.completing("A", "B")
    b.session = t.ms(SHORT_MS)
    b.protos = [("range", b"new")]
    join = b.join()
    t.parked(join)
    t.got(a.join(), join)
    t.gone(1)
    t.state()
    a.hb()
    a.sync_now(note="old generation")
    a.join_now()


@AREA.scenario
def v0_rebalance_timeout_is_the_session_timeout(t: Stage) -> None:
    """Without a rebalance timeout, in JoinGroup v0, the session timeout is used."""
    a, b = t.stable(*(t.member(name, v=0, session=t.ms(3000)) for name in "AB"))
    join = a.join()
    for count in (3, 2):
        for _ in range(count):
            t.sleep(0.5)
            t.setup(b.hb)
        if count == 3:
            t.parked(join)
    t.got(join, timeout=6.0)
    t.state()
    b.hb()
