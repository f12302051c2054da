"""Offsets in transactions: when they are pending and settled, and requests meanwhile."""

from __future__ import annotations

from tests.conformance import reads
from tests.conformance.producers import Producer, error
from tests.conformance.scenarios.txn_markers import write
from tests.conformance.stage import Area, Stage

AREA = Area("txn_groups")


def _look(t: Stage, label: str) -> None:
    """Record the group's committed offsets, without and with require_stable."""
    t.offs(label=f"{label}, offsets")
    t.fetch([(t.t1, [0]), (t.t3, [0, 1])], 7, label=f"{label}, stable", require_stable=True)


def _started(t: Stage, name: str, protocol: int) -> Producer:
    """Return a producer whose transaction may commit offsets of the group, unrecorded."""
    p = Producer(t, name, protocol).started()
    if protocol == 1:
        t.setup(p.add_offsets)
    return p


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
