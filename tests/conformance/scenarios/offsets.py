"""OffsetCommit, OffsetFetch and OffsetDelete in every state, by every kind of caller."""

from __future__ import annotations

from typing import Any

from tests.conformance.members import Member
from tests.conformance.producers import Producer
from tests.conformance.stage import Area, Stage
from tests.conformance.subscriptions import Raw, assignment, subscription

AREA = Area("offsets")
STATES = ["unknown", "empty", "preparing", "completing", "stable"]


@AREA.each(state=STATES, version=[2, 8, 9])
def callers(t: Stage, state: str, version: int) -> None:
    """Whose offset is stored if every kind of caller commits with v{version} in {state}?"""
    a, _ = t.reach(state, "A", "B")
    everybody: list[tuple[str, dict[str, Any]]] = [
        ("member", {"gen": a.gen, "member": a.id}),
        ("its last generation", {"gen": a.gen - 1, "member": a.id}),
        ("its next generation", {"gen": a.gen + 1, "member": a.id}),
        ("its id without generation", {"gen": -1, "member": a.id}),
        ("its generation without id", {"gen": a.gen, "member": ""}),
        ("stranger", {"gen": a.gen, "member": "ghost"}),
        ("stranger without generation", {"gen": -1, "member": "ghost"}),
        ("generation 0", {"gen": 0, "member": ""}),
        ("generation -2", {"gen": -2, "member": ""}),
        ("standalone", {"gen": -1, "member": ""}),
    ]
    for offset, (label, caller) in enumerate(everybody):
        t.commit([(t.t1, 0, offset)], version, label=label, **caller)
        t.offs(label=f"offsets after {label}")
    t.state()


@AREA.each(state=STATES)
def instances(t: Stage, state: str) -> None:
    """Commits in {state} have own, foreign and unknown instance ids, or no member id."""
    a, b = t.reach(state, *t.static("A", "B"))
    callers = [
        ("own", a.gen, a.id, "i-A"),
        ("no instance", a.gen, a.id, None),
        ("another's", a.gen, a.id, "i-B"),
        ("unknown", a.gen, a.id, "i-none"),
        ("no member id", a.gen, "", "i-A"),
        ("no member id, no generation", -1, "", "i-A"),
        ("old generation", a.gen - 1, b.id, "i-B"),
        ("another's, old generation", a.gen - 1, a.id, "i-B"),
    ]
    for offset, (label, generation, member_id, instance_id) in enumerate(callers):
        t.commit(
            [(t.t1, 0, offset)], gen=generation, member=member_id, inst=instance_id, label=label
        )
    t.offs()


@AREA.each(state=["empty", "preparing", "completing", "stable"])
def pending_id_commits(t: Stage, state: str) -> None:
    """A pending member id commits in {state}."""
    t.reach(state, "A", "B")
    x = t.member("X")
    x.join_now()
    x.commit([(t.t1, 0, 1)], gen=2, note="generation 2")
    x.commit([(t.t1, 0, 2)], gen=-1, note="no generation")
    t.offs()


@AREA.scenario
def some_partitions_of_a_refused_commit(t: Stage) -> None:
    """Which errors have the good, unknown and too long partitions of a refused caller?"""
    t.reach("stable", "A")
    partitions = [(t.t3, 0, 1), (t.t3, 9, 1), ("cf-none", 0, 1), (t.t3, 1, 1, "m" * 5000)]
    t.commit(partitions, gen=1, member="ghost", label="stranger")
    t.commit(partitions, gen=9, label="no member")
    t.commit([], gen=1, member="ghost", label="stranger, nothing")
    t.commit([("cf-none", 0, 1)], gen=1, member="ghost", label="stranger, unknown topic")


@AREA.scenario
def some_partitions_of_a_commit(t: Stage) -> None:
    """A member commits good, unknown and too long offsets, and the good ones are stored."""
    (a,) = t.reach("stable", "A")
    a.commit(
        [(t.t3, 0, 1), (t.t3, 9, 1), ("cf-none", 0, 1), (t.t3, 1, 1, "m" * 5000), (t.t1, 0, 5)]
    )
    a.commit([(t.t3, -1, 1), (t.t3, 2, 7, None, 12)])
    t.offs()


