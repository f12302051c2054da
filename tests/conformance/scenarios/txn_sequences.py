"""Sequences of idempotent producers: repeats, wraps, epochs, mixed batches, deletions."""

from __future__ import annotations

from typing import Any

from tests.conformance import batches, reads
from tests.conformance.producers import Producer, error
from tests.conformance.scenarios.txn_markers import write
from tests.conformance.stage import Area, Stage

AREA = Area("txn_sequences")

_LAST = 2147483647


def _idempotent(t: Stage, v: int) -> tuple[Producer, dict[str, Any]]:
    """Return a producer without transactional id, and common fields of its Produce requests."""
    p = Producer(t)
    t.setup(p.init, transactional_id=None)
    return p, {"transactional": False, "transactional_id": None, "version": v}


@AREA.each(v=[7, 12, 13])
def wraps(t: Stage, v: int) -> None:
    """Sequences of Produce v{v} end at 2147483647, pass it, and are repeated."""
    topic = t.topic(2)
    p, plain = _idempotent(t, v)
    where = [(topic, 0)]
    p.produce(where, "ends at the last", sequence=_LAST - 1, records=2, **plain)
    p.produce(where, "goes on at 1", sequence=1, **plain)
    p.produce(where, "goes on at 0", sequence=0, records=2, **plain)
    p.produce(where, "ends at the last, again", sequence=_LAST - 1, records=2, **plain)
    p.produce(where, "at 0, again", sequence=0, records=2, **plain)
    p.produce(where, "at 2", sequence=2, **plain)
    reads.producers(t, topic)
    where = [(topic, 1)]
    p.produce(where, "passes the last", sequence=_LAST - 1, records=4, **plain)
    reads.producers(t, topic, 1)
    p.produce(where, "goes on at 1", sequence=1, **plain)
    p.produce(where, "passes the last, again", sequence=_LAST - 1, records=4, **plain)
    p.produce(where, "goes on at 2", sequence=2, **plain)
    p.produce(where, "passes the last, fewer", sequence=_LAST - 1, records=3, **plain)
    p.produce(where, "at the last", sequence=_LAST, **plain)
    reads.log(t, topic, 1)


@AREA.each(v=[7, 12])
def repeats_of_other_sizes(t: Stage, v: int) -> None:
    """Batches of Produce v{v} overlap earlier batches from each side, or repeat single batches."""
    topic = t.topic()
    where = [(topic, 0)]
    p, plain = _idempotent(t, v)
    for sequence, records in ((0, 3), (3, 1), (4, 5), (9, 2)):
        p.produce(where, f"{records} at {sequence}", sequence=sequence, records=records, **plain)
    for sequence, records in (
        (0, 3),
        (0, 4),
        (1, 2),
        (3, 1),
        (3, 6),
        (4, 5),
        (9, 1),
        (9, 2),
        (10, 1),
    ):
        note = f"{records} at {sequence} again"
        p.produce(where, note, sequence=sequence, records=records, **plain)
    p.produce(where, "11", sequence=11, **plain)
    reads.producers(t, topic)


@AREA.each(v=[7, 12])
def epochs_in_the_middle(t: Stage, v: int) -> None:
    """The epoch of Produce v{v} rises twice, with repeats and gaps in each epoch."""
    topic = t.topic()
    where = [(topic, 0)]
    p, plain = _idempotent(t, v)
    for epoch in (0, 1, 5):
        p.produce(where, f"epoch {epoch}, 2", sequence=2, producer_epoch=epoch, **plain)
        for sequence in (0, 1, 2):
            note = f"epoch {epoch}, {sequence}"
            p.produce(where, note, sequence=sequence, producer_epoch=epoch, **plain)
        for sequence in (0, 2, 4):
            note = f"epoch {epoch}, {sequence} again"
            p.produce(where, note, sequence=sequence, producer_epoch=epoch, **plain)
    p.produce(where, "epoch 1, 2 again", sequence=2, producer_epoch=1, **plain)
    p.produce(where, "epoch 0, 3", sequence=3, producer_epoch=0, **plain)
    p.produce(where, "epoch 32767, 0", sequence=0, producer_epoch=32767, **plain)
    p.produce(where, "epoch -1", sequence=0, producer_epoch=-1, **plain)
    reads.producers(t, topic)
    reads.log(t, topic)


