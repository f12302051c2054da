"""Upgrades of classic groups to consumer groups, when a consumer joins."""

from __future__ import annotations

from tests.conformance import classic_members
from tests.conformance.classic_members import ClassicMember
from tests.conformance.consumer_members import (
    ConsumerMember,
    listed,
    look,
    look_closely,
    settle,
    silently,
    wait_for_members,
)
from tests.conformance.consumer_offsets import commit, commit_of, fetch
from tests.conformance.stage import Area, Stage
from tests.conformance.subscriptions import assignment, subscription

AREA = Area("conversion_up", "d")


def stable_m(t: Stage, **options: object) -> ClassicMember:
    """Return M, the only member of a Stable classic group, with all of <t3>; generation 1."""
    m = ClassicMember(t, "M", **options)  # type: ignore[arg-type]  # keyword options
    classic_members.stable(t, {"M": {t.t3: [0, 1, 2]}}, m)
    return m


def stable_m_and_n(t: Stage) -> tuple[ClassicMember, ClassicMember]:
    """Return members of a Stable classic group: M has <t3>-0 and <t3>-1, N <t3>-2; generation 2."""
    m, n = ClassicMember(t, "M"), ClassicMember(t, "N")
    classic_members.stable(t, {"M": {t.t3: [0, 1]}, "N": {t.t3: [2]}}, m, n)
    return m, n


@AREA.scenario
def step_by_step(t: Stage) -> None:
    """Consumer A joins M's Stable group: M must rejoin, M revokes, and A gets its share."""
    m = stable_m(t)
    a = ConsumerMember(t, "A")
    a.join()
    look(t)
    look_closely(t)
    listed(t)
    a.beat("waits")
    m.beat()
    m.join_now("joins again, owning everything")
    look(t)
    m.sync_now()
    m.beat()
    m.join_now("joins again, having revoked")
    look(t)
    m.sync_now()
    m.beat()
    a.beat()
    look(t)
    m.beat()


@AREA.scenario
def two_classic_members(t: Stage) -> None:
    """Consumer A joins the Stable group of the classic members M and N."""
    m, n = stable_m_and_n(t)
    a = ConsumerMember(t, "A")
    a.join()
    look(t)
    for member in (m, n):
        member.beat()
        member.rejoin()
        member.beat()
    look(t)
    a.beat()
    m.beat()
    n.beat()
    look(t)


@AREA.each(state=["none", "empty", "simple", "preparing", "completing", "stable"])
def consumer_joins(t: Stage, state: str) -> None:
    """Consumer A joins a classic group that is: {state}."""
    m = ClassicMember(t, "M")
    if state == "simple":
        commit(t, "nobody commits", (t.t3, 0, 5))
    elif state != "none":
        classic_members.stable(t, {"M": {t.t3: [0, 1, 2]}}, m)
    if state == "empty":
        silently(t, commit, t, "", (t.t3, 0, 5), member_id=m.id, epoch=m.generation, version=8)
        silently(t, m.leave)
    waiting = None
    if state == "preparing":
        n = ClassicMember(t, "N")
        silently(t, t.got, n.join())
        waiting = n.join()
        silently(t, t.until, "PreparingRebalance")
    elif state == "completing":
        classic_members.completing(t, m)
    a = ConsumerMember(t, "A")
    a.join()
    look(t)
    listed(t)
    if waiting is not None:
        n.answered(waiting, "is answered")
        n.beat()
    m.beat()
    m.sync_now()
    fetch(t, "A fetches", member_id=a.id, epoch=a.epoch)
    look(t)


@AREA.scenario
def parked_sync_is_answered(t: Stage) -> None:
    """Consumer A joins while N waits for the leader's SyncGroup: N must rejoin."""
    m, n = stable_m_and_n(t)
    classic_members.completing(t, m, n)
    follower, leader = (n, m) if m.leads else (m, n)
    sync = follower.sync()
    t.nap(0.2)
    a = ConsumerMember(t, "A")
    a.join()
    silently(t, t.got, sync)
    t.rec("the follower's sync", sync.raw["error_code"])
    silently(t, leader.beat)
    look_states(t)


