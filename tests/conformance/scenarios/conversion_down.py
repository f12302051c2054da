"""Downgrades of consumer groups to classic groups, when the last consumer leaves."""

from __future__ import annotations

from typing import Any

from tests.conformance import group_settings
from tests.conformance.classic_members import ClassicMember
from tests.conformance.consumer_members import (
    ConsumerMember,
    listed,
    look,
    settle,
    silently,
)
from tests.conformance.consumer_offsets import commit, fetch
from tests.conformance.stage import Area, Stage

AREA = Area("conversion_down", "d")


def mixed(t: Stage, names: str = "M", **options: Any) -> tuple[ConsumerMember, list[ClassicMember]]:
    """Return consumer A and classic members with chosen ids in one stable consumer group."""
    a = ConsumerMember(t, "A")
    silently(t, a.join)
    group = []
    for name in names:
        own = {"member_id": f"member-{name.lower()}", **options}
        if "instance_id" in options:
            own |= {"member_id": "", "instance_id": f"i-{name}"}
        group.append(ClassicMember(t, name, **own))
        silently(t, group[-1].join_now)
        silently(t, group[-1].sync_now)
    come_to_rest(t, a, *group)
    return a, group


def come_to_rest(t: Stage, a: ConsumerMember, *group: ClassicMember) -> None:
    """Acknowledge and rejoin three times, unrecorded, so that the group becomes stable."""
    for _ in range(3):
        silently(t, a.ack)
        for member in group:
            silently(t, member.rejoin)
        silently(t, a.ack)


def described(t: Stage, label: str = "classic group") -> None:
    """Record DescribeGroups in short form: state, protocol, members with assignments."""
    seen = t.describe()
    members = {
        t.sub(one["member_id"], "member_id"): one["group_instance_id"] for one in seen["members"]
    }
    shown = [seen["group_state"], seen["protocol_type"], seen["protocol_data"]]
    t.rec(label, [*shown, dict(sorted(members.items()))])


@AREA.scenario
def step_by_step(t: Stage) -> None:
    """Consumer A leaves; the group becomes classic, and the classic member M rejoins and leads."""
    a, (m,) = mixed(t)
    look(t)
    a.leave()
    described(t)
    listed(t)
    look(t)
    m.beat()
    m.sync_now("syncs too early")
    m.join_now("joins again")
    described(t)
    m.sync_now("syncs as leader", {"M": {t.t3: [0, 1, 2]}})
    described(t)
    m.beat()
    a.beat()
    a.leave("leaves again")


@AREA.scenario
def two_remain(t: Stage) -> None:
    """Consumer A leaves; the classic members M and N remain and rejoin, and one leads."""
    a, (m, n) = mixed(t, "MN")
    look(t)
    a.leave()
    described(t)
    m.beat()
    n.beat()
    first = m.join()
    m.parked(first)
    second = n.join()
    for pending in (first, second):
        silently(t, t.got, pending)
    t.rec("leaders", sum(one.leads for one in (m, n)))
    t.rec("generations", [m.generation, n.generation])
    described(t)


@AREA.each(how=["session", "rebalance timeout", "LeaveGroup"])
def goes_by(t: Stage, how: str) -> None:
    """The last consumer is removed, but not by its own request: {how}."""
    if how == "session":
        group_settings.use(
            t, consumer_session_timeout_ms=t.ms(700), consumer_heartbeat_interval_ms=100
        )
    a, (m,) = mixed(t)
    if how == "LeaveGroup":
        m.leave("removes A", members=[{"member_id": a.id, "group_instance_id": None}])
    elif how == "rebalance timeout":
        silently(t, a.subscribe, t.tx, rebalance_timeout_ms=t.ms(600))
        a.until_fenced()
    t.until("PreparingRebalance", timeout=5)
    described(t)
    listed(t)
    m.beat()
    a.beat()


