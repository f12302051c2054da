"""Produce of transactional and idempotent producers: verification, sequences, epochs."""

from __future__ import annotations

from typing import Any

from tests.conformance import reads
from tests.conformance.producers import Producer
from tests.conformance.stage import Area, Stage

AREA = Area("txn_produce")


@AREA.each(v=[3, 7, 8, 9, 10, 11, 12, 13])
def without_adding(t: Stage, v: int) -> None:
    """Produce v{v} names a partition that was not added to the transaction."""
    topic = t.topic(2)
    p = Producer(t).started()
    p.produce([(topic, 0)], version=v)
    p.look()
    p.add([(topic, 0)])
    p.produce([(topic, 0)], "added", version=v)
    p.produce([(topic, 1)], "another partition", version=v)
    p.look()
    p.commit()
    p.produce([(topic, 0)], "after the end", version=v)
    p.look()
    reads.log(t, topic)
    reads.log(t, topic, 1)


@AREA.each(v=[11, 12, 13])
def two_partitions(t: Stage, v: int) -> None:
    """Produce v{v} writes to an added partition, one that was not added, and an unknown one."""
    topic = t.topic(2)
    p = Producer(t).started()
    p.add([(topic, 0)])
    p.produce([(topic, 0), (topic, 1)], version=v)
    p.look()
    p.produce([(topic, 0), (topic, 7)], "unknown partition", version=v)
    p.look()
    p.commit(version=4)
    reads.log(t, topic)
    reads.log(t, topic, 1)


@AREA.each(v=[11, 12])
def identities(t: Stage, v: int) -> None:
    """Produce v{v} in an open transaction has a wrong identity."""
    topic = t.topic()
    p = Producer(t).begun((topic, 0))
    where = [(topic, 0)]
    other = Producer(t, "other").started()
    p.produce(where, "no transactional id", version=v, transactional_id=None)
    p.produce(where, "other transactional id", version=v, transactional_id=other.transactional_id)
    p.produce(where, "other producer id", version=v, producer_id=other.producer_id)
    p.produce(where, "no producer id", version=v, producer_id=-1, producer_epoch=-1, sequence=-1)
    p.produce(where, "plain batch", version=v, transactional=False)
    p.produce(
        where,
        "plain batch, no transactional id",
        version=v,
        transactional=False,
        transactional_id=None,
    )
    p.produce(where, "epoch -1", version=v, producer_epoch=-1)
    p.look()
    p.produce(where, "right", version=v)
    p.commit()
    reads.log(t, topic)
    reads.producers(t, topic)


@AREA.each(protocol=[1, 2])
def sequences(t: Stage, protocol: int) -> None:
    """Which sequences does a v{protocol} transaction accept: duplicates, gaps, new epochs?"""
    topic = t.topic()
    where = [(topic, 0)]
    p = Producer(t, "P", protocol).started()
    if protocol == 1:
        p.add(where)
    p.produce(where, "first, sequence 5", sequence=5)
    p.produce(where, "first, sequence 0", sequence=0, records=2)
    p.produce(where, "duplicate", sequence=0, records=2)
    p.produce(where, "part of a duplicate", sequence=1)
    p.produce(where, "gap", sequence=4)
    p.produce(where, "next", sequence=2)
    p.commit()
    if protocol == 1:
        p.add(where)
    p.produce(where, "after the end, sequence 9", sequence=9)
    p.produce(where, "after the end, sequence 3", sequence=3)
    p.produce(where, "after the end, sequence 0", sequence=0)
    p.look()
    p.abort()
    reads.log(t, topic)
    reads.producers(t, topic)


