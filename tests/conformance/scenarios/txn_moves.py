"""A transaction coordinator moves while a transaction is open or ending.

The scenarios run in a cluster of three brokers (`tests.conformance.cluster`). By default data and
groups are on broker 1, and the coordinator moves from broker 2 to 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.conformance import moving, reads
from tests.conformance.moving import HOME, NODES, MovingProducer
from tests.conformance.producers import VERSIONS
from tests.conformance.stage import Area, Stage

AREA = Area("txn_moves", "c")

OLD, NEW = 2, 3


def producer(t: Stage, protocol: int, at: int = OLD, **options: Any) -> MovingProducer:
    """Return a producer, not started, whose coordinator is the broker `at`."""
    p = MovingProducer(t, "P", protocol, **options)
    p.move(at)
    moving.move_group(t, HOME)
    return p


def open_transaction(t: Stage, protocol: int, **options: Any) -> tuple[MovingProducer, str]:
    """Return a producer (epoch 1) with a record and offsets in a transaction, and its topic."""
    topic = moving.topic(t, (HOME,), (HOME,))
    p = producer(t, protocol, **options)
    p.started().started()
    t.setup(p.begin, (topic, 0))
    t.setup(_offsets, p, topic, 5)
    return p, topic


def _offsets(p: MovingProducer, topic: str, offset: int, note: str = "") -> None:
    p.add_offsets(note)
    p.commit_offsets([(topic, 0, offset)], note)


def _init(p: MovingProducer, topic: str, note: str, **identity: Any) -> None:
    p.init(note, adopt=False, **identity)


def _init_again(p: MovingProducer, topic: str, note: str, **identity: Any) -> None:
    p.init_again(note, adopt=False, **identity)


def _add_partitions(p: MovingProducer, topic: str, note: str, **identity: Any) -> None:
    p.add([(topic, 1)], note, **identity)


def _verify(p: MovingProducer, topic: str, note: str, **identity: Any) -> None:
    p.add([(topic, 0), (topic, 1)], note, version=5, verify_only=True, **identity)


def _add_offsets(p: MovingProducer, topic: str, note: str, **identity: Any) -> None:
    p.add_offsets(note, **identity)


def _commit(p: MovingProducer, topic: str, note: str, **identity: Any) -> None:
    p.end(True, note, adopt=False, **identity)


def _abort(p: MovingProducer, topic: str, note: str, **identity: Any) -> None:
    p.end(False, note, adopt=False, **identity)


def _describe(p: MovingProducer, topic: str, note: str, **identity: Any) -> None:
    p.look(note)


def _list(p: MovingProducer, topic: str, note: str, **identity: Any) -> None:
    body = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}
    answer = p.t.quiet("ListTransactions", 1, body, p.t.connect(p.coordinator))
    states = [
        one["transaction_state"]
        for one in answer["transaction_states"]
        if one["transactional_id"] == p.transactional_id
    ]
    p.t.rec(f"listed {note}".strip(), states)


Send = Callable[..., None]
REQUESTS: dict[str, Send] = {
    "init": _init,
    "init_again": _init_again,
    "add_partitions": _add_partitions,
    "verify": _verify,
    "add_offsets": _add_offsets,
    "commit": _commit,
    "abort": _abort,
    "describe": _describe,
    "list": _list,
}
WITH_IDENTITY = ("init_again", "add_partitions", "verify", "add_offsets", "commit", "abort")


@AREA.each(request=list(REQUESTS), v=[1, 2])
def request_at_the_old_and_the_new(t: Stage, request: str, v: int) -> None:
    """{request} (transactions v{v}) is sent to the old coordinator, then to the new one."""
    p, topic = open_transaction(t, v)
    p.look("before")
    p.move(NEW)
    p.coordinator = OLD
    REQUESTS[request](p, topic, "at the old")
    p.coordinator = NEW
    p.look("after the old")
    REQUESTS[request](p, topic, "at the new")
    p.settle()
    p.look()
    reads.log(t, topic)


@AREA.each(request=WITH_IDENTITY, v=[1, 2])
def fenced_at_the_new(t: Stage, request: str, v: int) -> None:
    """{request} (transactions v{v}) has a wrong epoch or id at the new coordinator."""
    p, topic = open_transaction(t, v)
    p.move(NEW)
    wrong: dict[str, dict[str, Any]] = {
        "older epoch": {"producer_epoch": p.epoch - 1},
        "newer epoch": {"producer_epoch": p.epoch + 1},
        "other producer id": {"producer_id": p.producer_id + 1_000_000},
    }
    for note, identity in wrong.items():
        REQUESTS[request](p, topic, note, **identity)
        p.settle()
    p.look()


@AREA.each(v=[1, 2])
def another_instance_at_the_new(t: Stage, v: int) -> None:
    """A new instance, started after the move, aborts the v{v} transaction and fences the old."""
    p, topic = open_transaction(t, v)
    p.move(NEW)
    q = p.fence()
    p.produce([(topic, 0)], "fenced")
    p.commit_offsets([(topic, 0, 9)], "fenced")
    p.end(True, "fenced")
    q.look()
    q.begin((topic, 0))
    q.commit()
    q.look()
    reads.log(t, topic)
    moving.offsets(t, topic, HOME)


@AREA.each(state=["empty", "committed", "aborted"], v=[1, 2])
def idle_one_moves(t: Stage, state: str, v: int) -> None:
    """A transactional id in state {state} (v{v}) moves to broker 3 and back; both serve it."""
    topic = moving.topic(t, (HOME,))
    p = producer(t, v)
    p.started()
    if state != "empty":
        t.setup(p.begin, (topic, 0))
        t.setup(p.commit if state == "committed" else p.abort)
    p.look("before")
    for node in (NEW, OLD):
        p.move(node)
        p.look(f"at {node}")
        p.begin((topic, 0))
        p.commit()
        p.look(f"after one at {node}")
    reads.log(t, topic)


@AREA.each(committed=[True, False], v=[1, 2])
def goes_on_at_the_new(t: Stage, committed: bool, v: int) -> None:
    """A transaction has writes before and after the move (committed: {committed}, v{v})."""
    p, topic = open_transaction(t, v)
    p.move(NEW)
    p.begin((topic, 0), (topic, 1))
    _offsets(p, topic, 6)
    p.look("open")
    moving.offsets(t, topic, HOME, "open")
    (p.commit if committed else p.abort)()
    p.look()
    for index in (0, 1):
        reads.log(t, topic, index)
        reads.producers(t, topic, index)
    moving.offsets(t, topic, HOME)
    p.begin((topic, 0))
    p.commit("the next one")
    p.look("after the next one")


@AREA.each(version=[1, 3, 4])
def who_coordinates(t: Stage, version: int) -> None:
    """FindCoordinator v{version} on each broker returns the coordinator before and after a move."""
    p = producer(t, 2)
    for at in (OLD, NEW, HOME):
        if at != OLD:
            p.move(at)
        for node in NODES:
            if version == 4:
                t.rec(f"asked at {node}", p.named_by(node))
                continue
            body = {"key": p.transactional_id, "key_type": 1}
            answer = t.quiet("FindCoordinator", version, body, t.connect(node))
            t.rec(f"asked at {node}", [answer["error_code"], answer["node_id"]])


@AREA.each(committed=[True, False], v=[1, 2])
def ending_while_a_leader_does_not_answer(t: Stage, committed: bool, v: int) -> None:
    """What do the old and new coordinator show while one of three markers is missing?

    Committed: {committed}, v{v}. The transaction ends once the marker is written.
    """
    topic = moving.topic(t, (HOME,), (2,), (HOME,))
    p = producer(t, v, NEW)
    p.started()
    for index, leader in enumerate((HOME, 2, HOME)):
        p.leader = leader
        t.setup(p.begin, (topic, index))
    p.leader = HOME
    t.setup(_offsets, p, topic, 5)
    p.look("open")
    with moving.suspended(t, 2):
        p.end_unanswered(committed=committed)
        _look_at_an_end(p, topic, "ending")
        p.move(HOME, stopped=2)
        _look_at_an_end(p, topic, "taken over")
    p.settle(seconds=30)
    p.look("ended")
    for index in (0, 2):
        reads.log(t, topic, index)
    moving.offsets(t, topic, HOME)


def _look_at_an_end(p: MovingProducer, topic: str, note: str) -> None:
    """Send every request while one marker is missing, and record the state."""
    while sum(len(one["partitions"]) for one in p.describe()["topics"]) > 1:
        p.t.nap(0.05)
    p.look(note)
    _list(p, topic, note)
    moving.offsets(p.t, topic, HOME, note)
    for request in ("init", *WITH_IDENTITY):
        REQUESTS[request](p, topic, note)
    # After EndTxn of transactions v2, the producer has the next epoch.
    next_epoch = p.epoch + (p.versions is VERSIONS[2])
    p.produce([(topic, 0)], f"the next, {note}", producer_epoch=next_epoch)


@AREA.each(v=[1, 2])
def ending_without_a_leader(t: Stage, v: int) -> None:
    """Which partitions get a marker if one of two has no leader when a v{v} transaction ends?

    The leader returns, and then the transaction has ended.
    """
    topic = moving.topic(t, (HOME,), (2,))
    p = producer(t, v, NEW)
    p.started()
    for index, leader in enumerate((HOME, 2)):
        p.leader = leader
        t.setup(p.begin, (topic, index))
    with moving.without(t, 2):
        p.end_unanswered(committed=True)
        while reads.marker_count(t, topic, 0) == 0:
            t.nap(0.05)
    p.settle(seconds=30)
    p.look("ended")
    t.cluster.move(topic, 1, HOME)
    moving.lead(t, topic, 1, HOME)
    for index in (0, 1):
        reads.log(t, topic, index)


@AREA.each(v=[1, 2])
def its_broker_is_killed(t: Stage, v: int) -> None:
    """The coordinator's broker stops in a v{v} transaction, and another one takes over."""
    p, topic = open_transaction(t, v)
    p.look("before")
    with moving.without(t, OLD):
        p.find(stopped=OLD)
        p.look("after")
        p.begin((topic, 0))
        p.commit()
        p.look()
        reads.log(t, topic)
        moving.offsets(t, topic, HOME)
    p.find()
    p.begin((topic, 0))
    p.commit("when it is back")
    p.look("when it is back")