@AREA.each(topics=["same", "others", "none"])
def topics_that_remain(t: Stage, topics: str) -> None:
    """Consumer A leaves; the classic member M remains, with subscribed topics: {topics}."""
    a = ConsumerMember(t, "A").joined()
    names = {"same": [t.t3], "others": [t.tx], "none": []}[topics]
    m = ClassicMember(t, "M", names, member_id="member-m", subscription_version=1)
    silently(t, m.join_now)
    come_to_rest(t, a, m)
    a.leave()
    described(t)
    m.join_now()
    m.sync_now(shares={"M": {}})
    described(t)


@AREA.each(state=["Reconciling", "unsynced", "unrevoked", "Assigning"])
def leaves_in(t: Stage, state: str) -> None:
    """Consumer A leaves while the group is: {state}."""
    a = ConsumerMember(t, "A").joined()
    m = ClassicMember(t, "M", member_id="member-m")
    silently(t, m.join_now)
    if state == "Assigning":
        silently(t, m.sync_now)
        come_to_rest(t, a, m)
        b = ConsumerMember(t, "B")
        silently(t, b.join)
        silently(t, b.leave)
    elif state == "Reconciling":
        silently(t, m.sync_now)
    elif state == "unrevoked":
        silently(t, m.sync_now)
        come_to_rest(t, a, m)
        m.topics = [t.tx]
        silently(t, m.join_now)
    a.leave()
    described(t)
    m.beat()
    if state == "unsynced":
        m.sync_now()
    m.join_now("joins again")
    m.sync_now(shares={"M": {t.t3: [0, 1, 2]}})
    described(t)


@AREA.scenario
def not_the_last_consumer(t: Stage) -> None:
    """Consumer A leaves while B is still a consumer: the group stays a consumer group."""
    a, (m,) = mixed(t)
    b = ConsumerMember(t, "B")
    silently(t, b.join)
    come_to_rest(t, a, m)
    a.leave()
    look(t)
    listed(t)
    b.leave()
    described(t)
    m.beat()


@AREA.scenario
def two_consumers_go_in_one_request(t: Stage) -> None:
    """One LeaveGroup removes both consumers: the group is converted once."""
    a, (m,) = mixed(t)
    b = ConsumerMember(t, "B")
    silently(t, b.join)
    come_to_rest(t, a, m)
    each = [{"member_id": one.id, "group_instance_id": None} for one in (a, b)]
    m.leave("removes both", members=each)
    described(t)
    m.join_now("joins again")


@AREA.scenario
def all_go_in_one_request(t: Stage) -> None:
    """One LeaveGroup removes all members: the group is Empty and not converted."""
    a, (m,) = mixed(t)
    each = [{"member_id": one, "group_instance_id": None} for one in (a.id, m.id)]
    m.leave("removes all", members=each)
    look(t)
    listed(t)


@AREA.scenario
def consumer_and_one_classic_go_in_one_request(t: Stage) -> None:
    """One LeaveGroup removes A and M: N remains, and the group is classic."""
    a, (m, n) = mixed(t, "MN")
    each = [{"member_id": one, "group_instance_id": None} for one in (a.id, m.id)]
    m.leave("removes A and M", members=each)
    described(t)
    m.beat()
    n.beat()
    n.join_now("joins again")
    n.sync_now(shares={"N": {t.t3: [0, 1, 2]}})
    described(t)


@AREA.scenario
def classic_member_goes_first(t: Stage) -> None:
    """The classic member M leaves, then consumer A: the group stays a consumer group."""
    a, (m,) = mixed(t)
    m.leave()
    listed(t)
    a.leave()
    listed(t)
    look(t)


@AREA.scenario
def consumer_away_does_not_count_as_gone(t: Stage) -> None:
    """The static consumer A leaves temporarily: the group stays a consumer group."""
    a = ConsumerMember(t, "A", instance_id="i-A")
    silently(t, a.join)
    m = ClassicMember(t, "M", member_id="member-m")
    silently(t, m.join_now)
    come_to_rest(t, a, m)
    a.leave_for_a_while()
    look(t)
    m.beat()
    x = a.again("X")
    x.join("comes back")
    look(t)
    x.leave()
    described(t)