@AREA.each(v=[7, 12])
def unknown_producers(t: Stage, v: int) -> None:
    """Produce v{v} writes the first batches of producers that the log does not know."""
    topic = t.topic()
    where = [(topic, 0)]
    p, plain = _idempotent(t, v)
    for number, (sequence, epoch) in enumerate(((0, 0), (17, 0), (_LAST, 0), (3, 9), (0, -1))):
        p.produce(
            where,
            f"epoch {epoch}, sequence {sequence}",
            sequence=sequence,
            producer_id=5_000_000 + number,
            producer_epoch=epoch,
            **plain,
        )
    reads.log(t, topic)


@AREA.each(v=[3, 9, 13])
def two_batches(t: Stage, v: int) -> None:
    """Produce v{v} refuses two batches for one partition, and accepts them for two."""
    topic = t.topic(2)
    p, plain = _idempotent(t, v)
    p.produce([(topic, 0), (topic, 1)], "each one", **plain)
    data = b"".join(batches.build(p.producer_id, 0, one, 1, False) for one in (1, 2))
    named: dict[str, Any] = {"topic_id": t.own_topics[topic]} if v >= 13 else {"name": topic}
    topic_data = {**named, "partition_data": [{"index": 0, "records": data}]}
    body = {"transactional_id": None, "acks": -1, "timeout_ms": 5000, "topic_data": [topic_data]}
    answer = t.raw("Produce", v, body)["responses"][0]["partition_responses"][0]
    t.rec("two batches", error(answer["error_code"]))
    reads.log(t, topic)


@AREA.each(protocol=[1, 2])
def repeats_in_transactions(t: Stage, protocol: int) -> None:
    """Batches of a v{protocol} transaction repeat while it is open, after it, and in the next."""
    topic = t.topic(2)
    where = [(topic, 0)]
    p = Producer(t, "P", protocol).begun((topic, 0))
    p.produce(where, "second", records=2)
    epoch = p.epoch
    p.produce(where, "first again", sequence=0)
    p.produce(where, "second again", sequence=1, records=2)
    p.commit()
    p.produce(where, "second after the end", sequence=1, records=2, producer_epoch=epoch)
    if protocol == 1:
        p.add([(topic, 1)])
    p.produce([(topic, 1)], "the next begins elsewhere", sequence=0)
    p.produce(where, "second in the next", sequence=1, records=2, producer_epoch=epoch)
    if protocol == 1:
        p.add(where)
        p.produce(where, "second in the next, added", sequence=1, records=2)
        p.produce(where, "the next goes on", sequence=3)
        p.produce(where, "second in the next, begun", sequence=1, records=2)
    else:
        p.produce(where, "sequence 3", sequence=3)
        p.produce(where, "sequence 0", sequence=0)
    p.abort()
    reads.log(t, topic)
    reads.producers(t, topic)


@AREA.each(protocol=[1, 2])
def refused_first_batches(t: Stage, protocol: int) -> None:
    """First batches of a v{protocol} transaction have descending and ascending sequences."""
    topic = t.topic(3)
    p = Producer(t, "P", protocol).started()
    for index, order in enumerate(((6, 4, 5, 4), (4, 6, 5, 4), (0, 2, 1, 0))):
        where = [(topic, index)]
        for number, sequence in enumerate(order):
            p.produce(where, f"{number}: {sequence}, not added", sequence=sequence, version=11)
        p.add(where)
        for number, sequence in enumerate(order):
            p.produce(where, f"{number}: {sequence}, added", sequence=sequence)
    p.abort()
    for index in range(3):
        reads.log(t, topic, index)


@AREA.each(protocol=[1, 2])
def mixed(t: Stage, protocol: int) -> None:
    """One producer writes plain and transactional batches before, in and after transactions."""
    topic = t.topic()
    where = [(topic, 0)]
    p = Producer(t, "P", protocol).started()
    alone: dict[str, Any] = {"transactional": False, "transactional_id": None}
    p.produce(where, "plain before", **alone)
    if protocol == 1:
        p.add(where)
    p.produce(where, "plain in the transaction that has nothing here", **alone)
    p.produce(where, "transactional")
    p.produce(where, "plain", **alone)
    p.produce(where, "plain, a gap", sequence=9, **alone)
    p.produce(where, "plain, a repeat", sequence=0, **alone)
    p.produce(where, "plain, next epoch", sequence=0, producer_epoch=p.epoch + 1, **alone)
    p.produce(where, "plain, an older epoch", producer_epoch=-1, **alone)
    p.produce(where, "transactional again")
    reads.producers(t, topic, 0, "open")
    p.abort()
    p.produce(where, "plain after", **alone)
    reads.log(t, topic)
    reads.producers(t, topic, 0, "end")


