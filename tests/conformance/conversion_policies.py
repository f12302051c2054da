"""Scenarios for each `group.consumer.migration.policy` other than the default.

The policy is a broker setting, so each policy has a profile and a module of scenarios.
"""

from __future__ import annotations

from tests.conformance import classic_members, group_settings
from tests.conformance.classic_members import ClassicMember
from tests.conformance.consumer_members import (
    ConsumerMember,
    listed,
    look,
    silently,
)
from tests.conformance.consumer_offsets import commit
from tests.conformance.stage import Area, Stage


def scenarios_of(name: str, profile: str) -> Area:
    """Return an area with the scenarios of this module in the profile of one policy."""
    area = Area(name, profile)
    area.each(state=["empty", "simple", "preparing", "completing", "stable"])(consumer_joins)
    area.each(state=["Empty", "Stable", "Reconciling"])(classic_joins)
    area.each(how=["leave", "LeaveGroup", "session"])(last_consumer_goes)
    area.each(who=["classic member", "consumer"])(static_member_changes_sides)
    area.scenario(classic_member_of_the_id)
    area.scenario(static_consumer_among_consumers)
    area.scenario(converted_group_in_use)
    return area


def consumer_joins(t: Stage, state: str) -> None:
    """A consumer joins a classic group that is {state}."""
    m = ClassicMember(t, "M")
    waiting = None
    if state == "simple":
        commit(t, "nobody commits", (t.t3, 0, 5))
    else:
        classic_members.stable(t, {"M": {t.t3: [0, 1, 2]}}, m)
    if state == "empty":
        silently(t, m.leave)
    elif state == "preparing":
        n = ClassicMember(t, "N")
        silently(t, t.got, n.join())
        waiting = n.join()
        silently(t, t.until, "PreparingRebalance")
    elif state == "completing":
        classic_members.completing(t, m)
    a = ConsumerMember(t, "A")
    a.join()
    listed(t)
    if waiting is not None:
        n.parked(waiting, "waits")
    m.beat()
    look(t)


def classic_joins(t: Stage, state: str) -> None:
    """A classic member joins a consumer group that is {state}."""
    a, b = ConsumerMember(t, "A"), ConsumerMember(t, "B")
    silently(t, a.join)
    if state == "Empty":
        silently(t, a.leave)
    elif state == "Reconciling":
        silently(t, b.join)
    m = ClassicMember(t, "M")
    m.join_now()
    m.beat()
    listed(t)


def last_consumer_goes(t: Stage, how: str) -> None:
    """The last consumer leaves a mixed group, if the policy allows such a group; reason: {how}."""
    if how == "session":
        group_settings.use(
            t, consumer_session_timeout_ms=t.ms(700), consumer_heartbeat_interval_ms=100
        )
    a = ConsumerMember(t, "A")
    silently(t, a.join)
    m = ClassicMember(t, "M", member_id="member-m")
    m.join_now()
    for _ in range(2):
        silently(t, a.ack)
        silently(t, m.rejoin)
    listed(t)
    if how == "leave":
        a.leave()
    elif how == "LeaveGroup":
        m.leave("removes A", members=[{"member_id": a.id, "group_instance_id": None}])
    else:
        t.sleep(1.1)
    listed(t)
    look(t)
    m.beat()
    m.join_now("joins again")
    m.sync_now(shares={"M": {t.t3: [0, 1, 2]}})
    listed(t)
    m.leave()
    listed(t)


def static_member_changes_sides(t: Stage, who: str) -> None:
    """The only member, a static {who} member, returns with the other protocol."""
    a = ConsumerMember(t, "A", instance_id="i-1")
    m = ClassicMember(t, "M", instance_id="i-1")
    if who == "consumer":
        a.join()
        m.join_now("comes as i-1")
    else:
        classic_members.stable(t, {"M": {t.t3: [0, 1, 2]}}, m)
        a.join("comes as i-1")
    listed(t)
    m.beat()
    a.beat()


def classic_member_of_the_id(t: Stage) -> None:
    """A consumer joins with the classic protocol under its own id."""
    a = ConsumerMember(t, "A")
    silently(t, a.join)
    m = ClassicMember(t, "A", member_id=a.id)
    m.join_now("joins with the classic protocol")
    listed(t)
    a.beat("beats as a consumer")


def static_consumer_among_consumers(t: Stage) -> None:
    """B, a static consumer beside A, returns with the classic protocol."""
    a = ConsumerMember(t, "A")
    b = ConsumerMember(t, "B", instance_id="i-B")
    silently(t, a.join)
    silently(t, b.join)
    m = ClassicMember(t, "M", instance_id="i-B")
    m.join_now("comes as i-B")
    listed(t)
    b.beat()


def converted_group_in_use(t: Stage) -> None:
    """A consumer joins a Stable classic group, both members send requests, the consumer leaves."""
    m = ClassicMember(t, "M")
    classic_members.stable(t, {"M": {t.t3: [0, 1, 2]}}, m)
    a = ConsumerMember(t, "A")
    a.join()
    m.beat()
    m.join_now("joins again")
    listed(t)
    commit(t, "M commits", version=8, member_id=m.id, epoch=m.generation)
    a.leave()
    listed(t)
    m.beat()