@AREA.each(at_rest=[True, False], topics=["same", "others"])
def static_consumer_restarts_as_classic(t: Stage, at_rest: bool, topics: str) -> None:
    """The last consumer, a static member, returns as a classic member: the group becomes classic.

    All members have settled before the return: {at_rest}. The topics of the returning member:
    {topics}.
    """
    a = ConsumerMember(t, "A", instance_id="i-A")
    silently(t, a.join)
    m = ClassicMember(t, "M", instance_id="i-M")
    silently(t, m.join_now)
    if at_rest:
        come_to_rest(t, a, m)
    n = ClassicMember(t, "N", [t.t3 if topics == "same" else t.tx], instance_id="i-A")
    n.owned = dict(a.owned)
    n.join_now("comes as i-A")
    described(t)
    listed(t)
    n.sync_now()
    m.beat()
    n.beat()
    a.beat()
    m.sync_now()


@AREA.scenario
def only_static_consumer_restarts_as_classic(t: Stage) -> None:
    """The only member of a consumer group, a static member, returns as a classic member."""
    a = ConsumerMember(t, "A", instance_id="i-A")
    silently(t, a.join)
    m = ClassicMember(t, "M", instance_id="i-A")
    m.owned = {t.t3: [0, 1, 2]}
    m.join_now("comes as i-A")
    described(t)
    m.sync_now()
    m.beat()
    a.beat()
    described(t)


@AREA.scenario
def static_member_that_is_away_restarts_as_classic(t: Stage) -> None:
    """Member A has left temporarily and returns as a classic member."""
    a = ConsumerMember(t, "A", instance_id="i-A")
    silently(t, a.join)
    a.leave_for_a_while()
    m = ClassicMember(t, "M", instance_id="i-A")
    m.join_now("comes as i-A")
    described(t)
    m.sync_now()
    m.beat()


@AREA.scenario
def dynamic_consumer_goes_back_under_its_id(t: Stage) -> None:
    """The last consumer, a dynamic one, joins as a classic member: the group is not converted."""
    a, (m,) = mixed(t)
    x = ClassicMember(t, "A", member_id=a.id)
    x.join_now("joins with the classic protocol")
    look(t)
    x.sync_now()
    m.beat()
    x.beat()
    listed(t)
    x.leave()
    listed(t)
    m.beat()
    look(t)


@AREA.scenario
def protocols_after_it(t: Stage) -> None:
    """Member M has two protocols, N one of them: the classic group selects the common protocol."""
    a = ConsumerMember(t, "A").joined()
    m = ClassicMember(t, "M", protocols=["roundrobin", "range"], member_id="member-m")
    n = ClassicMember(t, "N", protocols=["range"], member_id="member-n")
    for member in (m, n):
        silently(t, member.join_now)
        silently(t, member.sync_now)
    come_to_rest(t, a, m, n)
    t.rec("told in the consumer group", [m.protocol, n.protocol])
    a.leave()
    described(t)
    joins = [m.join(), n.join()]
    for pending in joins:
        silently(t, t.got, pending)
    t.rec("told in the classic group", [m.protocol, n.protocol])


@AREA.scenario
def newcomer_after_it(t: Stage) -> None:
    """A classic newcomer joins while the converted group waits for M."""
    a, (m,) = mixed(t)
    a.leave()
    n = ClassicMember(t, "N")
    silently(t, t.got, n.join())
    newcomer = n.join()
    n.parked(newcomer)
    m.beat()
    rejoin = m.join()
    m.answered(rejoin, "joins again")
    n.answered(newcomer, "is answered")
    m.sync_now(shares={"M": {t.t3: [0, 1, 2]}, "N": {}})
    n.sync_now()
    described(t)


@AREA.scenario
def consumer_after_it(t: Stage) -> None:
    """Consumer A leaves and joins again at once: the group is downgraded and upgraded."""
    a, (m,) = mixed(t)
    a.leave()
    listed(t)
    a.join("joins again")
    look(t)
    m.beat()
    m.rejoin()
    a.ack()
    m.rejoin()
    a.beat()
    look(t)