@AREA.each(transaction_version=[0, 2])
def markers_of_plain_producers(t: Stage, transaction_version: int) -> None:
    """A marker (transactions v{transaction_version}) names a producer with plain records."""
    topic = t.topic()
    where = [(topic, 0)]
    p, plain = _idempotent(t, 12)
    p.produce(where, "0", **plain)
    options: dict[str, Any] = {"transaction_version": transaction_version}
    write(p, where, "same epoch", 2, **options)
    p.produce(where, "1", **plain)
    write(p, where, "next epoch", 2, producer_epoch=1, **options)
    p.produce(where, "2", **plain)
    p.produce(where, "2 of the next epoch", sequence=2, producer_epoch=1, **plain)
    p.produce(where, "0 of the next epoch", sequence=0, producer_epoch=1, **plain)
    reads.log(t, topic)
    reads.producers(t, topic)


@AREA.each(protocol=[1, 2], to=[1, 2, 3])
def deleted_records(t: Stage, protocol: int, to: int) -> None:
    """DeleteRecords up to {to} of 3 records; a v{protocol} transaction is open since offset 1."""
    topic = t.topic()
    where = [(topic, 0)]
    other = Producer(t, "other")
    other.init(transactional_id=None)
    other.produce(where, transactional=False, transactional_id=None)
    p = Producer(t, "P", protocol).begun((topic, 0))
    p.produce(where)
    asked = {"partition_index": 0, "offset": to}
    body = {"topics": [{"name": topic, "partitions": [asked]}], "timeout_ms": 5000}
    answer = t.raw("DeleteRecords", 2, body)["topics"][0]["partitions"][0]
    t.rec("DeleteRecords", [error(answer["error_code"]), answer["low_watermark"]])
    reads.ends(t, topic, 0, "deleted")
    reads.log(t, topic, 0, "deleted", start=to)
    reads.producers(t, topic, 0, "deleted")
    p.produce(where, "goes on")
    other.produce(where, "repeats", sequence=0, transactional=False, transactional_id=None)
    reads.ends(t, topic, 0, "went on")
    p.abort()
    reads.ends(t, topic, 0, "ended")
    reads.log(t, topic, 0, "ended", start=to)
    reads.producers(t, topic, 0, "ended")


@AREA.each(v=[7, 8, 11, 12])
def whole_answers(t: Stage, v: int) -> None:
    """Which fields does the answer to Produce v{v} have: accepted, repeated, each refusal?"""
    topic = t.topic()
    p = Producer(t)
    t.setup(p.init)
    if v < 12:
        p.add([(topic, 0)])

    def ask(note: str, sequence: int, epoch: int = 0, transactional: bool = True) -> None:
        data = batches.build(p.producer_id, epoch, sequence, 1, transactional)
        topic_data = {"name": topic, "partition_data": [{"index": 0, "records": data}]}
        body = {
            "transactional_id": p.transactional_id,
            "acks": -1,
            "timeout_ms": 5000,
            "topic_data": [topic_data],
        }
        one = t.raw("Produce", v, body)["responses"][0]["partition_responses"][0]
        shown = {key: one[key] for key in ("base_offset", "log_start_offset")}
        shown["error"] = error(one["error_code"])
        shown["has time"] = one["log_append_time_ms"] > 0
        if "error_message" in one:
            shown["has message"] = one["error_message"] is not None
            shown["records"] = one["record_errors"]
        t.rec(note, shown)

    ask("taken", 0)
    ask("taken", 1)
    ask("repeated", 0)
    ask("gap", 7)
    ask("plain", 2, transactional=False)
    ask("older epoch", 2, epoch=-1)
    ask("newer epoch", 0, epoch=1)
    p.commit(version=4)
    ask("after the end", 2)
    ask("repeated after the end", 1)
    ask("older epoch after the end", 2, epoch=-1)
