"""Timers of classic members in consumer groups: sessions, and the times to sync and rejoin."""

from __future__ import annotations

from tests.conformance.consumer_members import (
    ConsumerMember,
    look,
    settle,
    silently,
    wait_for_members,
)
from tests.conformance.consumer_offsets import commit
from tests.conformance.scenarios.conversion_mixed import classic_m, consumer_a, mixed
from tests.conformance.stage import Area, Stage

AREA = Area("conversion_timers", "d")


@AREA.scenario
def classic_member_falls_silent(t: Stage) -> None:
    """A classic member's own session timeout applies, not that of the consumer group."""
    a, m = mixed(t, session_timeout_ms=t.ms(700))
    a.until_alone(ConsumerMember(t, "M", member_id=m.id))
    m.beat()
    settle(t, a)
    look(t)


@AREA.each(request=["heartbeat", "sync", "join", "commit"])
def keeps_a_classic_member_alive(t: Stage, request: str) -> None:
    """Does a {request} of classic member M renew its session?"""
    _, m = mixed(t, session_timeout_ms=t.ms(700))
    for _ in range(3):
        t.sleep(0.35)
        if request == "heartbeat":
            silently(t, m.beat)
        elif request == "sync":
            silently(t, m.sync_now)
        elif request == "join":
            silently(t, m.join_now)
        else:
            silently(t, commit, t, "", version=8, member_id=m.id, epoch=m.generation)
    names = sorted(
        t.sub(one["member_id"])
        for one in t.raw("ConsumerGroupDescribe", 1, {"group_ids": [t.g]})["groups"][0]["members"]
    )
    t.rec("members", names)


@AREA.scenario
def never_syncs(t: Stage) -> None:
    """Classic M joins the group of A and does not sync within its rebalance timeout."""
    a, m = consumer_a(t), classic_m(t, rebalance_timeout_ms=t.ms(600))
    m.join_now()
    for _ in range(20):
        t.nap(0.1 * 1.5)
        if silently(t, m.beat) == "UNKNOWN_MEMBER_ID":
            break
    m.sync_now()
    a.ack()
    look(t)


@AREA.scenario
def never_joins_again(t: Stage) -> None:
    """Classic M learns that it must rejoin, but does not within its rebalance timeout."""
    a, m = mixed(t, rebalance_timeout_ms=t.ms(600))
    b = ConsumerMember(t, "B")
    silently(t, b.join)
    m.beat("is told")
    for _ in range(20):
        t.nap(0.15)
        silently(t, a.ack)
        silently(t, b.ack)
        if silently(t, m.beat) == "UNKNOWN_MEMBER_ID":
            break
    wait_for_members(t, "AB")
    m.rejoin()


@AREA.scenario
def is_not_told_and_stays(t: Stage) -> None:
    """Without a heartbeat, the classic member M stays until the end of its session."""
    a, m = mixed(t, rebalance_timeout_ms=t.ms(300))
    b = ConsumerMember(t, "B")
    silently(t, b.join)
    t.sleep(0.8)
    silently(t, a.ack)
    look(t)
    m.beat("is told now")
