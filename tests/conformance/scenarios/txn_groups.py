"""Offsets in transactions: when they are pending and settled, and requests meanwhile."""

from __future__ import annotations

from typing import Any

from tests.conformance import reads
from tests.conformance.producers import Producer, error
from tests.conformance.scenarios.txn_markers import write
from tests.conformance.stage import Area, Stage

AREA = Area("txn_groups")


def _look(t: Stage, label: str) -> None:
    """Record the committed offsets, then those of a consumer that requires stable ones."""
    t.offs(label=f"{label}, offsets")
    t.fetch([(t.t1, [0]), (t.t3, [0, 1])], 7, label=f"{label}, stable", require_stable=True)


def _started(t: Stage, name: str, protocol: int) -> Producer:
    """Return a producer whose transaction may commit offsets of the group, unrecorded."""
    p = Producer(t, name, protocol).started()
    if protocol == 1:
        t.setup(p.add_offsets)
    return p


@AREA.each(v=range(6))
def without_adding(t: Stage, v: int) -> None:
    """TxnOffsetCommit v{v} names a group that was not added to the transaction."""
    p = Producer(t).started()
    p.commit_offsets([(t.t1, 0, 7)], version=v)
    p.look()
    p.add_offsets()
    p.commit_offsets([(t.t1, 0, 7)], "added", version=v)
    p.commit()
    p.commit_offsets([(t.t1, 0, 9)], "after the end", version=v)
    p.look()
    t.offs()


@AREA.each(protocol=[1, 2], committed=[True, False])
def pending_and_settled(t: Stage, protocol: int, committed: bool) -> None:
    """A v{protocol} transaction (committed: {committed}) commits over older plain offsets."""
    t.commit([(t.t1, 0, 5), (t.t3, 0, 6)], label="plain")
    p = _started(t, "P", protocol)
    p.commit_offsets([(t.t1, 0, 10), (t.t3, 1, 11)])
    _look(t, "pending")
    p.commit_offsets([(t.t1, 0, 12)], "again")
    p.end(committed)
    p.settle()
    _look(t, "settled")


@AREA.each(protocol=[1, 2])
def plain_commit_while_pending(t: Stage, protocol: int) -> None:
    """A plain commit comes after a pending commit of a v{protocol} transaction, and wins."""
    p = _started(t, "P", protocol)
    p.commit_offsets([(t.t1, 0, 10), (t.t3, 0, 20)])
    t.commit([(t.t1, 0, 3)], label="plain")
    _look(t, "pending")
    p.commit()
    _look(t, "committed")


@AREA.each(protocol=[1, 2], last=["P", "Q"])
def two_transactions(t: Stage, protocol: int, last: str) -> None:
    """Two v{protocol} transactions commit offsets of one partition; {last} ends last."""
    p, q = _started(t, "P", protocol), _started(t, "Q", protocol)
    p.commit_offsets([(t.t1, 0, 10), (t.t3, 0, 1)])
    q.commit_offsets([(t.t1, 0, 20), (t.t3, 1, 2)])
    first, second = (p, q) if last == "Q" else (q, p)
    first.commit()
    _look(t, "one ended")
    second.commit()
    _look(t, "both ended")


@AREA.each(protocol=[1, 2])
def abort_beside_commit(t: Stage, protocol: int) -> None:
    """Two v{protocol} transactions have the same partition: one aborts, the other commits."""
    p, q = _started(t, "P", protocol), _started(t, "Q", protocol)
    p.commit_offsets([(t.t1, 0, 10)])
    q.commit_offsets([(t.t1, 0, 20)])
    q.abort()
    _look(t, "aborted")
    p.commit()
    _look(t, "committed")


@AREA.each(protocol=[1, 2])
def deletions_while_pending(t: Stage, protocol: int) -> None:
    """OffsetDelete and DeleteGroups come while a v{protocol} transaction has pending offsets."""
    t.commit([(t.t1, 0, 5), (t.t3, 0, 6)], label="plain")
    p = _started(t, "P", protocol)
    p.commit_offsets([(t.t1, 0, 10), (t.t3, 1, 11)])
    t.delete_offsets((t.t1, 0), (t.t3, 1), label="OffsetDelete")
    _look(t, "after OffsetDelete")
    t.delete_groups(label="DeleteGroups")
    _look(t, "after DeleteGroups")
    t.state()
    p.commit()
    _look(t, "committed")
    t.state()


