"""Share-partition states read back from the share coordinator.

A broker forgets a share partition when the last connection with a session of the group closes, and
reads its state with the next fetch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.conformance import share_looks as looks
from tests.conformance.producers import Partition
from tests.conformance.share_setups import EARLIEST, group, reader
from tests.conformance.shares import (
    ACCEPT,
    GAP,
    RECORD_LIMIT,
    REJECT,
    RELEASE,
    Range,
    ShareMember,
    produce,
)
from tests.conformance.stage import Area, Stage

AREA = Area("share_reloads")

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
State = tuple[int, int, int, int]
"""First and last offset, delivery state and delivery count."""


def _stored(t: Stage, place: Partition, start: int, states: Sequence[State]) -> None:
    """Write a state, unrecorded."""
    batches = [
        {
            "first_offset": first,
            "last_offset": last,
            "delivery_state": state,
            "delivery_count": count,
        }
        for first, last, state, count in states
    ]
    body = {
        "state_epoch": 2,
        "leader_epoch": 0,
        "start_offset": start,
        "delivery_complete_count": 0,
        "state_batches": batches,
    }
    answer = looks.ask_state(t, "WriteShareGroupState", 1, place, body)
    assert answer["error_code"] == 0, answer


_STATES: dict[str, tuple[int, Sequence[State]]] = {
    "only a start": (7, []),
    "nothing open": (0, [(0, 9, ACKNOWLEDGED, 1)]),
    "available at the start": (0, [(0, 3, AVAILABLE, 2), (4, 9, ACKNOWLEDGED, 1)]),
    "acknowledged in the middle": (0, [(5, 9, ACKNOWLEDGED, 1)]),
    "available after a gap": (0, [(8, 9, AVAILABLE, 3)]),
    "two gaps": (2, [(4, 5, ACKNOWLEDGED, 1), (9, 10, AVAILABLE, 1), (14, 15, ARCHIVED, 5)]),
    "start in a batch": (3, [(3, 6, AVAILABLE, 1)]),
    "batches of no log batch": (0, [(0, 6, AVAILABLE, 1), (7, 7, ACKNOWLEDGED, 2), (8, 12, 0, 4)]),
    "up to the end": (10, [(10, 19, AVAILABLE, 1)]),
    "beyond the end": (15, [(15, 24, AVAILABLE, 1)]),
    "start beyond the end": (30, []),
    "below the start": (5, [(5, 6, ACKNOWLEDGED, 1)]),
    "last delivery": (0, [(0, 4, AVAILABLE, 4), (5, 9, AVAILABLE, 5)]),
    "above the limit": (0, [(0, 4, AVAILABLE, 7)]),
}


@AREA.each(state=list(_STATES), most=[3, 500])
def read_and_acquired(t: Stage, state: str, most: int) -> None:
    """Which records of four batches of 5 are acquired, at most {most} at once? State: {state}."""
    place, a = reader(t, (5, 5, 5, 5))
    _stored(t, place, *_STATES[state])
    for note in ("first", "second", "third"):
        a.nothing(place, note=note, max_records=most)
    looks.stored(t, place)


@AREA.each(state=["acknowledged in the middle", "two gaps", "batches of no log batch"])
def read_and_acquired_one_by_one(t: Stage, state: str) -> None:
    """Which records are acquired with the record limit mode, 4 at a time? State: {state}."""
    place, a = reader(t, (5, 5, 5, 5))
    _stored(t, place, *_STATES[state])
    options: dict[str, Any] = {"share_acquire_mode": RECORD_LIMIT, "max_records": 4}
    for note in ("first", "second", "third", "fourth"):
        a.nothing(place, note=note, **options)


@AREA.each(state=["acknowledged in the middle", "two gaps", "nothing open"])
def acknowledged_after_it_was_read(t: Stage, state: str) -> None:
    """The acquired records are accepted, and the start moves over the stored state: {state}."""
    place, a = reader(t, (5, 5, 5, 5))
    _stored(t, place, *_STATES[state])
    for _ in range(2):
        answer = a.nothing(place)
        partitions = [one for topic in answer["responses"] for one in topic["partitions"]]
        acquired = [got for one in partitions for got in one["acquired_records"]]
        ranges: list[Range] = [
            (one["first_offset"], one["last_offset"], ACCEPT) for one in acquired
        ]
        if ranges:
            a.acknowledge(ranges)
        looks.stored(t, place)
        looks.offsets(t)


_SAID: dict[str, Sequence[Range]] = {
    "nothing": [],
    "all": [(0, 9, ACCEPT)],
    "the start": [(0, 3, ACCEPT)],
    "the middle": [(3, 6, ACCEPT)],
    "the end released": [(6, 9, RELEASE)],
    "each otherwise": [(0, 4, [ACCEPT, RELEASE, GAP, REJECT, ACCEPT]), (5, 9, RELEASE)],
}


@AREA.each(said=list(_SAID))
def forgotten_and_read_again(t: Stage, said: str) -> None:
    """Of two acquired batches of 5 are acknowledged: {said}; then the connection closes."""
    place, a = reader(t, (5, 5, 5))
    a.fetch(place, max_records=10)
    if _SAID[said]:
        a.acknowledge(_SAID[said])
    a.disconnect()
    looks.stored(t, place)
    looks.offsets(t)
    a.session = 0
    a.fetch(place, note="anew")
    looks.stored(t, place)


@AREA.scenario
def forgotten_twice(t: Stage) -> None:
    """Delivery counts continue over two closed connections."""
    place, a = reader(t, (3,))
    for _ in range(3):
        a.session = 0
        a.fetch(place)
        a.disconnect()
        looks.stored(t, place)


@AREA.scenario
def not_forgotten_while_another_session_is_open(t: Stage) -> None:
    """The connection of one of two sessions closes, and the partition stays in memory."""
    place, (a, b) = group(t, "AB", (5, 5))
    b.fetch(place, max_records=1)
    a.fetch(place, max_records=1)
    _stored(t, place, 0, [(0, 4, ACKNOWLEDGED, 1)])
    a.disconnect()
    b.fetch()
    b.acknowledge([(0, 4, ACCEPT)])
    b.disconnect()
    b.session = 0
    b.fetch(place, note="after the last one")


@AREA.each(offset=[3, 8, 15])
def log_start_that_has_moved(t: Stage, offset: int) -> None:
    """The state (2, 5-9 available, 12 acknowledged) is read with log start offset {offset}."""
    place, a = reader(t, (5, 5, 5))
    _stored(t, place, 2, [(5, 9, AVAILABLE, 2), (12, 12, ACKNOWLEDGED, 1)])
    partition = {"partition_index": 0, "offset": offset}
    body = {"topics": [{"name": place[0], "partitions": [partition]}], "timeout_ms": 5000}
    t.raw("DeleteRecords", 2, body)
    t.sleep(0.1)
    a.nothing(place, note="first")
    a.nothing(note="second")
    produce(t, place, 2)
    a.nothing(note="with new records")
    a.close()
    looks.stored(t, place)


@AREA.each(states=["below the start", "backwards", "overlapping"])
def states_that_make_no_sense(t: Stage, states: str) -> None:
    """An inconsistent state is read back: {states}."""
    place, a = reader(t, (5, 5))
    odd: dict[str, tuple[int, Sequence[State]]] = {
        "below the start": (6, [(2, 8, AVAILABLE, 1)]),
        "backwards": (0, [(6, 3, AVAILABLE, 1)]),
        "overlapping": (0, [(0, 5, AVAILABLE, 1), (3, 8, ACKNOWLEDGED, 2)]),
    }
    _stored(t, place, *odd[states])
    looks.stored(t, place)
    a.fetch(place, wait_ms=500)
    a.nothing(note="again")


@AREA.scenario
def a_group_that_begins_elsewhere(t: Stage) -> None:
    """A changed reset strategy has no effect once the state has a start offset."""
    place, a = reader(t, (5, 5))
    a.fetch(place, max_records=1)
    a.acknowledge([(0, 4, ACCEPT)])
    a.disconnect()
    looks.configure(t, {"share.auto.offset.reset": "latest"})
    t.sleep(0.1)
    a.session = 0
    a.fetch(place)


@AREA.scenario
def a_state_without_a_start(t: Stage) -> None:
    """Without acknowledgements, a reload starts again, at what is then the log end."""
    place, a = reader(t, (5,))
    a.fetch(place)
    t.setup(a.acknowledge, [(0, 4, RELEASE)])
    other = t.group("other")
    looks.configure(t, EARLIEST, other)
    b = ShareMember(t, "B", place, group=other).joined(place[0])
    b.nothing(place, max_records=0)
    b.disconnect()
    looks.configure(t, {"share.auto.offset.reset": "latest"}, other)
    t.sleep(0.1)
    b.session = 0
    b.nothing(place)
    produce(t, place, 2)
    b.fetch()