def look_states(t: Stage) -> None:
    """Record the group's state and the number of its members."""
    seen = t.raw("ConsumerGroupDescribe", 1, {"group_ids": [t.g]})["groups"][0]
    epochs = [seen["group_epoch"], seen["assignment_epoch"]]
    t.rec("group", [seen["group_state"], epochs, len(seen["members"])])


@AREA.scenario
def pending_member_is_forgotten(t: Stage) -> None:
    """A pending member id exists when the group is converted: can a member join with that id?"""
    m = stable_m(t)
    n = ClassicMember(t, "N")
    silently(t, t.got, n.join())
    a = ConsumerMember(t, "A")
    a.join()
    look(t)
    n.join_now("joins with its id")
    look(t)
    m.beat()


@AREA.scenario
def only_a_pending_member(t: Stage) -> None:
    """Consumer A joins a classic group that has only a pending member id."""
    n = ClassicMember(t, "N")
    silently(t, t.got, n.join())
    a = ConsumerMember(t, "A")
    a.join()
    look(t)
    n.join_now("joins with its id")
    look(t)


UNREADABLE = {
    "text": b"meta",
    "nothing": b"",
    "one byte": b"\x00",
    "a negative version": b"\xff\xff" + b"\x00" * 8,
    "cut off": subscription(["topic"])[:-3],
    "a later version": subscription(["topic"], 3).replace(b"\x00\x03", b"\x00\x09", 1),
    "bytes left over": subscription(["topic"]) + b"more",
}


@AREA.each(metadata=list(UNREADABLE))
def odd_metadata(t: Stage, metadata: str) -> None:
    """Consumer A joins a group with a member whose metadata is: {metadata}."""
    m = stable_m(t, metadata=UNREADABLE[metadata], protocol_type="consumer")
    a = ConsumerMember(t, "A")
    a.join()
    listed(t)
    m.beat()


ASSIGNMENTS = {
    "nothing": b"",
    "one byte": b"\x00",
    "text": b"everything",
    "no topics": assignment({}),
    "user data": assignment({}, user_data=b"x"),
    "empty user data": assignment({}, user_data=b""),
    "an unknown topic": assignment({"no-such": [0]}),
    "a later version": assignment({}, 9),
    "bytes left over": assignment({}) + b"more",
}


@AREA.each(bytes_of=list(ASSIGNMENTS))
def odd_assignments(t: Stage, bytes_of: str) -> None:
    """Consumer A joins a group whose leader assigned itself: {bytes_of}."""
    m = ClassicMember(t, "M")
    silently(t, m.join_now)
    given = [{"member_id": m.id, "assignment": ASSIGNMENTS[bytes_of]}]
    silently(t, t.got, m.sync(assignments=given))
    a = ConsumerMember(t, "A")
    a.join()
    look(t)
    listed(t)
    m.beat()


@AREA.each(user_data=["none", "empty", "some"])
def user_data_in_subscriptions(t: Stage, user_data: str) -> None:
    """Consumer A joins a group whose member has user data in its subscription: {user_data}."""
    data = {"none": None, "empty": b"", "some": b"x"}[user_data]
    m = stable_m(t, metadata=subscription([t.t3], 1, user_data=data))
    ConsumerMember(t, "A").join()
    look(t)
    m.beat()


@AREA.each(protocol_type=["connect", "streams", ""])
def other_protocol_types(t: Stage, protocol_type: str) -> None:
    """Consumer A joins a classic group of the protocol type "{protocol_type}"."""
    m = ClassicMember(t, "M", protocol_type=protocol_type)
    m.join_now()
    m.sync_now(shares={"M": {}})
    a = ConsumerMember(t, "A")
    a.join()
    listed(t)
    m.beat()
    m.leave()
    a.join("joins when it is empty")
    look(t)


@AREA.each(version=[0, 1, 2, 3])
def subscriptions_of_all_versions(t: Stage, version: int) -> None:
    """Member M has a subscription of version {version}, with all fields of that version."""
    m = stable_m(t, subscription_version=version, rack_id="r1", topics=[t.t3, t.t1])
    ConsumerMember(t, "A").join()
    look(t)
    look_closely(t)
    m.join_now("joins again, owning everything")
    m.sync_now()
    m.join_now("joins again, having revoked")
    m.sync_now()
    look(t)


