"""Timed-out transactions, and expired transactional ids and producer ids.

Profile B checks for them all the time; an id expires 3 seconds after its last transaction.
"""

from __future__ import annotations

from typing import Any

from tests.conformance import reads, timing
from tests.conformance.connection import Abort
from tests.conformance.producers import Producer
from tests.conformance.scenarios.txn_states import REQUESTS
from tests.conformance.stage import Area, Stage

AREA = Area("txn_timeouts", profile="b")

_TIMEOUT_MS = 400
_EXPIRATION_SECONDS = 8.0


def _timed_out(t: Stage, protocol: int, topic: str) -> Producer:
    """Return a producer whose transaction of one record has timed out, unrecorded."""
    p = Producer(t, "P", protocol, timeout_ms=t.ms(_TIMEOUT_MS)).begun((topic, 0))
    p.settle("CompleteAbort")
    return p


@AREA.each(protocol=[1, 2])
def state_and_log(t: Stage, protocol: int) -> None:
    """A v{protocol} transaction times out: what are the new epoch, the marker and the reads?"""
    topic = t.topic()
    p = _timed_out(t, protocol, topic)
    p.look()
    reads.log(t, topic)
    reads.producers(t, topic)
    reads.ends(t, topic)


@AREA.each(protocol=[1, 2], request=list(REQUESTS))
def request_after_the_timeout(t: Stage, protocol: int, request: str) -> None:
    """A v{protocol} producer whose transaction timed out sends {request} twice."""
    p = _timed_out(t, protocol, t.topic())
    send = REQUESTS[request]
    send(p, "")
    p.settle()
    p.look()
    send(p, "again")
    p.settle()
    p.look()


@AREA.each(protocol=[1, 2])
def recovery(t: Stage, protocol: int) -> None:
    """After a timeout a v{protocol} producer continues with InitProducerId."""
    topic = t.topic()
    p = _timed_out(t, protocol, topic)
    p.end(True, adopt=False)
    p.init_again()
    p.begin((topic, 0))
    p.commit()
    p.look()
    reads.log(t, topic)


@AREA.each(protocol=[1, 2])
def another_instance_after_the_timeout(t: Stage, protocol: int) -> None:
    """Another v{protocol} instance starts after the timeout, then the old one returns."""
    topic = t.topic()
    p = _timed_out(t, protocol, topic)
    q = p.again("Q")
    q.init()
    q.look()
    p.init_again(adopt=False)
    p.end(False, adopt=False)
    p.produce([(topic, 0)])
    q.begin((topic, 0))
    q.commit()
    q.look()


@AREA.each(protocol=[1, 2])
def without_records(t: Stage, protocol: int) -> None:
    """A v{protocol} transaction with pending offsets and an added partition times out."""
    topic = t.topic()
    p = Producer(t, "P", protocol, timeout_ms=t.ms(_TIMEOUT_MS)).started()
    p.add([(topic, 0)])
    p.add_offsets()
    p.commit_offsets([(t.t1, 0, 7)])
    p.settle("CompleteAbort")
    p.look()
    reads.log(t, topic)
    t.fetch([(t.t1, [0])], 7, require_stable=True)


@AREA.each(protocol=[1, 2])
def twice(t: Stage, protocol: int) -> None:
    """Two v{protocol} transactions of one producer time out, one after the other."""
    topic = t.topic()
    p = _timed_out(t, protocol, topic)
    p.look("first")
    p.init_again()
    p.begin((topic, 0))
    p.settle("CompleteAbort")
    p.look("second")
    p.init_again("after the second")
    reads.log(t, topic)


def _expire(t: Stage, p: Producer) -> None:
    """Wait, unrecorded, until the transactional id has expired."""
    for _ in range(int(_EXPIRATION_SECONDS * timing.scale / 0.05)):
        if p.describe()["error_code"]:
            return
        t.nap(0.05)
    t.rec("expiry", "still known")
    raise Abort


@AREA.each(protocol=[1, 2], state=["empty", "committed", "aborted"])
def expired_transactional_id(t: Stage, protocol: int, state: str) -> None:
    """What can a v{protocol} producer do after its transactional id expired in state {state}?"""
    p = Producer(t, "P", protocol).started()
    if state != "empty":
        t.setup(p.begin)
        t.setup(p.commit if state == "committed" else p.abort)
    _expire(t, p)
    p.look()
    p.end(True, adopt=False)
    p.add([(t.t3, 1)])
    p.add_offsets()
    p.produce([(t.t3, 0)])
    p.commit_offsets([(t.t1, 0, 7)])
    p.init_again("with id and epoch")
    p.look()
    p.begin()
    p.commit()
    p.look()


@AREA.scenario
def expired_id_starts_anew(t: Stage) -> None:
    """InitProducerId is sent without id and epoch after the transactional id has expired."""
    p = Producer(t).started()
    t.producer(p.producer_id)
    _expire(t, p)
    p.init()
    p.look()


@AREA.scenario
def open_transactions_do_not_expire(t: Stage) -> None:
    """The id of an open transaction does not expire before the transaction has ended."""
    p = Producer(t).begun()
    q = Producer(t, "Q").started()
    _expire(t, q)
    p.look("Q has expired")
    p.commit()
    p.look()
    _expire(t, p)
    p.look("expired")


def _forget_producers(t: Stage, topic: str) -> None:
    """Wait, unrecorded, until the topic's log has no producers."""
    for _ in range(int(_EXPIRATION_SECONDS * timing.scale / 0.05)):
        if not reads.active_producers(t, topic):
            return
        t.nap(0.05)
    t.rec("expiry", "still has producers")
    raise Abort


@AREA.each(v=[11, 12])
def expired_producer_id(t: Stage, v: int) -> None:
    """An idempotent producer's state expires in a log, and it continues with Produce v{v}."""
    topic = t.topic()
    where = [(topic, 0)]
    p = Producer(t)
    p.init(transactional_id=None)
    plain: dict[str, Any] = {"transactional": False, "transactional_id": None, "version": v}
    p.produce(where, "first", records=3, **plain)
    reads.producers(t, topic)
    _forget_producers(t, topic)
    reads.producers(t, topic, 0, "expired")
    p.produce(where, "next", sequence=3, **plain)
    p.produce(where, "gap", sequence=9, **plain)
    reads.producers(t, topic, 0, "end")
    reads.log(t, topic)


@AREA.each(protocol=[1, 2])
def expired_producer_of_a_transaction(t: Stage, protocol: int) -> None:
    """A producer's state expires in a log while its v{protocol} transaction is open elsewhere."""
    topic = t.topic()
    p = Producer(t, "P", protocol).begun((topic, 0))
    p.commit()
    _forget_producers(t, topic)
    reads.producers(t, topic, 0, "expired")
    _expire(t, p)
    p.init("as new")
    p.begin((topic, 0))
    p.commit()
    reads.log(t, topic)
    reads.producers(t, topic)