@AREA.each(version=[2, 7, 9])
def nothing_to_commit(t: Stage, version: int) -> None:
    """A commit without topics (v{version}) comes for an unknown group, and from a member."""
    t.commit([], version, label="standalone")
    t.state()
    t.commit([], version, gen=3, label="generation of an unknown group")
    (a,) = t.reach("stable", "A")
    a.commit([], v=version)
    t.commit([], version, label="standalone beside a member")
    for topic, label in ((t.t1, "a topic"), ("cf-none", "an unknown topic")):
        empty = {"group_id": t.g, "topics": [{"name": topic, "partitions": []}]}
        t.ask("OffsetCommit", version, empty, f"{label} without partitions")


@AREA.each(version=[2, 7, 9], pending=[False, True])
def refused_by_its_metadata(t: Stage, version: int, pending: bool) -> None:
    """A refused commit (v{version}, in a transaction: {pending}) creates the group.

    Kafka shows the group only after the next record in its partition, so nothing is described.
    """
    offsets = [(t.t1, 0, 1, "m" * 5000)]
    if pending:
        Producer(t, "P", 2).started().commit_offsets(offsets)
    else:
        t.commit(offsets, version)
    t.delete_offsets((t.t1, 0))
    t.commit([(t.t1, 0, 1)], version, gen=1, label="generation 1")
    t.delete_groups(t.g)
    t.state(label="deleted")


@AREA.scenario
def through_a_rebalance(t: Stage) -> None:
    """A member commits when it must rejoin, has rejoined, and before it syncs."""
    a, b = t.reach("stable", "A", "B")
    join = a.join()
    t.parked(join)
    b.commit([(t.t1, 0, 1)], note="asked to rejoin")
    a.commit([(t.t1, 0, 2)], note="has rejoined")
    t.got(b.join(), join)
    b.commit([(t.t1, 0, 3)], note="not synced")
    b.commit([(t.t1, 0, 4)], gen=b.gen - 1, note="not synced, old generation")
    sync = b.sync()
    t.parked(sync)
    b.commit([(t.t1, 0, 5)], note="sync parked")
    t.got(a.sync(), sync)
    b.commit([(t.t1, 0, 6)], note="stable")
    t.offs()


@AREA.scenario
def last_commit_after_leaving(t: Stage) -> None:
    """A former member's commit is refused while there are members, and accepted in Empty."""
    a, b = t.reach("stable", "A", "B")
    b.leave()
    b.commit([(t.t1, 0, 1)], note="preparing")
    a.leave()
    b.commit([(t.t1, 0, 2)], note="empty")
    b.commit([(t.t1, 0, 3)], gen=-1, note="empty, no generation")
    t.offs()


@AREA.scenario
def newcomer_commits_while_parked(t: Stage) -> None:
    """With which generation may a parked newcomer commit?"""
    (a,) = t.reach("preparing", "A")
    for generation in (-1, 0, a.gen, a.gen + 1):
        t.newcomer.commit([(t.t1, 0, generation)], gen=generation, note=f"generation {generation}")
    t.offs()


@AREA.each(version=[8, 9])
def fetch_by_anybody_in_every_state(t: Stage, version: int) -> None:
    """Every caller may fetch offsets in every state (v{version})."""
    t.setup(t.commit, [(t.t1, 0, 5), (t.t3, 2, 6, "note", 3)])
    asked = {"group_id": t.g, "topics": [{"name": t.t3, "partition_indexes": [2, 0, 2]}]}
    for state in ("empty", "stable"):
        t.ask("OffsetFetch", version, {"groups": [asked]}, f"named, {state}")
        if state == "empty":
            t.reach("stable", "A")
    everything = {"group_id": t.g, "topics": None}
    t.ask("OffsetFetch", version, {"groups": [everything, asked]}, "the same group twice")
    t.ask("OffsetFetch", version, {"groups": []}, "no group")


@AREA.each(named=["known", "unknown"])
def topic_named_twice(t: Stage, named: str) -> None:
    """Are there one or two results if a request names a {named} topic twice?"""
    topic = t.t3 if named == "known" else "cf-none"
    partitions = [{"partition_index": 0, "committed_offset": 1}]
    others = [{"partition_index": 1, "committed_offset": 2}]
    topics = [{"name": topic, "partitions": one} for one in (partitions, others)]
    t.ask("OffsetCommit", 7, {"group_id": t.g, "topics": topics})
    t.fetch([(topic, [0]), (topic, [1])], 7)
    t.offs()


@AREA.scenario
def fetch_of_partitions_named_twice(t: Stage) -> None:
    """OffsetFetch names the same topic twice, and the same partition twice."""
    t.setup(t.commit, [(t.t1, 0, 5)])
    t.fetch([(t.t1, [0, 0]), (t.t1, [0])], 7)
    t.fetch([(t.t1, [])], 7, label="no partitions")


