"""Offsets inside transactions: AddOffsetsToTxn, TxnOffsetCommit, EndTxn, requireStable."""

from __future__ import annotations

from tests.conformance.offset_producers import OffsetProducer, settle
from tests.conformance.stage import Area, Stage

AREA = Area("txn")


@AREA.scenario
def two_producers_one_group(t: Stage) -> None:
    """Two producers have pending offsets of one partition; one commits, the other aborts."""
    p, q = OffsetProducer(t, "P"), OffsetProducer(t, "Q")
    p.begin()
    q.begin()
    p.commit([(t.t1, 0, 10)])
    q.commit([(t.t1, 0, 20), (t.t3, 0, 2)])
    q.end(True)
    t.sleep(0.4)
    t.offs(label="Q committed, P pending")
    t.fetch([(t.t1, [0]), (t.t3, [0])], 7, label="stable", require_stable=True)
    p.end(False)
    settle(t)
    t.offs()


@AREA.scenario
def init_again_aborts_the_open_transaction(t: Stage) -> None:
    """A restarted producer aborts the open transaction of its transactional id."""
    p = OffsetProducer(t, "P")
    p.begin()
    p.commit([(t.t1, 0, 10)])
    OffsetProducer(t, "P").init()
    settle(t)
    t.offs()
    p.commit([(t.t1, 0, 11)], note="by the fenced producer")
    p.end(note="by the fenced producer")