@AREA.each(share=["partitions beyond", "another topic", "not all", "twice"])
def odd_shares(t: Stage, share: str) -> None:
    """Consumer A joins a classic group whose leader has assigned to M: {share}."""
    given = {
        "partitions beyond": {t.t3: [0, 1, 2, 3, 4]},
        "another topic": {t.t1: [0], t.t3: [0]},
        "not all": {t.t3: [1]},
        "twice": {t.t3: [0, 0, 1]},
    }[share]
    m = ClassicMember(t, "M")
    classic_members.stable(t, {"M": given}, m)
    a = ConsumerMember(t, "A")
    a.join()
    look(t)
    m.beat()
    m.join_now("joins again")
    look(t)
    a.ack()
    look(t)


@AREA.scenario
def partition_that_two_have(t: Stage) -> None:
    """Consumer A joins a classic group whose leader has assigned <t3>-0 to both M and N."""
    m, n = ClassicMember(t, "M"), ClassicMember(t, "N")
    classic_members.stable(t, {"M": {t.t3: [0, 1]}, "N": {t.t3: [0, 2]}}, m, n)
    a = ConsumerMember(t, "A")
    a.join()
    listed(t)
    m.beat()
    n.beat()


@AREA.scenario
def full_classic_group(t: Stage) -> None:
    """The group has four classic members, the maximum: A is refused, the group stays classic."""
    group = [ClassicMember(t, name) for name in "KLMN"]
    classic_members.stable(t, {}, *group)
    a = ConsumerMember(t, "A")
    a.join()
    listed(t)
    group[0].beat()
    group[0].leave()
    a.join("tries again")
    listed(t)


@AREA.each(instance=["same", "other"])
def static_classic_member(t: Stage, instance: str) -> None:
    """Consumer A joins with the {instance} instance id as the static classic member M."""
    m = stable_m(t, instance_id="i-M")
    a = ConsumerMember(t, "A", instance_id="i-M" if instance == "same" else "i-A")
    a.join()
    look(t)
    look_closely(t)
    m.beat()
    m.join_now("joins again")
    m.leave()
    a.ack()
    look(t)


@AREA.scenario
def static_member_goes_over(t: Stage) -> None:
    """The static members M and N return with the consumer protocol, one after the other."""
    m = ClassicMember(t, "M", instance_id="i-M")
    n = ClassicMember(t, "N", instance_id="i-N")
    classic_members.stable(t, {"M": {t.t3: [0, 1]}, "N": {t.t3: [2]}}, m, n)
    a = ConsumerMember(t, "A", instance_id="i-M")
    a.join("joins as i-M")
    look(t)
    n.beat()
    n.rejoin()
    look(t)
    b = ConsumerMember(t, "B", instance_id="i-N")
    b.join("joins as i-N")
    look(t)
    settle(t, a, b)
    look(t)
    m.beat()
    n.beat()


@AREA.each(topics=["same", "others", "more", "none"])
def consumer_with_topics(t: Stage, topics: str) -> None:
    """Consumer A joins the group of M with topics that are: {topics}."""
    m = stable_m(t)
    names = {"same": [t.t3], "others": [t.t1], "more": [t.t3, t.t1], "none": []}[topics]
    a = ConsumerMember(t, "A", names)
    a.join()
    look(t)
    m.beat()
    m.join_now("joins again")
    m.sync_now()
    a.ack()
    look(t)


@AREA.scenario
def consumer_with_a_regex(t: Stage) -> None:
    """Consumer A joins the group of M with a regular expression that matches one topic."""
    t.topic(1, "one")
    t.coordinator_learns()
    m = stable_m(t)
    a = ConsumerMember(t, "A", regex=f"{t.g}-.*")
    a.join()
    t.nap(0.4)
    look(t)
    a.beat()
    m.beat()
    look(t)


@AREA.each(assignor=[None, "range", "uniform"])
def consumer_with_assignor(t: Stage, assignor: str | None) -> None:
    """Consumer A joins the group of M and selects the assignor {assignor}."""
    stable_m(t, topics=[t.t1])
    a = ConsumerMember(t, "A", [t.t1], assignor=assignor)
    silently(t, a.join)
    t.rec("epoch", a.epoch)
    seen = t.raw("ConsumerGroupDescribe", 1, {"group_ids": [t.g]})["groups"][0]
    t.rec("assignor", seen["assignor_name"])


