"""Exhausted epochs: after epoch 32767 of a producer id, its transactional id gets a new one.

No producer gets the last epoch, 32767: only markers that fence a producer have this epoch.
"""

from __future__ import annotations

from tests.conformance import reads
from tests.conformance.producers import Producer
from tests.conformance.stage import Area, Stage

AREA = Area("txn_exhaustion")

_LAST = 32766


@AREA.scenario
def starts(t: Stage) -> None:
    """New instances send InitProducerId near a producer id's last epoch."""
    p = Producer(t).raised(_LAST - 1)
    p.look()
    p.init()
    p.look()
    p.init()
    p.look()


@AREA.scenario
def bumps(t: Stage) -> None:
    """InitProducerId with id and epoch is sent and repeated near the producer id's last epoch."""
    p = Producer(t).raised(_LAST - 1)
    p.init_again()
    p.look()
    old_id, old_epoch = p.producer_id, p.epoch
    p.init_again()
    p.look()
    p.init_again("old ones", producer_id=old_id, producer_epoch=old_epoch, adopt=False)
    p.init_again(
        "old ones, one earlier", producer_id=old_id, producer_epoch=old_epoch - 1, adopt=False
    )
    p.look()
    p.init_again("next")
    p.init_again("old ones, late", producer_id=old_id, producer_epoch=old_epoch, adopt=False)
    p.end(False, "old ones", producer_id=old_id, producer_epoch=old_epoch, adopt=False)
    p.begin()
    p.commit()
    p.look()


@AREA.each(committed=[True, False])
def ends(t: Stage, committed: bool) -> None:
    """EndTxn v5 (committed: {committed}) is sent and repeated near a producer id's last epoch."""
    topic = t.topic()
    p = Producer(t, "P", 2).raised(_LAST - 1)
    p.begin((topic, 0))
    p.end(committed)
    p.settle()
    p.look()
    p.begin((topic, 0))
    old_id, old_epoch = p.producer_id, p.epoch
    p.end(committed)
    p.settle()
    p.look()
    p.end(committed, "old ones", producer_id=old_id, producer_epoch=old_epoch, adopt=False)
    p.end(not committed, "old ones", producer_id=old_id, producer_epoch=old_epoch, adopt=False)
    p.produce([(topic, 0)], "old ones", producer_id=old_id, producer_epoch=old_epoch)
    p.look()
    p.begin((topic, 0))
    p.end(committed, "old ones, late", producer_id=old_id, producer_epoch=old_epoch, adopt=False)
    p.look("next")
    p.end(True)
    p.settle()
    p.look()
    reads.log(t, topic)
    reads.producers(t, topic)


@AREA.each(protocol=[1, 2])
def fence(t: Stage, protocol: int) -> None:
    """Another instance fences an open v{protocol} transaction of the last epoch."""
    topic = t.topic()
    p = Producer(t, "P", protocol).raised(_LAST)
    p.begin((topic, 0))
    q = p.again("Q")
    q.init("first")
    q.settle()
    q.look("between")
    p.init_again("in between", adopt=False)
    q.init("second")
    q.look()
    p.end(True, adopt=False)
    p.produce([(topic, 0)], "fenced")
    q.begin((topic, 0))
    q.commit()
    reads.log(t, topic)
    reads.producers(t, topic)


@AREA.scenario
def ends_of_v1(t: Stage) -> None:
    """The end of a v1 transaction at the last epoch needs no further epoch."""
    p = Producer(t).raised(_LAST)
    p.begin()
    p.commit()
    p.look()
    p.begin()
    p.abort()
    p.look()
    p.init_again()
    p.look()
