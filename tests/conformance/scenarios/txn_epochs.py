"""InitProducerId: timeouts, producers with id and epoch, fencing, errors by version."""

from __future__ import annotations

from tests.conformance.producers import Producer
from tests.conformance.stage import Area, Stage

AREA = Area("txn_epochs")

_MAXIMUM_MS = 900_000


@AREA.each(v=[1, 5])
def timeouts(t: Stage, v: int) -> None:
    """Which timeouts does InitProducerId v{v} accept, and does a new timeout replace the old?"""
    p = Producer(t)
    for timeout_ms in (0, -1, -2147483648, _MAXIMUM_MS + 1, 2147483647):
        p.init(f"timeout {timeout_ms}", version=v, transaction_timeout_ms=timeout_ms)
    p.look()
    for timeout_ms in (1, _MAXIMUM_MS, 1000):
        p.init(f"timeout {timeout_ms}", version=v, transaction_timeout_ms=timeout_ms)
        p.look()
    p.init("timeout 0 of a known id", version=v, transaction_timeout_ms=0)
    p.look()


@AREA.scenario
def timeouts_without_a_transactional_id(t: Stage) -> None:
    """An idempotent producer's timeout is ignored, and each request returns a new id."""
    p = Producer(t)
    for timeout_ms in (0, -1, _MAXIMUM_MS + 1, 1000):
        p.init(f"timeout {timeout_ms}", transactional_id=None, transaction_timeout_ms=timeout_ms)
    p.init("with id and epoch", transactional_id=None, producer_id=p.producer_id, producer_epoch=0)
    p.init("empty transactional id", transactional_id="")


@AREA.each(v=range(7))
def versions_of_init(t: Stage, v: int) -> None:
    """Three InitProducerId v{v} in a row raise the epoch each time."""
    p = Producer(t)
    for _ in range(3):
        p.init(version=v)
    p.look()


@AREA.each(v=[3, 4, 5])
def half_an_identity(t: Stage, v: int) -> None:
    """InitProducerId v{v} has only an id or only an epoch, or negative values."""
    p = Producer(t).started()
    own = p.producer_id
    for producer_id, epoch in ((own, -1), (-1, 0), (-1, 5), (-2, -2), (own, -2)):
        shown = t.producer(producer_id)
        p.init(f"{shown} {epoch}", version=v, producer_id=producer_id, producer_epoch=epoch)
    p.look()


@AREA.each(protocol=[1, 2])
def bumps_and_retries(t: Stage, protocol: int) -> None:
    """A v{protocol} producer raises its own epoch, and retries as if the answer was lost."""
    p = Producer(t, "P", protocol)
    p.init()
    first = p.epoch
    p.init_again("current", adopt=False)
    p.init_again("current, asked again", adopt=False)
    p.init_again("current, asked a third time")
    p.init_again("next")
    p.init_again("first", producer_epoch=first, adopt=False)
    p.init_again("one back", producer_epoch=p.epoch - 1, adopt=False)
    p.init_again("two ahead", producer_epoch=p.epoch + 2, adopt=False)
    p.look()
    p.init("as new")
    p.init_again("the epoch before the start", producer_epoch=p.epoch - 1, adopt=False)
    p.look()


@AREA.each(protocol=[1, 2], committed=[True, False])
def bump_after_the_end(t: Stage, protocol: int, committed: bool) -> None:
    """A v{protocol} transaction ends (committed: {committed}); InitProducerId has the old epoch."""
    p = Producer(t, "P", protocol).begun()
    before = p.epoch
    p.end(committed)
    p.settle()
    p.init_again("epoch of the transaction", producer_epoch=before, adopt=False)
    p.look()
    p.init_again("epoch of the end", adopt=False)
    p.look()


@AREA.each(protocol=[1, 2])
def bump_in_a_transaction(t: Stage, protocol: int) -> None:
    """InitProducerId raises the epoch of an open v{protocol} transaction, which aborts it."""
    topic = t.topic()
    p = Producer(t, "P", protocol).begun((topic, 0))
    p.init_again()
    p.settle()
    p.look("after the abort")
    p.end(True, "old epoch", adopt=False)
    p.produce([(topic, 0)], "old epoch")
    p.init_again("again")
    p.look()
    p.begin((topic, 0))
    p.commit()
    p.look()


@AREA.each(protocol=[1, 2])
def two_instances(t: Stage, protocol: int) -> None:
    """Another instance starts while a v{protocol} transaction is open, step by step."""
    topic = t.topic()
    p = Producer(t, "P", protocol).begun((topic, 0))
    q = p.again("Q")
    q.init("first")
    q.settle()
    q.look("between its two InitProducerId")
    p.produce([(topic, 0)], "in between")
    p.end(True, "in between", adopt=False)
    p.add_offsets("in between")
    p.commit_offsets([(t.t1, 0, 5)], "in between")
    p.init_again("in between", adopt=False)
    q.init("second")
    q.look()
    p.produce([(topic, 0)], "fenced")
    p.end(True, "fenced", adopt=False)
    p.end(False, "fenced", adopt=False)
    q.begin((topic, 0))
    p.end(True, "fenced, while the other one has a transaction", adopt=False)
    q.commit()
    q.look()


@AREA.each(protocol=[1, 2])
def the_older_instance_takes_it_back(t: Stage, protocol: int) -> None:
    """Two v{protocol} instances start in turns, and the last instance owns the transactional id."""
    p = Producer(t, "P", protocol).started()
    q = p.again("Q")
    q.init()
    p.init_again("fenced", adopt=False)
    p.init("as new")
    q.begin()
    q.end(True, adopt=False)
    p.begin()
    q.init("while P is in a transaction")
    q.settle()
    p.end(True, adopt=False)
    p.init("as new, before Q comes back")
    q.init("comes back")
    p.begin()
    q.begin()
    q.commit()
    q.look()


_VERSIONS_OF = {
    "InitProducerId": range(3, 6),
    "AddPartitionsToTxn": range(6),
    "AddOffsetsToTxn": range(5),
    "Produce": range(3, 13),
    "TxnOffsetCommit": range(6),
    "EndTxn": range(6),
}


@AREA.each(api=list(_VERSIONS_OF), reason=["fenced", "other producer id", "newer epoch"])
def errors_by_version(t: Stage, api: str, reason: str) -> None:
    """Which error does {api} return at each version: {reason}?"""
    p = Producer(t).begun()
    if reason == "fenced":
        t.setup(p.fence)
    elif reason == "other producer id":
        p.producer_id = Producer(t, "other").started().producer_id
    else:
        p.epoch += 1
    for version in _VERSIONS_OF[api]:
        send_at(p, api, version)
        p.settle()
    p.look()


def send_at(p: Producer, api: str, version: int) -> None:
    """Send one request of the API at a version."""
    if api == "InitProducerId":
        p.init_again(version=version, adopt=False)
    elif api == "AddPartitionsToTxn":
        p.add([(p.t.t3, 1)], version=version)
    elif api == "AddOffsetsToTxn":
        p.add_offsets(version=version)
    elif api == "Produce":
        p.produce([(p.t.t3, 0)], version=version)
    elif api == "TxnOffsetCommit":
        p.commit_offsets([(p.t.t1, 0, 7)], version=version)
    else:
        p.end(version=version, adopt=False)