@AREA.each(
    refused=["no rebalance timeout", "unknown assignor", "invalid regex", "epoch 1", "leave"]
)
def refused_heartbeats_do_not_convert(t: Stage, refused: str) -> None:
    """A refused heartbeat does not convert the classic group: {refused}."""
    m = stable_m(t)
    a = ConsumerMember(t, "A")
    if refused == "no rebalance timeout":
        a.join(rebalance_timeout_ms=-1)
    elif refused == "unknown assignor":
        a.join(server_assignor="sticky")
    elif refused == "invalid regex":
        a.join(subscribed_topic_regex="[")
    elif refused == "epoch 1":
        a.beat(member_epoch=1)
    else:
        a.leave()
    listed(t)
    m.beat()


@AREA.scenario
def consumer_under_the_id_of_the_classic_member(t: Stage) -> None:
    """Consumer A joins with the classic member's id."""
    m = stable_m(t)
    a = ConsumerMember(t, "A", member_id=m.id)
    t.name_it(m.id, "M")
    a.join("joins under M's id")
    look(t)
    m.beat()
    a.beat()


# ---- classic members that do not rejoin


@AREA.each(who=["M never joins again", "M falls silent"])
def classic_member_stays_behind(t: Stage, who: str) -> None:
    """{who} after the conversion and is removed; consumer A gets all partitions."""
    if who == "M never joins again":
        m = stable_m(t, rebalance_timeout_ms=t.ms(700))
    else:
        m = stable_m(t, session_timeout_ms=t.ms(700))
    a = ConsumerMember(t, "A")
    a.join()
    for _ in range(30):
        if who == "M never joins again" and silently(t, m.beat) == "UNKNOWN_MEMBER_ID":
            break
        t.nap(0.1)
        silently(t, a.beat)
        if len(t.raw("ConsumerGroupDescribe", 1, {"group_ids": [t.g]})["groups"][0]["members"]) < 2:
            break
    wait_for_members(t, "A")
    m.beat()
    settle(t, a)
    look(t)


@AREA.scenario
def classic_member_joins_and_never_syncs(t: Stage) -> None:
    """The classic member M rejoins and does not sync within its rebalance timeout."""
    m = stable_m(t, rebalance_timeout_ms=t.ms(700))
    a = ConsumerMember(t, "A")
    a.join()
    m.beat()
    m.join_now("joins again")
    for _ in range(30):
        t.nap(0.1)
        silently(t, a.beat)
        if silently(t, m.beat) == "UNKNOWN_MEMBER_ID":
            break
    m.sync_now()
    settle(t, a)
    look(t)


# ---- offsets


@AREA.scenario
def offsets_stay(t: Stage) -> None:
    """The consumer group keeps the offsets of the classic group."""
    m = stable_m(t)
    commit(t, "M commits", (t.t3, 0, 5), version=8, member_id=m.id, epoch=m.generation)
    a = ConsumerMember(t, "A")
    a.join()
    fetch(t, "A fetches", member_id=a.id, epoch=a.epoch)
    t.offs()


@AREA.each(version=[7, 8, 9, 10])
def commits_of_the_classic_member(t: Stage, version: int) -> None:
    """After the conversion, M sends OffsetCommit {version} with valid and invalid generations."""
    m = stable_m(t)
    a = ConsumerMember(t, "A")
    a.join()
    generations = {"its own": m.generation, "one more": m.generation + 1, "0": 0, "A's": a.epoch}
    for label, epoch in generations.items():
        commit(t, label, version=version, member_id=m.id, epoch=epoch)
    m.beat()
    silently(t, m.join_now)
    t.rec("generation", m.generation)
    for label, epoch in (("old", 1), ("new", m.generation), ("newer", m.generation + 1)):
        commit(t, label, version=version, member_id=m.id, epoch=epoch)
        if version >= 9:
            fetch(t, f"fetch, {label}", version=version, member_id=m.id, epoch=epoch)
    commit(t, "nobody", version=version)
    commit_of(t, a, "A", version=version)
    t.offs()


@AREA.scenario
def conversion_and_back_to_nothing(t: Stage) -> None:
    """Members M and A leave the converted group: the group is Empty and stays a consumer group."""
    m = stable_m(t)
    a = ConsumerMember(t, "A")
    a.join()
    m.leave()
    look(t)
    a.beat()
    a.leave()
    look(t)
    listed(t)
