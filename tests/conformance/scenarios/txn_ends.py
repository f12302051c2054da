"""EndTxn: repeated, contradicting, without a transaction, retried, and across protocol versions."""

from __future__ import annotations

from tests.conformance import reads
from tests.conformance.producers import Producer
from tests.conformance.stage import Area, Stage

AREA = Area("txn_ends")


@AREA.each(v=range(6), committed=[True, False])
def ends(t: Stage, v: int, committed: bool) -> None:
    """EndTxn v{v} (committed: {committed}) ends a v1 transaction: what does the log contain?"""
    topic = t.topic()
    p = Producer(t).begun((topic, 0))
    p.end(committed, version=v)
    p.settle()
    p.look()
    reads.log(t, topic)
    p.begin((topic, 0))
    p.end(committed, version=v)
    p.settle()
    p.look()


@AREA.each(v=[1, 4, 5], first=[True, False], second=[True, False])
def ends_twice(t: Stage, v: int, first: bool, second: bool) -> None:
    """EndTxn v{v} is sent twice with one epoch ({first}, {second}), then with the returned one."""
    p = Producer(t, "P", 1 if v < 5 else 2).begun()
    p.end(first, version=v, adopt=False)
    p.settle()
    p.end(second, "same epoch", version=v, adopt=False)
    p.settle()
    p.look()
    if v >= 5:
        p.producer_id, p.epoch = p.describe()["producer_id"], p.describe()["producer_epoch"]
        p.end(second, "next epoch", version=v, adopt=False)
        p.settle()
        p.look()


@AREA.each(v=[1, 2, 4, 5], committed=[True, False])
def end_of_nothing(t: Stage, v: int, committed: bool) -> None:
    """EndTxn v{v} (committed: {committed}) is sent twice without a transaction, then for one.

    The transaction is always committed.
    """
    p = Producer(t, "P", 1 if v < 5 else 2).started()
    p.end(committed, version=v)
    p.settle()
    p.look()
    p.end(committed, "again", version=v)
    p.settle()
    p.look()
    p.begin()
    p.look("next")
    p.commit(version=v)
    p.look()


@AREA.each(v=[4, 5], committed=[True, False])
def end_without_records(t: Stage, v: int, committed: bool) -> None:
    """A transaction has partitions and a group but no records: which logs get a marker?"""
    topic = t.topic(2)
    p = Producer(t).started()
    p.add([(topic, 0), (topic, 1)])
    p.add_offsets()
    p.look()
    p.end(committed, version=v)
    p.settle()
    p.look()
    reads.log(t, topic, 0)
    reads.log(t, topic, 1)
    reads.producers(t, topic)


@AREA.scenario
def retry_of_an_end_after_the_next_transaction_began(t: Stage) -> None:
    """A late, repeated EndTxn v5 must not end the next transaction (KIP-890)."""
    p = Producer(t, "P", 2).begun()
    before = p.epoch
    p.commit()
    p.begin()
    p.end(True, "late, epoch of the first one", producer_epoch=before, adopt=False)
    p.end(False, "late, epoch of the first one", producer_epoch=before, adopt=False)
    p.look()
    p.commit()
    p.look()


@AREA.each(protocol=[1, 2], first=[True, False], second=[True, False])
def end_of_v2_with_the_epoch_before_an_end_of_v1(
    t: Stage, protocol: int, first: bool, second: bool
) -> None:
    """A v{protocol} producer sends EndTxn v4 ({first}), then v5 ({second}) with older epochs."""
    p = Producer(t, "P", protocol).raised(2)
    p.begin()
    p.end(first, version=4)
    p.settle()
    p.end(second, "epoch before", version=5, producer_epoch=1, adopt=False)
    p.end(second, "two epochs before", version=5, producer_epoch=0, adopt=False)
    p.look()
    p.begin()
    p.end(second, "epoch before, open", version=5, producer_epoch=1, adopt=False)
    p.look()


@AREA.scenario
def late_end_of_v1_ends_the_next_transaction(t: Stage) -> None:
    """A late, repeated EndTxn v4 ends the next transaction, which KIP-890 prevents."""
    p = Producer(t).begun()
    p.commit()
    p.begin()
    p.end(True, "late")
    p.settle()
    p.look()


@AREA.each(begin=[1, 2], v=[3, 4, 5])
def protocols_mixed(t: Stage, begin: int, v: int) -> None:
    """EndTxn v{v} ends v{begin} transactions; then the other protocol version is used."""
    topic = t.topic()
    p = Producer(t, "P", begin).begun((topic, 0))
    p.commit(version=v)
    p.look()
    p.begin((topic, 0))
    p.abort(version=v)
    p.look()
    other = Producer(t, "P", 3 - begin, transactional_id=p.transactional_id)
    other.init()
    other.begin((topic, 0))
    other.commit()
    other.look()
    reads.log(t, topic)


@AREA.each(protocol=[1, 2])
def many_partitions_and_a_group(t: Stage, protocol: int) -> None:
    """A v{protocol} transaction ends in all of its four partitions and a group."""
    topic = t.topic(4)
    partitions = [(topic, index) for index in range(4)]
    p = Producer(t, "P", protocol).begun(*partitions)
    if protocol == 1:
        p.add_offsets()
    p.commit_offsets([(t.t1, 0, 17)])
    p.look()
    t.offs(label="offsets while open")
    p.commit()
    p.look()
    for _, index in partitions:
        reads.log(t, topic, index)
    t.offs()


@AREA.each(protocol=[1, 2])
def deleted_topic(t: Stage, protocol: int) -> None:
    """A topic of an open v{protocol} transaction is deleted, and the transaction still ends."""
    kept, deleted = t.topic(suffix="kept"), t.topic(suffix="deleted")
    p = Producer(t, "P", protocol).begun((kept, 0), (deleted, 0))
    t.delete_topic(deleted)
    p.look("after the deletion")
    p.end(True)
    p.settle("CompleteCommit")
    p.look()
    reads.log(t, kept)
