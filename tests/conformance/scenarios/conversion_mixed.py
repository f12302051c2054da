"""Classic members in consumer groups, and the answers to their requests."""

from __future__ import annotations

from typing import Any

from tests.conformance.classic_members import ClassicMember
from tests.conformance.consumer_members import (
    ConsumerMember,
    listed,
    look,
    look_closely,
    settle,
    silently,
)
from tests.conformance.consumer_offsets import commit, fetch
from tests.conformance.producers import Producer
from tests.conformance.stage import Area, Stage
from tests.conformance.subscriptions import subscription

AREA = Area("conversion_mixed", "d")


def consumer_a(t: Stage, **options: Any) -> ConsumerMember:
    """Return A, the only member of a consumer group, Stable at epoch 2."""
    return ConsumerMember(t, "A", **options).joined()


def classic_m(t: Stage, **options: Any) -> ClassicMember:
    """Return a classic member with a chosen id, which sorts after A's."""
    options = {"member_id": "member-m", **options}
    return ClassicMember(t, "M", **options)


def mixed(t: Stage, **options: Any) -> tuple[ConsumerMember, ClassicMember]:
    """Return A with <t3>-0 and <t3>-1, and the classic M with <t3>-2, in a group at epoch 3."""
    a, m = consumer_a(t), classic_m(t, **options)
    silently(t, m.join_now)
    silently(t, m.sync_now)
    silently(t, a.beat)
    silently(t, a.ack)
    silently(t, m.join_now)
    silently(t, m.sync_now)
    return a, m


@AREA.scenario
def classic_member_joins_step_by_step(t: Stage) -> None:
    """Classic M joins consumer A's group, and gets partitions once A has revoked and M rejoins."""
    a, m = consumer_a(t), classic_m(t)
    m.join_now()
    look(t)
    look_closely(t)
    m.sync_now()
    m.beat()
    a.beat("is asked to revoke")
    m.beat("nothing is free")
    a.ack("has revoked")
    m.beat("its share is free")
    m.join_now("joins again")
    look(t)
    m.sync_now()
    m.beat()
    look(t)