# OffsetDelete


def _reading(t: Stage, name: str, *topics: str) -> Member:
    return t.member(name, protos=[("range", subscription(topics, version=0))])


@AREA.each(state=["empty", "preparing", "completing", "stable"])
def delete_of_read_and_unread(t: Stage, state: str) -> None:
    """OffsetDelete in {state} names a topic that is read and one that is not."""
    t.setup(t.commit, [(t.t1, 0, 1), (t.t3, 0, 2)])
    t.reach(state, _reading(t, "A", t.t1))
    t.delete_offsets((t.t1, 0), (t.t3, 0), (t.t3, 7))
    t.offs()
    t.state()


@AREA.scenario
def delete_of_what_only_a_newcomer_reads(t: Stage) -> None:
    """OffsetDelete may name a parked newcomer's topics until the rebalance is over."""
    t.setup(t.commit, [(t.t1, 0, 1), (t.t3, 0, 2)])
    (a,) = t.reach("stable", _reading(t, "A", t.t1))
    newcomer = t.member("N", v=3, protos=[("range", subscription([t.t3], version=0))])
    join = newcomer.join()
    t.parked(join)
    t.delete_offsets((t.t3, 0))
    t.offs()
    t.setup(t.got, a.join(), join)
    t.delete_offsets((t.t3, 0), (t.t1, 0), label="afterwards")


@AREA.scenario
def delete_of_what_a_former_member_read(t: Stage) -> None:
    """OffsetDelete names a topic whose only reader has left, during and after the rebalance."""
    t.setup(t.commit, [(t.t1, 0, 1), (t.t3, 0, 2)])
    a, b = t.reach("stable", _reading(t, "A", t.t1), _reading(t, "B", t.t3))
    b.leave()
    t.delete_offsets((t.t3, 0), label="preparing")
    t.setup(a.join_now)
    t.delete_offsets((t.t3, 0), label="completing")
    t.offs()


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


@AREA.scenario
def delete_from_unknown_groups(t: Stage) -> None:
    """OffsetDelete names an unknown group, a pending member id's group, and nothing."""
    t.delete_offsets((t.t1, 0), label="unknown group")
    t.delete_offsets(("cf-none", 0), label="unknown group, unknown topic")
    t.delete_offsets(label="unknown group, nothing")
    x = t.member("X")
    x.join_now()
    t.delete_offsets((t.t1, 0), label="only an id given out")
    t.state()


@AREA.scenario
def delete_twice_in_one_request(t: Stage) -> None:
    """One OffsetDelete names the same partition twice."""
    t.setup(t.commit, [(t.t1, 0, 1), (t.t3, 0, 2)])
    t.delete_offsets((t.t1, 0), (t.t1, 0))
    t.offs()


@AREA.scenario
def delete_with_unreadable_subscriptions(t: Stage) -> None:
    """If one of two subscriptions is unreadable, every topic counts as read."""
    t.setup(t.commit, [(t.t1, 0, 1), (t.t3, 0, 2)])
    t.reach("stable", _reading(t, "A", t.t1), t.member("B", protos=[("range", Raw(b"\x01"))]))
    t.delete_offsets((t.t1, 0), (t.t3, 0))
    t.offs()


@AREA.scenario
def what_members_read_after_a_static_restart(t: Stage) -> None:
    """Which subscription counts after a static member restarts with another one?"""
    t.setup(t.commit, [(t.t1, 0, 1), (t.t3, 0, 2)])
    a = t.member("A", v=9, inst="i-A", protos=[("range", subscription([t.t1], version=0))])
    t.reach("stable", a)
    t.again(a, "X", protos=[("range", subscription([t.t3], version=0))]).join_now(
        note="reads another topic"
    )
    t.delete_offsets((t.t1, 0), (t.t3, 0))
    t.offs()


@AREA.scenario
def real_assignments_show_as_they_are(t: Stage) -> None:
    """DescribeGroups returns assignments byte by byte, even during the next rebalance."""
    a, b = t.reach("completing", _reading(t, "A", t.t3), _reading(t, "B", t.t3))
    shares = {a.id: assignment({t.t3: [0, 1]}, version=0), b.id: assignment({t.t3: [2]}, version=0)}
    t.got(a.sync(assign=shares), b.sync())
    t.state()
    join = a.join()
    t.parked(join)
    t.state()
