"""Transactions in share groups: isolation levels, markers, aborted records."""

from __future__ import annotations

from typing import Any

from tests.conformance import share_looks as looks
from tests.conformance.producers import Producer
from tests.conformance.share_setups import reader
from tests.conformance.shares import (
    ACCEPT,
    BATCH_OPTIMIZED,
    GAP,
    RECORD_LIMIT,
    RELEASE,
    produce,
)
from tests.conformance.stage import Area, Stage

AREA = Area("share_isolation")

_LEVELS = ["read_uncommitted", "read_committed"]


@AREA.each(level=_LEVELS, end=["open", "committed", "aborted"])
def one_transaction(t: Stage, level: str, end: str) -> None:
    """With {level}, a transaction that is {end} lies between records without a transaction."""
    place, a = reader(t, (2,), share_isolation_level=level)
    p = Producer(t, "P", 2).started()
    t.setup(p.produce, [place], records=3)
    if end != "open":
        t.setup(p.commit if end == "committed" else p.abort)
    produce(t, place, 2)
    a.nothing(place)
    a.nothing(note="again")
    looks.offsets(t)


@AREA.each(level=_LEVELS, end=["committed", "aborted"])
def waiting_for_the_end(t: Stage, level: str, end: str) -> None:
    """With {level}, a fetch reaches an open transaction, which is then {end}."""
    place, a = reader(t, (), share_isolation_level=level)
    p = Producer(t, "P", 2).started()
    a.nothing(place, note="opens")
    t.setup(p.produce, [place], records=2)
    pending = a.fetching()
    if level == "read_committed":
        t.parked(pending)
        p.end(end == "committed")
    a.fetched(pending)
    if level == "read_uncommitted":
        p.end(end == "committed")
        p.settle()
    a.nothing(note="after the end")


@AREA.each(level=_LEVELS)
def acknowledged_over_markers(t: Stage, level: str) -> None:
    """With {level}, one acknowledged range covers two transactions and their markers."""
    place, a = reader(t, (), share_isolation_level=level)
    p = Producer(t, "P", 2).started()
    for committed in (True, False):
        t.setup(p.produce, [place], records=2)
        t.setup(p.commit if committed else p.abort)
    produce(t, place, 1)
    a.nothing(place)
    a.acknowledge([(0, 1, ACCEPT)])
    looks.stored(t, place)
    a.acknowledge([(2, 2, GAP)], "the first marker")
    looks.stored(t, place)
    a.acknowledge([(3, 6, RELEASE)])
    looks.stored(t, place)
    a.nothing()
    looks.offsets(t)


@AREA.each(mode=[BATCH_OPTIMIZED, RECORD_LIMIT])
def aborted_between_committed(t: Stage, mode: int) -> None:
    """With read_committed, aborted records between other records are archived at once.

    The acquire mode is {mode}.
    """
    place, a = reader(t, (2,), share_isolation_level="read_committed")
    p = Producer(t, "P", 2).started()
    t.setup(p.produce, [place], records=2)
    t.setup(p.abort)
    produce(t, place, 2)
    options: dict[str, Any] = {"share_acquire_mode": mode, "max_records": 3}
    for note in ("first", "second", "third"):
        a.nothing(place, note=note, **options)
    a.acknowledge([(0, 1, ACCEPT)])
    looks.stored(t, place)
    looks.offsets(t)


@AREA.scenario
def only_aborted(t: Stage) -> None:
    """With read_committed, the log has only an aborted transaction; then a record is written."""
    place, a = reader(t, (), share_isolation_level="read_committed")
    p = Producer(t, "P", 2).started()
    t.setup(p.produce, [place], records=2)
    t.setup(p.abort)
    a.nothing(place)
    looks.stored(t, place)
    produce(t, place, 1)
    a.nothing(note="with a record")
    looks.stored(t, place)


@AREA.scenario
def two_producers(t: Stage) -> None:
    """With read_committed, an open transaction precedes a committed one."""
    place, a = reader(t, (), share_isolation_level="read_committed")
    p, q = Producer(t, "P", 2).started(), Producer(t, "Q", 2).started()
    t.setup(p.produce, [place], records=1)
    t.setup(q.produce, [place], records=1)
    t.setup(q.commit)
    a.nothing(place, note="opens")
    pending = a.fetching()
    t.parked(pending)
    t.setup(p.abort)
    a.fetched(pending)
    a.nothing()


@AREA.each(level=_LEVELS)
def level_that_changes(t: Stage, level: str) -> None:
    """The isolation level changes from {level} to the other level while a transaction is open."""
    place, a = reader(t, (1,), share_isolation_level=level)
    p = Producer(t, "P", 2).started()
    t.setup(p.produce, [place], records=2)
    a.nothing(place)
    other = _LEVELS[1 - _LEVELS.index(level)]
    looks.configure(t, {"share.isolation.level": other})
    t.nap(0.1)
    a.nothing(note="with the other level")
    t.setup(p.abort)
    a.nothing(note="after the abort")
    a.acknowledge([(0, 0, ACCEPT)])
    looks.stored(t, place)


@AREA.scenario
def released_and_aborted(t: Stage) -> None:
    """An open transaction aborts after its records are acquired; then they are released."""
    place, a = reader(t, (), share_isolation_level="read_uncommitted")
    p = Producer(t, "P", 2).started()
    t.setup(p.produce, [place], records=2)
    a.nothing(place)
    looks.configure(t, {"share.isolation.level": "read_committed"})
    t.nap(0.1)
    t.setup(p.abort)
    a.acknowledge([(0, 1, RELEASE)])
    a.nothing()
    looks.stored(t, place)
