"""Session and rebalance timeouts of consumer groups.

Sessions are shortened by group configs. Only the order of events is recorded, never durations.
"""

from __future__ import annotations

from typing import Any

from tests.conformance import group_settings
from tests.conformance.consumer_members import (
    ConsumerMember,
    listed,
    look,
    members,
    settle,
    silently,
    stable,
    statics,
    wait_for_members,
)
from tests.conformance.stage import Area, Stage

AREA = Area("consumer_timers", "d")

SESSION_MS = 700
HALF_SECONDS = 0.35
REBALANCE_MS = 600


def short_sessions(t: Stage, session_ms: int = SESSION_MS) -> None:
    """Let silent members of the group expire soon."""
    group_settings.use(
        t, consumer_session_timeout_ms=t.ms(session_ms), consumer_heartbeat_interval_ms=100
    )


@AREA.scenario
def lone_member_falls_silent(t: Stage) -> None:
    """The only member expires: the group is Empty with the next epoch."""
    short_sessions(t)
    a = ConsumerMember(t, "A").joined()
    wait_for_members(t, "")
    look(t)
    listed(t)
    a.beat()
    a.full()
    a.leave()
    a.join("joins again")
    look(t)


@AREA.each(who=["A", "B"])
def one_of_two_falls_silent(t: Stage, who: str) -> None:
    """{who} of two members expires, and the other member gets all partitions."""
    short_sessions(t)
    group = members(t, "AB")
    stable(t, *group)
    silent, other = group if who == "A" else reversed(group)
    other.until_alone(silent)
    silent.beat()
    settle(t, other)
    look(t)
    silent.join("joins again")
    look(t)


@AREA.scenario
def expired_while_nobody_beats(t: Stage) -> None:
    """Both members expire: each raises the epoch, and no target is computed."""
    short_sessions(t)
    a, b = members(t, "AB")
    stable(t, a, b)
    look(t)
    wait_for_members(t, "")
    look(t)


KEEPS_ALIVE: dict[str, dict[str, Any]] = {
    "beat": {},
    "previous epoch": {"member_epoch": 2, "topic_partitions": []},
    "join": {"member_epoch": 0, "topic_partitions": []},
    "change of topics": {"subscribed_topic_names": []},
}


@AREA.each(request=list(KEEPS_ALIVE))
def keeps_alive(t: Stage, request: str) -> None:
    """This request renews a member's session: {request}."""
    short_sessions(t)
    a = ConsumerMember(t, "A").joined()
    silently(t, a.subscribe, t.t3, "no-such-topic")
    fields = KEEPS_ALIVE[request]
    if request == "join":
        fields = {**a.joining, **fields}
    for _ in range(4):
        t.sleep(HALF_SECONDS)
        a.beat("sends it", adopt=False, **fields)
    look(t)


DOES_NOT_KEEP_ALIVE = [
    "later epoch",
    "unknown assignor",
    "commit",
    "fetch",
    "describe",
    "leave of X",
]


@AREA.each(request=DOES_NOT_KEEP_ALIVE)
def does_not_keep_alive(t: Stage, request: str) -> None:
    """This request with member A's id does not renew A's session: {request}."""
    short_sessions(t)
    a = ConsumerMember(t, "A").joined()
    for _ in range(4):
        t.sleep(HALF_SECONDS)
        if request == "later epoch":
            silently(t, a.beat, member_epoch=99)
        elif request == "unknown assignor":
            silently(t, a.beat, server_assignor="sticky")
        elif request == "commit":
            silently(t, t.commit, [(t.t3, 0, 1)], 9, gen=a.epoch, member=a.id)
        elif request == "fetch":
            asked = {"group_id": t.g, "member_id": a.id, "member_epoch": a.epoch, "topics": None}
            t.raw("OffsetFetch", 9, {"groups": [asked]})
        elif request == "leave of X":
            silently(t, a.beat, member_id="member-x", member_epoch=-1)
        else:
            t.raw("ConsumerGroupDescribe", 1, {"group_ids": [t.g]})
    a.beat()
    look(t)


@AREA.each(name=["same", "other"])
def away_and_back_in_time(t: Stage, name: str) -> None:
    """A static member returns within its session, under the {name} id."""
    short_sessions(t)
    (a,) = statics(t, "A")
    silently(t, a.join)
    a.leave_for_a_while()
    t.sleep(HALF_SECONDS)
    x = a if name == "same" else a.again("X")
    x.join("comes back")
    for _ in range(3):
        t.sleep(HALF_SECONDS)
        x.beat()
    look(t)


@AREA.scenario
def away_for_too_long(t: Stage) -> None:
    """A static member that does not return expires, and the other member gets its partitions."""
    short_sessions(t)
    a, b = statics(t, "AB")
    stable(t, a, b)
    a.leave_for_a_while()
    b.until_alone(a)
    settle(t, b)
    look(t)
    x = a.again("X")
    x.join("comes back too late")
    look(t)


@AREA.scenario
def going_away_does_not_prolong_the_session(t: Stage) -> None:
    """Member A leaves temporarily half a session after a heartbeat: half a session remains."""
    short_sessions(t, 1200)
    (a,) = statics(t, "A")
    silently(t, a.join)
    t.sleep(0.8)
    a.leave_for_a_while()
    t.sleep(0.8)
    look(t)


@AREA.scenario
def session_of_a_replaced_member(t: Stage) -> None:
    """Member X has replaced A: the end of A's session does not affect X."""
    short_sessions(t)
    (a,) = statics(t, "A")
    silently(t, a.join)
    a.leave_for_a_while()
    x = a.again("X")
    x.join("comes back")
    for _ in range(4):
        t.sleep(HALF_SECONDS)
        silently(t, x.beat)
    look(t)