@AREA.each(version=[0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
def join_versions(t: Stage, version: int) -> None:
    """A newcomer joins the group of A with JoinGroup {version}, without an id."""
    consumer_a(t)
    m = ClassicMember(t, "M", version=version)
    pending = m.join()
    silently(t, t.got, pending)
    shown = t.norm(pending.raw)
    for one in ("member_id",):
        shown[one] = len(pending.raw[one])
    t.rec("answer", shown)
    m.join_now("joins with it")
    m.beat()
    listed(t)


JOINS: dict[str, dict[str, Any]] = {
    "connect": {"protocol_type": "connect"},
    "no protocol type": {"protocol_type": ""},
    "no protocols": {"protocols": []},
    "session 0": {"session_timeout_ms": 0},
    "session too long": {"session_timeout_ms": 1800001},
    "rebalance 0": {"rebalance_timeout_ms": 0},
    "rebalance -1": {"rebalance_timeout_ms": -1},
    "empty instance": {"group_instance_id": ""},
    "empty group": {"group_id": ""},
    "text as metadata": {"protocols": [{"name": "range", "metadata": b"text"}]},
    "no metadata": {"protocols": [{"name": "range", "metadata": b""}]},
    "unnamed protocol": {"protocols": [{"name": "", "metadata": subscription(["x"])}]},
    "A's id": {"member_id": "member-a"},
    "a reason": {"reason": "because"},
}


@AREA.each(case=list(JOINS))
def joins(t: Stage, case: str) -> None:
    """The classic member M joins the group of A with: {case}."""
    a = consumer_a(t)
    m = classic_m(t)
    m.join_now(**JOINS[case])
    t.nap(0.2)  # Wait until a member with a rebalance timeout of 0 would have been removed.
    listed(t)
    a.beat()
    if case == "A's id":
        look(t)


@AREA.each(state=["Empty", "Stable", "Reconciling", "Assigning"])
def joins_in(t: Stage, state: str) -> None:
    """The classic member M joins a consumer group that is {state}."""
    a, b = ConsumerMember(t, "A"), ConsumerMember(t, "B")
    silently(t, a.join)
    if state in ("Reconciling", "Assigning"):
        silently(t, b.join)
        silently(t, a.beat)
    if state == "Assigning":
        settle(t, a, b)
        silently(t, b.leave)
    if state == "Empty":
        silently(t, a.leave)
    m = classic_m(t)
    pending = m.join()
    t.nap(0.2)
    if state == "Empty":
        m.answered(pending)
        # Kafka lists the group only after another write to its offsets partition, so join again.
        m.join_now("joins without id", member_id="")
        listed(t)
        return
    m.answered(pending)
    m.sync_now()
    look(t)
    listed(t)


@AREA.each(protocols=["range", "roundrobin", "cooperative-sticky", "own", "several"])
def protocol_names(t: Stage, protocols: str) -> None:
    """Which of these protocols is returned when the classic member M joins: {protocols}?"""
    consumer_a(t)
    names = {"own": ["mine"], "several": ["roundrobin", "range"]}.get(protocols, [protocols])
    m = classic_m(t, protocols=names)
    m.join_now()
    m.sync_now()
    n = ClassicMember(t, "N", protocols=["range"], member_id="member-n")
    n.join_now("joins with range")
    o = ClassicMember(t, "O", protocols=["range", *names], member_id="member-o")
    o.join_now("joins with both")
    look(t)


@AREA.each(topics=["same", "others", "none", "unknown"])
def subscriptions(t: Stage, topics: str) -> None:
    """The classic member M joins the group of A, subscribed to: {topics}."""
    a = consumer_a(t)
    names = {"same": [t.t3], "others": [t.tx], "none": [], "unknown": ["no-such"]}[topics]
    m = classic_m(t, topics=names)
    m.join_now()
    m.sync_now()
    look(t)
    a.beat()
    look_closely(t)


@AREA.scenario
def topics_change(t: Stage) -> None:
    """The classic member M rejoins with other topics: M must revoke, and rejoin once more."""
    a, m = mixed(t)
    look(t)
    m.topics = [t.t3, t.tx]
    m.rejoin("wants more")
    look(t)
    m.beat()
    m.topics = [t.tx]
    m.rejoin("wants less")
    m.beat()
    m.rejoin("has revoked")
    a.ack()
    look(t)


@AREA.scenario
def joins_again_without_need(t: Stage) -> None:
    """The classic member M rejoins without a change: generation and epoch stay the same."""
    a, m = mixed(t)
    m.rejoin()
    m.rejoin()
    a.beat()
    look(t)


@AREA.scenario
def joins_and_syncs_again(t: Stage) -> None:
    """A classic member may repeat SyncGroup; the assignments that it sends are ignored."""
    _, m = mixed(t)
    m.sync_now()
    m.sync_now("syncs with assignments", {"M": {t.t3: [0, 1, 2]}, "A": {}})
    m.sync_now("syncs with an unknown member", {"X": {t.t3: [0]}})
    look(t)


SYNCS: dict[str, dict[str, Any]] = {
    "later generation": {"generation_id": 9},
    "earlier generation": {"generation_id": 2},
    "generation -1": {"generation_id": -1},
    "unknown member": {"member_id": "member-z"},
    "no member": {"member_id": ""},
    "A's id": {"member_id": "member-a"},
    "an instance": {"group_instance_id": "i-M"},
    "other protocol type": {"protocol_type": "connect"},
    "other protocol": {"protocol_name": "roundrobin"},
    "no protocol": {"protocol_name": None, "protocol_type": None},
    "empty group": {"group_id": ""},
}


@AREA.each(case=list(SYNCS))
def syncs(t: Stage, case: str) -> None:
    """The classic member M syncs in the group of A with: {case}."""
    _, m = mixed(t)
    m.sync_now(**SYNCS[case])
    m.sync_now("syncs rightly")


@AREA.each(version=[0, 1, 2, 3, 4, 5])
def sync_versions(t: Stage, version: int) -> None:
    """Which fields does the answer to SyncGroup {version} have?"""
    _, m = mixed(t)
    pending = m.sync(version=version)
    silently(t, t.got, pending)
    shown = t.norm(pending.raw)
    shown["assignment"] = [len(pending.raw["assignment"]), pending.raw["assignment"][:2].hex()]
    shown["assignment"][0] -= len(t.t3)
    t.rec("answer", shown)


@AREA.each(version=[0, 1, 2, 3])
def assignments_are_of_the_subscriptions_version(t: Stage, version: int) -> None:
    """M's subscription has version {version}: which version does M's assignment have?"""
    _, m = mixed(t, subscription_version=version)
    pending = m.sync()
    silently(t, t.got, pending)
    t.rec("version", pending.raw["assignment"][:2].hex())


HEARTBEATS: dict[str, dict[str, Any]] = {
    "later generation": {"generation_id": 9},
    "earlier generation": {"generation_id": 2},
    "generation -1": {"generation_id": -1},
    "unknown member": {"member_id": "member-z"},
    "no member": {"member_id": ""},
    "A's id": {"member_id": "member-a"},
    "an instance": {"group_instance_id": "i-M"},
}


@AREA.each(version=[0, 3, 4])
def heartbeats(t: Stage, version: int) -> None:
    """Heartbeat {version} of M in the group of A has valid and invalid fields."""
    _, m = mixed(t)
    m.beat(version=version)
    for case, fields in HEARTBEATS.items():
        if version >= 3 or "group_instance_id" not in fields:
            m.beat(f"beats with {case}", version=version, **fields)


@AREA.scenario
def consumer_heartbeat_of_a_classic_member(t: Stage) -> None:
    """ConsumerGroupHeartbeat has classic M's id: first with M's generation, then to leave."""
    _, m = mixed(t)
    x = ConsumerMember(t, "M", member_id=m.id)
    x.beat("beats with the generation", member_epoch=m.generation)
    look_closely(t)
    m.beat("beats")
    x.leave("leaves")
    look(t)


@AREA.scenario
def classic_member_goes_over(t: Stage) -> None:
    """Classic M joins with the consumer protocol under its own id, and keeps its partitions."""
    a, m = mixed(t)
    x = ConsumerMember(t, "M", member_id=m.id)
    x.join("joins as a consumer")
    look(t)
    m.beat("beats")
    m.rejoin("joins again")
    x.beat("beats as a consumer")
    a.beat()
    look(t)


@AREA.scenario
def consumer_goes_back(t: Stage) -> None:
    """Consumer A joins with the classic protocol under its own id, beside another consumer."""
    a, b = ConsumerMember(t, "A"), ConsumerMember(t, "B")
    silently(t, a.join)
    silently(t, b.join)
    settle(t, a, b)
    m = ClassicMember(t, "A", member_id=a.id)
    m.join_now("joins with the classic protocol")
    look(t)
    m.sync_now()
    a.beat("beats as a consumer")
    look(t)


# ---- leaving


@AREA.each(version=[0, 1, 2, 3, 4, 5])
def leaves(t: Stage, version: int) -> None:
    """The classic member M leaves the group of A with LeaveGroup {version}."""
    a, m = mixed(t)
    m.leave(version=version)
    look(t)
    m.leave("leaves again", version=version)
    m.beat()
    a.ack()
    look(t)


@AREA.scenario
def leaves_of_many(t: Stage) -> None:
    """LeaveGroup removes a classic member, a consumer, an unknown member, and a member twice."""
    a, m = mixed(t)
    b = ConsumerMember(t, "B")
    silently(t, b.join)
    each = [{"member_id": one, "group_instance_id": None} for one in (m.id, b.id, "member-z", m.id)]
    m.leave("leaves with others", members=each)
    look(t)
    a.ack()
    b.beat()
    look(t)


@AREA.scenario
def leave_of_static_members(t: Stage) -> None:
    """LeaveGroup removes a consumer and a classic member by valid and invalid instance ids."""
    a, b = (ConsumerMember(t, name, instance_id=f"i-{name}") for name in "AB")
    silently(t, a.join)
    silently(t, b.join)
    m = classic_m(t, instance_id="i-M", member_id="")
    silently(t, m.join_now)
    for label, member_id, instance_id in (
        ("B, by another id", a.id, "i-B"),
        ("unknown instance", "", "i-Z"),
        ("B by its instance", "", "i-B"),
        ("M by its instance", "", "i-M"),
        ("A by both", a.id, "i-A"),
    ):
        each = [{"member_id": member_id, "group_instance_id": instance_id}]
        m.leave(f"removes {label}", members=each)
        look(t)
    listed(t)


@AREA.scenario
def nobody_in_a_leave(t: Stage) -> None:
    """LeaveGroup without members changes nothing."""
    a, m = mixed(t)
    m.leave("removes nobody", members=[])
    a.beat()
    look(t)


# ---- static classic members


@AREA.scenario
def static_classic_member_restarts(t: Stage) -> None:
    """A static classic member returns without an id, and gets a new id and its partitions."""
    a = consumer_a(t)
    m = classic_m(t, instance_id="i-M", member_id="")
    m.join_now()
    silently(t, a.beat)
    silently(t, a.ack)
    silently(t, m.rejoin)
    look(t)
    n = ClassicMember(t, "N", instance_id="i-M")
    n.join_now("restarts as N")
    look(t)
    n.sync_now()
    m.beat("the old one beats")
    m.sync_now("the old one syncs")
    m.join_now("the old one joins")
    n.beat()
    a.beat()
    look(t)


@AREA.scenario
def static_consumer_restarts_as_classic(t: Stage) -> None:
    """B, a static consumer, is replaced by a classic member; A remains a consumer."""
    a = consumer_a(t)
    b = ConsumerMember(t, "B", instance_id="i-B")
    silently(t, b.join)
    settle(t, a, b)
    look(t)
    n = ClassicMember(t, "N", instance_id="i-B")
    n.join_now("comes as i-B")
    look(t)
    n.sync_now()
    b.beat()
    a.beat()
    look(t)


@AREA.each(topics=["same", "others"])
def static_classic_member_goes_over(t: Stage, topics: str) -> None:
    """The static classic M returns as a consumer with topics that are: {topics}."""
    a = consumer_a(t)
    m = classic_m(t, instance_id="i-M", member_id="")
    silently(t, m.join_now)
    silently(t, a.beat)
    silently(t, a.ack)
    silently(t, m.rejoin)
    x = ConsumerMember(t, "X", [t.t3 if topics == "same" else t.tx], instance_id="i-M")
    x.join("comes as i-M")
    look(t)
    m.beat()
    x.ack()
    look(t)


@AREA.each(who=["unknown", "another's"])
def static_id_mix_ups(t: Stage, who: str) -> None:
    """A classic member whose id is {who} joins with the instance id of a current member."""
    consumer_a(t)
    m = classic_m(t, instance_id="i-M", member_id="")
    silently(t, m.join_now)
    n = ClassicMember(t, "N", instance_id="i-M")
    n.join_now(member_id="member-z" if who == "unknown" else "member-a")
    m.beat()
    o = ClassicMember(t, "O", instance_id="i-O")
    o.join_now("joins with a new instance", member_id="member-o")
    listed(t)


# ---- offsets


@AREA.each(version=[4, 5])
def transactions(t: Stage, version: int) -> None:
    """TxnOffsetCommit {version} has classic member M's id with valid and invalid generations."""
    _, m = mixed(t)
    protocol = 2 if version == 5 else 1
    p = Producer(t, "P", protocol).started()
    if protocol == 1:
        silently(t, p.add_offsets)
    for number, generation in enumerate((m.generation, m.generation + 1, m.generation - 1, -1)):
        fields: dict[str, Any] = {"member_id": m.id, "generation_id": generation}
        label = f"generation {generation}"
        p.commit_offsets([(t.t3, 2, number)], label, version=version, **fields)
    p.commit()
    t.offs()


@AREA.scenario
def commits_by_partition(t: Stage) -> None:
    """Classic M commits with an old generation: only partitions owned since then are accepted."""
    a, m = mixed(t)
    silently(t, a.subscribe, t.t3, "no-such")
    silently(t, a.ack)
    silently(t, m.rejoin)
    look(t)
    for generation in (2, 3, 4, 5):
        for offset in ((t.t3, 2, generation), (t.t3, 0, generation)):
            label = f"generation {generation}"
            commit(t, label, offset, epoch=generation, member_id=m.id, version=8)
    fetch(t, "fetch with its own", member_id=m.id, epoch=m.generation)
    fetch(t, "fetch with the former", member_id=m.id, epoch=m.generation - 1)
    t.offs()


@AREA.each(instance=["i-Z", "i-A"])
def commits_with_an_instance(t: Stage, instance: str) -> None:
    """The dynamic classic member M commits with the instance id {instance}."""
    _, m = mixed(t)
    for version in (7, 9):
        identity: dict[str, Any] = {"member_id": m.id, "epoch": m.generation}
        commit(t, f"v{version}", version=version, instance_id=instance, **identity)


@AREA.scenario
def full_group(t: Stage) -> None:
    """The maximum group size, four, counts the members of both protocols."""
    for name in "ABCD":
        silently(t, ConsumerMember(t, name, ["no-such"]).join)
    m = classic_m(t)
    m.join_now()
    ClassicMember(t, "N").join_now("joins without an id")
    listed(t)