@AREA.each(v=[1, 2])
def timeout_at_the_new(t: Stage, v: int) -> None:
    """The new coordinator aborts a v{v} transaction that is open for too long."""
    p, topic = open_transaction(t, v, timeout_ms=t.ms(1500))
    p.move(NEW)
    p.settle("CompleteAbort", seconds=15)
    p.look()
    p.produce([(topic, 0)], "too late")
    p.end(True, "too late", adopt=False)
    reads.log(t, topic)
    moving.offsets(t, topic, HOME)


@AREA.each(committed=[True, False], v=[1, 2])
def group_moves(t: Stage, committed: bool, v: int) -> None:
    """The group's coordinator moves while offsets are pending (committed: {committed}, v{v})."""
    p, topic = open_transaction(t, v)
    moving.move_group(t, NEW)
    p.commit_offsets([(topic, 0, 7)], "at the old")
    moving.offsets(t, topic, HOME, "at the old")
    moving.offsets(t, topic, NEW, "pending")
    moving.offsets(t, topic, NEW, "pending, unstable too", require_stable=False)
    p.leader = NEW
    p.commit_offsets([(topic, 1, 8)], "at the new")
    (p.commit if committed else p.abort)()
    p.look()
    moving.offsets(t, topic, NEW)


@AREA.each(committed=[True, False], v=[1, 2])
def data_moves(t: Stage, committed: bool, v: int) -> None:
    """A partition's leader moves during a transaction (committed: {committed}, v{v})."""
    topic = moving.topic(t, (2, HOME))
    p = producer(t, v)
    p.started()
    p.leader = 2
    t.setup(p.begin, (topic, 0))
    t.cluster.move(topic, 0, HOME)
    moving.lead(t, topic, 0, HOME)
    p.produce([(topic, 0)], "at the old", sequence=1)
    p.leader = HOME
    reads.producers(t, topic, 0, "at the new")
    p.produce([(topic, 0)], "at the new")
    (p.commit if committed else p.abort)()
    p.look()
    reads.log(t, topic)