@AREA.each(protocol=[1, 2])
def new_group_that_is_deleted(t: Stage, protocol: int) -> None:
    """A group has nothing but pending offsets of a v{protocol} transaction."""
    p = _started(t, "P", protocol)
    p.commit_offsets([(t.t1, 0, 10)])
    t.state(label="pending")
    t.delete_groups(label="DeleteGroups")
    t.state(label="deleted")
    _look(t, "deleted")
    p.abort()
    t.state(label="aborted")
    _look(t, "aborted")


@AREA.each(protocol=[1, 2])
def member_checks(t: Stage, protocol: int) -> None:
    """TxnOffsetCommit v{protocol} has a member's id and generation, other ones, and none."""
    (a,) = t.stable("A")
    p = _started(t, "P", protocol)
    known: dict[str, Any] = {"member_id": a.id, "generation_id": a.gen}
    cases: dict[str, dict[str, Any]] = {
        "right": {},
        "older generation": {"generation_id": a.gen - 1},
        "newer generation": {"generation_id": a.gen + 1},
        "unknown member": {"member_id": "ghost"},
        "no member": {"member_id": "", "generation_id": -1},
        "member, no generation": {"generation_id": -1},
        "generation, no member": {"member_id": ""},
        "instance that is not known": {"group_instance_id": "i9"},
    }
    for note, changes in cases.items():
        p.commit_offsets([(t.t1, 0, 7)], note, **known | changes)
    p.commit()
    _look(t, "committed")


@AREA.each(protocol=[1, 2])
def generation_of_a_group_that_is_not_there(t: Stage, protocol: int) -> None:
    """TxnOffsetCommit v{protocol} has a member and generation of an unknown group."""
    p = _started(t, "P", protocol)
    p.commit_offsets([(t.t1, 0, 7)], "generation 3", member_id="ghost", generation_id=3)
    p.commit_offsets([(t.t1, 0, 7)], "generation -1", member_id="ghost", generation_id=-1)
    p.commit_offsets([(t.t1, 0, 7)], "no member, generation 3", generation_id=3)
    p.look()
    t.state()
    p.abort()
    t.state()


@AREA.each(protocol=[1, 2])
def rebalance_while_pending(t: Stage, protocol: int) -> None:
    """TxnOffsetCommit v{protocol} comes during a rebalance, and ends in the next generation."""
    (a,) = t.preparing("A")
    p = _started(t, "P", protocol)
    known: dict[str, Any] = {"member_id": a.id, "generation_id": a.gen}
    p.commit_offsets([(t.t1, 0, 7)], "preparing", **known)
    _look(t, "preparing")
    t.end_round([t.waiting], a)
    p.commit_offsets([(t.t1, 0, 8)], "completing, old generation", **known)
    p.commit_offsets([(t.t1, 0, 9)], "completing", **known | {"generation_id": a.gen})
    p.commit()
    _look(t, "committed")


@AREA.each(protocol=[1, 2])
def topics_and_metadata(t: Stage, protocol: int) -> None:
    """TxnOffsetCommit v{protocol} has unknown topics, long metadata, negative offsets, nothing."""
    p = _started(t, "P", protocol)
    unknown = f"{t.g}-none"
    t.name_it(unknown, "<none>")
    p.commit_offsets([(unknown, 0, 7), (t.t1, 0, 8), (t.t1, 5, 9)], "unknown beside known")
    p.commit_offsets([(unknown, 0, 7)], "unknown alone")
    p.commit_offsets([(t.t3, 0, -1)], "offset -1")
    p.commit_offsets([(t.t3, 1, -5)], "offset -5")
    p.commit_offsets([], "nothing")
    p.look()
    p.commit()
    _look(t, "committed")