@AREA.scenario
def session_is_shortened(t: Stage) -> None:
    """A shorter session timeout applies from A's next heartbeat on."""
    a = ConsumerMember(t, "A").joined()
    short_sessions(t)
    t.sleep(HALF_SECONDS * 3)
    look(t, "before it beats")
    a.beat()
    wait_for_members(t, "")
    look(t)


@AREA.scenario
def session_is_lengthened(t: Stage) -> None:
    """The group's short session timeout is removed: A's next heartbeat gets the longer default."""
    short_sessions(t, 1500)
    a = ConsumerMember(t, "A").joined()
    changes = [(name, group_settings.DELETE, None) for name in _SETTINGS]
    group_settings.alter(t, "back to the default", *changes)
    t.nap(0.2)
    a.beat()
    t.sleep(2.0)
    look(t)


_SETTINGS = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms")


# ---- rebalance timeouts


@AREA.each(owned=["unsaid", "all", "what it has to give up"])
def does_not_revoke(t: Stage, owned: str) -> None:
    """Member A does not revoke; owned: {owned}. A is fenced, and B gets all partitions."""
    a, b = members(t, "AB", rebalance_timeout_ms=t.ms(REBALANCE_MS))
    stable(t, a)
    silently(t, b.join)
    a.beat("is asked to revoke", adopt=False)
    if owned == "what it has to give up":
        a.owned = {t.t3: [2]}
    a.until_fenced(acks=owned != "unsaid")
    a.beat()
    look(t)
    settle(t, b)
    look(t)
    a.join("joins again")
    look(t)


@AREA.scenario
def does_not_even_hear(t: Stage) -> None:
    """Member A must revoke but sends no heartbeat: A stays until its session ends."""
    a, b = members(t, "AB", rebalance_timeout_ms=t.ms(REBALANCE_MS))
    stable(t, a)
    b.join()
    t.sleep(1.5)
    look(t)
    b.beat()


@AREA.scenario
def revokes_in_time(t: Stage) -> None:
    """Member A revokes in time: its rebalance timeout is cancelled."""
    a, b = members(t, "AB", rebalance_timeout_ms=t.ms(REBALANCE_MS))
    stable(t, a)
    silently(t, b.join)
    a.beat("is asked to revoke")
    t.sleep(0.3)
    a.ack("has revoked")
    t.sleep(0.9)
    look(t)
    b.beat()
    a.beat()
    look(t)


@AREA.scenario
def second_revocation_has_its_own_time(t: Stage) -> None:
    """Member A has revoked and must revoke again: the timeout starts again."""
    a, b, c = members(t, "ABC", rebalance_timeout_ms=t.ms(800))
    stable(t, a)
    silently(t, b.join)
    a.beat("is asked to revoke")
    silently(t, c.join)
    t.sleep(0.5)
    a.ack("has revoked, is asked again")
    t.sleep(0.5)
    a.beat("is still in")
    a.until_fenced()
    look(t)


@AREA.scenario
def revocation_and_another_timeout(t: Stage) -> None:
    """Member A changes its rebalance timeout while it revokes: the running timeout is unchanged."""
    a, b = members(t, "AB", rebalance_timeout_ms=t.ms(REBALANCE_MS))
    stable(t, a)
    silently(t, b.join)
    a.beat("is asked to revoke")
    a.beat("wants more time", rebalance_timeout_ms=60000)
    a.until_fenced()
    look(t)


@AREA.each(timeout=[0, -2])
def odd_rebalance_timeout(t: Stage, timeout: int) -> None:
    """Member A has joined with a rebalance timeout of {timeout} and must revoke."""
    a, b = members(t, "AB", rebalance_timeout_ms=timeout)
    stable(t, a)
    silently(t, b.join)
    a.beat("is asked to revoke")
    a.until_fenced()
    look(t)


@AREA.scenario
def joins_again_while_revoking(t: Stage) -> None:
    """Member A joins again with epoch 0 during the timeout, which counts as a revocation."""
    a, b = members(t, "AB", rebalance_timeout_ms=t.ms(REBALANCE_MS))
    stable(t, a)
    silently(t, b.join)
    a.beat("is asked to revoke")
    a.join("joins again")
    t.sleep(0.9)
    look(t)


@AREA.scenario
def static_member_does_not_revoke(t: Stage) -> None:
    """A static member that does not revoke in time is fenced, and its instance id is free."""
    a, b = statics(t, "AB", rebalance_timeout_ms=t.ms(REBALANCE_MS))
    stable(t, a)
    silently(t, b.join)
    a.beat("is asked to revoke", adopt=False)
    a.until_fenced()
    a.beat()
    look(t)
    a.again("X").join()
    look(t)


@AREA.scenario
def goes_away_while_the_timeout_runs(t: Stage) -> None:
    """Member A leaves temporarily while it must revoke, and the rebalance timeout passes."""
    a, b = statics(t, "AB", rebalance_timeout_ms=t.ms(REBALANCE_MS))
    stable(t, a)
    silently(t, b.join)
    a.beat("is asked to revoke")
    a.leave_for_a_while()
    t.sleep(0.9)
    look(t)
    a.join("comes back")
    look(t)


@AREA.scenario
def waiting_member_has_no_timeout(t: Stage) -> None:
    """Member B waits for A's partition for longer than B's rebalance timeout."""
    a = ConsumerMember(t, "A")
    b = ConsumerMember(t, "B", rebalance_timeout_ms=t.ms(300))
    stable(t, a)
    silently(t, b.join)
    a.beat("is asked to revoke")
    t.sleep(0.9)
    b.beat("waits")
    look(t)
    a.ack("has revoked")
    b.beat()
    look(t)