@AREA.each(v=[7, 8, 11, 12])
def idempotent_sequences(t: Stage, v: int) -> None:
    """Without transactions, Produce v{v} may repeat the last five batches, but no older one."""
    topic = t.topic()
    where = [(topic, 0)]
    p = Producer(t).started()
    p.init("idempotent", transactional_id=None)
    plain: dict[str, Any] = {"transactional": False, "transactional_id": None, "version": v}
    p.produce(where, "first, sequence 3", sequence=3, **plain)
    for sequence in (0, 2, 4, 6, 8, 10):
        p.produce(where, f"sequence {sequence}", sequence=sequence, records=2, **plain)
    for sequence in (10, 8, 6, 4, 2, 0):
        p.produce(where, f"again {sequence}", sequence=sequence, records=2, **plain)
    p.produce(where, "last, fewer records", sequence=10, records=1, **plain)
    p.produce(where, "last, more records", sequence=10, records=3, **plain)
    p.produce(where, "gap", sequence=14, **plain)
    p.produce(where, "back", sequence=9, records=2, **plain)
    p.produce(where, "sequence -1", sequence=-1, **plain)
    reads.producers(t, topic)
    p.produce(where, "older epoch", sequence=12, producer_epoch=-1, **plain)
    p.produce(where, "newer epoch, sequence 4", sequence=4, producer_epoch=3, **plain)
    p.produce(where, "newer epoch, sequence 0", sequence=0, producer_epoch=3, **plain)
    p.produce(where, "the epoch before, next", sequence=12, producer_epoch=0, **plain)
    p.produce(where, "the epoch before, duplicate", sequence=10, records=2, **plain)
    reads.producers(t, topic)
    reads.log(t, topic)


@AREA.each(v=[11, 12])
def sequence_wraps(t: Stage, v: int) -> None:
    """In Produce v{v} the sequence after 2147483647 is 0."""
    topic = t.topic()
    where = [(topic, 0)]
    p = Producer(t)
    p.init(transactional_id=None)
    plain: dict[str, Any] = {"transactional": False, "transactional_id": None, "version": v}
    p.produce(where, "unknown producer, high sequence", sequence=2147483646, **plain)
    p.produce(where, "first", sequence=0, **plain)
    p.produce(where, "negative", sequence=-2, **plain)
    reads.producers(t, topic)


@AREA.each(protocol=[1, 2])
def plain_then_transactional(t: Stage, protocol: int) -> None:
    """Records without a transaction are produced during and after a v{protocol} transaction."""
    topic = t.topic()
    where = [(topic, 0)]
    plain = Producer(t, "plain", protocol)
    plain.init(transactional_id=None)
    plain.produce(where, transactional=False, transactional_id=None)
    p = Producer(t, "P", protocol).begun((topic, 0))
    plain.produce(where, transactional=False, transactional_id=None)
    p.produce(where, "plain batch of the open transaction", transactional=False)
    p.commit()
    p.produce(where, "plain batch after it", transactional=False, transactional_id=None)
    reads.log(t, topic)
    reads.producers(t, topic)


@AREA.each(protocol=[1, 2])
def records_after_an_abort_by_another(t: Stage, protocol: int) -> None:
    """A late batch of a fenced v{protocol} transaction is refused (KIP-890)."""
    topic = t.topic()
    where = [(topic, 0)]
    p = Producer(t, "P", protocol).begun((topic, 0))
    q = p.fence()
    reads.log(t, topic, label="after the fence")
    p.produce(where, "late, old epoch")
    p.produce(where, "late, epoch of the fence", producer_epoch=p.epoch + 1, sequence=0)
    q.begin((topic, 0))
    p.produce(where, "late, while the next one is open")
    q.commit()
    reads.log(t, topic)
    reads.producers(t, topic)


@AREA.scenario
def late_batch_of_v1_after_the_end(t: Stage) -> None:
    """A late v1 batch with the current epoch arrives after the end and in the next transaction."""
    topic = t.topic(2)
    p = Producer(t).begun((topic, 0))
    p.commit()
    p.produce([(topic, 0)], "late, no transaction")
    p.add([(topic, 1)])
    p.produce([(topic, 0)], "late, the next one is elsewhere")
    p.add([(topic, 0)])
    p.produce([(topic, 0)], "the next one is here")
    p.abort()
    reads.log(t, topic)


@AREA.each(v=[11, 12])
def acks(t: Stage, v: int) -> None:
    """A transactional Produce v{v} with acks 1 is accepted like one with acks all."""
    topic = t.topic()
    p = Producer(t).begun((topic, 0))
    p.produce([(topic, 0)], "acks 1", version=v, acks=1)
    p.produce([(topic, 0)], "acks -1", version=v)
    p.commit()
    reads.log(t, topic)


@AREA.each(v=[11, 12])
def internal_topics(t: Stage, v: int) -> None:
    """A transactional Produce v{v} names __consumer_offsets; added partitions stay added."""
    p = Producer(t).started()
    p.produce([("__consumer_offsets", 0)], version=v)
    p.look()
    p.abort()
    p.look()