@AREA.scenario
def up_and_down_twice(t: Stage) -> None:
    """Consumer A joins and leaves M's group twice: generations and epochs continue."""
    m = ClassicMember(t, "M")
    m.join_now()
    m.sync_now(shares={"M": {t.t3: [0, 1, 2]}})
    for _ in range(2):
        a = ConsumerMember(t, "A")
        a.join()
        look(t)
        a.leave()
        described(t)
        m.beat()
        m.join_now("joins again")
        m.sync_now(shares={"M": {t.t3: [0, 1, 2]}})
    described(t)


@AREA.scenario
def classic_member_does_not_join_again(t: Stage) -> None:
    """After A has left, M does not rejoin within its rebalance timeout: the group becomes Empty."""
    a, (m,) = mixed(t, rebalance_timeout_ms=t.ms(700))
    a.leave()
    m.beat()
    t.until("Empty", timeout=5)
    described(t)
    m.beat()
    m.join_now("joins again")


@AREA.scenario
def classic_member_falls_silent(t: Stage) -> None:
    """After consumer A has left, the session timeout of classic member M still applies."""
    a, (m,) = mixed(t, session_timeout_ms=t.ms(900))
    a.leave()
    m.join_now("joins again")
    m.sync_now(shares={"M": {t.t3: [0, 1, 2]}})
    described(t)
    t.until("Empty", timeout=5)
    m.beat()


@AREA.each(version=[8, 9])
def offsets_through_it(t: Stage, version: int) -> None:
    """Offsets of A and M stay; M commits (OffsetCommit {version}) before and after A leaves."""
    a, (m,) = mixed(t)
    identity: dict[str, Any] = {"member_id": m.id, "version": version}
    commit(t, "A commits", (t.t3, 0, 5), member_id=a.id, epoch=a.epoch)
    commit(t, "M commits", (t.t3, 2, 6), epoch=m.generation, **identity)
    a.leave()
    commit(t, "M commits with its generation", (t.t3, 2, 7), epoch=m.generation, **identity)
    commit(t, "A commits, gone", (t.t3, 0, 8), member_id=a.id, epoch=a.epoch)
    fetch(t, "M fetches", member_id=m.id, epoch=m.generation)
    m.join_now("joins again")
    commit(t, "M commits with the new one", (t.t3, 2, 9), epoch=m.generation, **identity)
    commit(t, "M commits with the old one", (t.t3, 2, 1), epoch=m.generation - 1, **identity)
    t.offs()


@AREA.scenario
def regex_is_forgotten(t: Stage) -> None:
    """Consumer A leaves with its regular expression, which does not affect the classic group."""
    t.topic(1, "one")
    t.coordinator_learns()
    a = ConsumerMember(t, "A", regex=f"{t.g}-.*")
    silently(t, a.join)
    t.nap(0.4)
    settle(t, a)
    m = ClassicMember(t, "M", member_id="member-m")
    silently(t, m.join_now)
    come_to_rest(t, a, m)
    look(t)
    a.leave()
    described(t)
    b = ConsumerMember(t, "B")
    b.join()
    look(t)


@AREA.scenario
def settings_do_not_matter(t: Stage) -> None:
    """The short session timeout of consumers never applies to the classic member M."""
    group_settings.use(t, consumer_session_timeout_ms=700, consumer_heartbeat_interval_ms=100)
    a, (m,) = mixed(t)
    a.leave()
    m.join_now("joins again")
    m.sync_now(shares={"M": {t.t3: [0, 1, 2]}})
    t.sleep(1.2)
    m.beat()
    described(t)


@AREA.scenario
def deletion_after_it(t: Stage) -> None:
    """The converted group is deleted after its last member, M, has left."""
    a, (m,) = mixed(t)
    a.leave()
    t.delete_groups()
    m.leave()
    described(t)
    t.delete_groups()
    listed(t)
