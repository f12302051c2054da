"""Reads during and after transactions: batches, offsets, producers."""

from __future__ import annotations

from tests.conformance import reads
from tests.conformance.producers import Producer
from tests.conformance.stage import Area, Stage

AREA = Area("txn_reads")


@AREA.each(protocol=[1, 2], committed=[True, False])
def one_transaction(t: Stage, protocol: int, committed: bool) -> None:
    """A v{protocol} transaction (committed: {committed}) is read before, while open, and after."""
    topic = t.topic()
    p = Producer(t, "P", protocol).started()
    _see(t, topic, "before")
    if protocol == 1:
        p.add([(topic, 0)])
        _see(t, topic, "added")
    p.produce([(topic, 0)], records=3)
    p.produce([(topic, 0)])
    _see(t, topic, "open")
    p.end(committed)
    p.settle()
    _see(t, topic, "ended")


def _see(t: Stage, topic: str, label: str) -> None:
    reads.log(t, topic, 0, label)
    reads.ends(t, topic, 0, label)
    reads.producers(t, topic, 0, label)


@AREA.each(protocol=[1, 2])
def transactions_side_by_side(t: Stage, protocol: int) -> None:
    """How does the last stable offset move as three v{protocol} transactions end out of order?"""
    topic = t.topic()
    where = [(topic, 0)]
    p, q, r = (Producer(t, name, protocol).started() for name in "PQR")
    plain = Producer(t, "plain")
    plain.init(transactional_id=None)
    for each in (p, q, r):
        t.setup(each.begin, *where)
    plain.produce(where, transactional=False, transactional_id=None)
    p.produce(where)
    _see(t, topic, "three open")
    q.abort()
    _see(t, topic, "Q aborted")
    p.commit()
    _see(t, topic, "P committed")
    t.setup(q.begin, *where)
    r.abort()
    _see(t, topic, "R aborted, Q began again")
    q.commit()
    _see(t, topic, "all ended")
    reads.log(t, topic, 0, "from offset 4", start=4)
    reads.log(t, topic, 0, "from the end", start=10)


@AREA.each(protocol=[1, 2])
def aborted_ones_in_a_range(t: Stage, protocol: int) -> None:
    """Which aborted v{protocol} transactions does a fetch return, depending on its start offset?"""
    topic = t.topic()
    p = Producer(t, "P", protocol).started()
    for committed in (False, True, False, False):
        t.setup(p.begin, (topic, 0))
        t.setup(p.abort if not committed else p.commit)
    for start in range(9):
        reads.log(t, topic, 0, f"from {start}", start=start)


@AREA.scenario
def limits_that_cut_a_batch(t: Stage) -> None:
    """Is the second partition's aborted list null if its limit cuts a batch?"""
    topic = t.topic(2)
    p = Producer(t)
    p.init(transactional_id=None)
    where = [(topic, 0), (topic, 1)]
    p.produce(where, transactional=False, transactional_id=None)
    size = reads.limited(t, topic, "all", 1 << 20, 1 << 20)
    for note, limit, most in (
        ("one byte", 1, 1 << 20),
        ("a byte too few", size - 1, 1 << 20),
        ("the batch", size, 1 << 20),
        ("nothing", 0, 1 << 20),
        ("below nothing", -1, 1 << 20),
        ("a byte left of the request", 1 << 20, size + 1),
        ("nothing left of the request", 1 << 20, size),
    ):
        reads.limited(t, topic, note, limit, most)


@AREA.scenario
def out_of_range(t: Stage) -> None:
    """Fetches start after the stable offset and after the end, with both isolation levels."""
    topic = t.topic()
    Producer(t).begun((topic, 0))
    for start in (0, 1, 2, -1):
        reads.log(t, topic, 0, f"from {start}", start=start)


@AREA.each(protocol=[1, 2])
def producers_of_a_partition(t: Stage, protocol: int) -> None:
    """What does DescribeProducers show during v{protocol} transactions, a bump and a fence?"""
    topic = t.topic()
    p = Producer(t, "P", protocol).started()
    t.setup(p.begin, (topic, 0))
    reads.producers(t, topic, 0, "open")
    t.setup(p.commit)
    reads.producers(t, topic, 0, "committed")
    p.init_again()
    reads.producers(t, topic, 0, "epoch raised")
    t.setup(p.begin, (topic, 0))
    reads.producers(t, topic, 0, "open again")
    t.setup(p.fence)
    reads.producers(t, topic, 0, "fenced")


@AREA.scenario
def producers_of_what_is_not_there(t: Stage) -> None:
    """DescribeProducers requests unknown topics and partitions, none, and an empty partition."""
    topic = t.topic()
    reads.producers(t, topic, 0, "empty")
    reads.producers(t, topic, 7, "unknown partition")
    unknown = f"{t.g}-none"
    t.name_it(unknown, "<none>")
    reads.producers(t, unknown, 0, "unknown topic")
    reads.producers(t, "not a name!", 0, "invalid name")
    t.ask("DescribeProducers", 0, {"topics": []})
    t.ask("DescribeProducers", 0, {"topics": [{"name": t.t1, "partition_indexes": []}]})


@AREA.each(protocol=[1, 2])
def offsets_by_time(t: Stage, protocol: int) -> None:
    """ListOffsets by timestamp and maximum timestamp in an open v{protocol} transaction."""
    topic = t.topic()
    p = Producer(t, "P", protocol).begun((topic, 0))
    for isolation in (reads.UNCOMMITTED, reads.COMMITTED):
        reads.by_time(t, topic, 0, isolation, "open")
    t.setup(p.commit)
    for isolation in (reads.UNCOMMITTED, reads.COMMITTED):
        reads.by_time(t, topic, 0, isolation, "committed")
