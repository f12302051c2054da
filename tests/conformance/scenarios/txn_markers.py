"""WriteTxnMarkers as sent by brokers and `kafka-transactions abort` (KIP-664, KIP-1228)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.conformance import reads
from tests.conformance.producers import Partition, Producer, by_topic, error
from tests.conformance.stage import Area, Stage

AREA = Area("txn_markers")


def write(
    p: Producer,
    partitions: Sequence[Partition],
    note: str,
    v: int,
    *,
    committed: bool = False,
    coordinator_epoch: int = -1,
    transaction_version: int = 0,
    **changes: Any,
) -> None:
    """Send WriteTxnMarkers with one marker; record the errors by partition."""
    marker = {
        "producer_id": p.producer_id,
        "producer_epoch": p.epoch,
        "transaction_result": committed,
        "coordinator_epoch": coordinator_epoch,
        "topics": [
            {"name": name, "partition_indexes": indexes} for name, indexes in by_topic(partitions)
        ],
        **changes,
    }
    if v >= 2:
        marker["transaction_version"] = transaction_version
    answer = p.t.raw("WriteTxnMarkers", v, {"markers": [marker]})
    shown = [
        [
            p.t.producer(one["producer_id"]),
            p.t.partition(topic["name"], partition["partition_index"]),
            error(partition["error_code"]),
        ]
        for one in answer["markers"]
        for topic in one["topics"]
        for partition in topic["partitions"]
    ]
    p.t.rec(f"WriteTxnMarkers v{v} {note}", sorted(shown))


@AREA.each(v=[1, 2], committed=[True, False])
def an_open_transaction(t: Stage, v: int, committed: bool) -> None:
    """WriteTxnMarkers v{v} (committed: {committed}) ends a transaction without its coordinator."""
    topic = t.topic()
    p = Producer(t).begun((topic, 0))
    write(p, [(topic, 0)], "", v, committed=committed)
    reads.log(t, topic)
    reads.producers(t, topic)
    p.look("the coordinator has not noticed")
    p.produce([(topic, 0)], "after the marker")
    write(p, [(topic, 0)], "again", v, committed=committed)
    p.commit()
    reads.log(t, topic)
    reads.producers(t, topic)


@AREA.each(v=[1, 2])
def nothing_open(t: Stage, v: int) -> None:
    """WriteTxnMarkers v{v} names a producer without records, and one without a transaction."""
    topic = t.topic()
    p = Producer(t).started()
    write(p, [(topic, 0)], "never wrote here", v)
    reads.log(t, topic)
    reads.producers(t, topic)
    t.setup(p.begin, (topic, 0))
    t.setup(p.commit)
    write(p, [(topic, 0)], "has ended", v)
    write(p, [(topic, 0)], "has ended, commit", v, committed=True)
    reads.log(t, topic)
    reads.producers(t, topic)


@AREA.each(v=[1, 2], transaction_version=[0, 1, 2])
def epochs(t: Stage, v: int, transaction_version: int) -> None:
    """WriteTxnMarkers v{v} (transactions v{transaction_version}) has older and newer epochs."""
    topic = t.topic()
    where = [(topic, 0)]
    p = Producer(t)
    for _ in range(3):
        t.setup(p.init)
    t.setup(p.begin, *where)
    options: dict[str, Any] = {"transaction_version": transaction_version}
    write(p, where, "older epoch", v, producer_epoch=p.epoch - 1, **options)
    reads.producers(t, topic, 0, "older")
    write(p, where, "same epoch", v, **options)
    reads.log(t, topic, 0, "same")
    p.produce(where, "after it")
    write(p, where, "newer epoch", v, producer_epoch=p.epoch + 1, **options)
    reads.log(t, topic, 0, "newer")
    reads.producers(t, topic, 0, "newer")
    write(p, where, "newer epoch again", v, producer_epoch=p.epoch + 1, **options)
    write(p, where, "newer epoch, commit", v, producer_epoch=p.epoch + 1, committed=True, **options)
    write(p, where, "the epoch before", v, **options)
    reads.log(t, topic, 0, "end")
    reads.producers(t, topic, 0, "end")


@AREA.each(v=[1, 2])
def coordinator_epochs(t: Stage, v: int) -> None:
    """WriteTxnMarkers v{v} of an older coordinator epoch is fenced."""
    topic = t.topic()
    where = [(topic, 0)]
    p = Producer(t).begun((topic, 0))
    write(p, where, "coordinator 5", v, coordinator_epoch=5)
    reads.producers(t, topic)
    write(p, where, "coordinator 4", v, coordinator_epoch=4)
    write(p, where, "coordinator -1", v)
    write(p, where, "coordinator 5 again", v, coordinator_epoch=5)
    reads.log(t, topic)
    reads.producers(t, topic)


@AREA.each(v=[1, 2])
def partitions(t: Stage, v: int) -> None:
    """WriteTxnMarkers v{v} names known and unknown partitions and producers."""
    topic = t.topic(2)
    unknown = f"{t.g}-none"
    t.name_it(unknown, "<none>")
    p = Producer(t).begun((topic, 0), (topic, 1))
    write(p, [(unknown, 0)], "unknown topic", v)
    write(p, [(topic, 0), (topic, 9), (unknown, 0)], "known and unknown", v)
    reads.log(t, topic, 0)
    reads.log(t, topic, 1)
    write(p, [(topic, 1)], "the other one", v)
    reads.log(t, topic, 1)
    write(p, [(topic, 1)], "a producer that never was", v, producer_id=1 << 40)


@AREA.each(v=[1, 2])
def offsets_of_groups(t: Stage, v: int) -> None:
    """WriteTxnMarkers v{v} to a group's partition of __consumer_offsets settles its offsets."""
    p = Producer(t).started()
    p.add_offsets()
    p.commit_offsets([(t.t1, 0, 7)])
    t.fetch([(t.t1, [0])], 7, label="pending", require_stable=True)
    (partition,) = (index for topic in p.describe()["topics"] for index in topic["partitions"])
    write(p, [("__consumer_offsets", partition)], "commit", v, committed=True)
    t.fetch([(t.t1, [0])], 7, label="settled", require_stable=True)
    p.look()
    p.abort()
    t.offs()