@AREA.each(protocol=[1, 2])
def two_groups(t: Stage, protocol: int) -> None:
    """A v{protocol} transaction commits offsets of two groups."""
    other = t.group("other")
    p = _started(t, "P", protocol)
    if protocol == 1:
        t.setup(p.add_offsets, group_id=other)
    p.commit_offsets([(t.t1, 0, 7)])
    p.commit_offsets([(t.t1, 0, 8)], "other group", group_id=other)
    p.commit()
    t.offs()
    t.offs(other, label="offsets of the other group")


@AREA.each(protocol=[1, 2])
def records_and_offsets(t: Stage, protocol: int) -> None:
    """A v{protocol} producer consumes, transforms and produces three times; the second aborts."""
    topic = t.topic()
    p = Producer(t, "P", protocol).started()
    for number, committed in enumerate((True, False, True)):
        p.begin((topic, 0))
        if protocol == 1:
            p.add_offsets()
        p.commit_offsets([(t.t1, 0, number + 1)])
        p.end(committed)
        p.settle()
        t.offs()
    reads.log(t, topic)


@AREA.each(protocol=[1, 2])
def fenced_with_pending_offsets(t: Stage, protocol: int) -> None:
    """A v{protocol} producer is fenced, and its pending offsets are dropped."""
    p = _started(t, "P", protocol)
    p.commit_offsets([(t.t1, 0, 7)])
    q = p.fence()
    _look(t, "fenced")
    p.commit_offsets([(t.t1, 0, 8)], "fenced")
    p.commit_offsets([(t.t1, 0, 8)], "epoch of the fence", producer_epoch=p.epoch + 1)
    if protocol == 1:
        q.add_offsets()
    q.commit_offsets([(t.t1, 0, 9)])
    q.commit()
    _look(t, "committed")


@AREA.each(v=[1, 2])
def markers_of_other_producers(t: Stage, v: int) -> None:
    """WriteTxnMarkers v{v} of a producer without pending offsets changes nothing."""
    p, q = _started(t, "P", 1), _started(t, "Q", 1)
    p.commit_offsets([(t.t1, 0, 7)])
    (index,) = (one for topic in p.describe()["topics"] for one in topic["partitions"])
    write(q, [("__consumer_offsets", index)], "of Q", v, committed=True)
    _look(t, "after the marker of Q")
    p.commit()
    _look(t, "committed")


@AREA.scenario
def topics_by_id(t: Stage) -> None:
    """TxnOffsetCommit 6 has known and unknown topic ids and partitions."""
    ids = {symbol: topic_id for topic_id, symbol in t.env.topic_ids.items()}
    names = {topic_id: symbol for symbol, topic_id in ids.items()} | {bytes([7]) * 16: "unknown"}
    p = _started(t, "P", 2)

    def commit(label: str, *topics: tuple[bytes, list[int]], **changes: object) -> None:
        offset = {"committed_offset": 7, "committed_leader_epoch": -1, "committed_metadata": ""}
        body = {
            "transactional_id": p.transactional_id,
            "group_id": t.g,
            "producer_id": p.producer_id,
            "producer_epoch": p.epoch,
            "topics": [
                {
                    "topic_id": topic_id,
                    "partitions": [{"partition_index": one, **offset} for one in partitions],
                }
                for topic_id, partitions in topics
            ],
        }
        answer = t.raw("TxnOffsetCommit", 6, body | changes)
        shown = [
            [
                names.get(topic["topic_id"], "zero"),
                [(one["partition_index"], error(one["error_code"])) for one in topic["partitions"]],
            ]
            for topic in answer["topics"]
        ]
        t.rec(label, shown)

    one, three, unknown = ids["<id:t1>"], ids["<id:t3>"], bytes([7]) * 16
    commit("generation of a group that is not there", (one, [0]), generation_id=3, member_id="m")
    commit("known", (one, [0]), (three, [0, 2]))
    commit("unknown topic", (unknown, [0, 1]))
    commit("all kinds", (three, [1, 9]), (unknown, [0]), (one, [5, 0]), (bytes(16), [0]))
    commit("wrong generation", (one, [0]), generation_id=3)
    p.commit()
    t.offs()
