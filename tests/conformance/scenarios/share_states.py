"""The share coordinator's own APIs: Initialize, Read, Write, Delete and ReadSummary of states.

Normally brokers send these requests; here they are sent for partitions of a group without members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.conformance import share_looks as looks
from tests.conformance.producers import error
from tests.conformance.share_setups import reader
from tests.conformance.shares import ACCEPT, Place
from tests.conformance.stage import Area, Stage

AREA = Area("share_states")

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
State = tuple[int, int, int, int]
"""First and last offset, delivery state and delivery count."""

_REQUESTS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "initialize": ("InitializeShareGroupState", 0, {"state_epoch": 1, "start_offset": 5}),
    "read": ("ReadShareGroupState", 0, {"leader_epoch": 0}),
    "write": (
        "WriteShareGroupState",
        1,
        {
            "state_epoch": 1,
            "leader_epoch": 0,
            "start_offset": 5,
            "delivery_complete_count": 0,
            "state_batches": [],
        },
    ),
    "summary": ("ReadShareGroupStateSummary", 1, {"leader_epoch": 0}),
    "delete": ("DeleteShareGroupState", 0, {}),
}


def _ask(
    t: Stage,
    what: str,
    place: Place,
    note: str = "",
    *,
    group: str | None = None,
    version: int | None = None,
    **fields: Any,
) -> None:
    """Send one of the five requests and record the answer without empty fields."""
    api, latest, usual = _REQUESTS[what]
    version = latest if version is None else version
    body = usual | fields
    if what == "write" and version == 0:
        body.pop("delivery_complete_count")
    answer = looks.ask_state(t, api, version, place, body, group)
    code = error(answer.pop("error_code"))
    rest = {
        key: value
        for key, value in answer.items()
        if key not in ("partition", "error_message", "state_batches")
    }
    if answer.get("state_batches"):
        rest["batches"] = looks.shown_batches(answer["state_batches"])
    t.rec(f"{what} {note}".strip(), [code, rest] if code == "NONE" and rest else code)


def _write(t: Stage, place: Place, states: Sequence[State], note: str = "", **more: Any) -> None:
    batches = [
        {
            "first_offset": first,
            "last_offset": last,
            "delivery_state": state,
            "delivery_count": count,
        }
        for first, last, state, count in states
    ]
    _ask(t, "write", place, note, state_batches=batches, **more)


def _quietly(t: Stage, do: Callable[..., None], *arguments: Any, **options: Any) -> None:
    """Run a function unrecorded; unlike `Stage.setup`, without a pause afterwards."""
    was, t.recording = t.recording, False
    do(*arguments, **options)
    t.recording = was


@AREA.each(what=list(_REQUESTS))
def of_nothing(t: Stage, what: str) -> None:
    """{what} names a partition that was never initialized, twice, then all others."""
    place = (looks.topic(t), 0)
    _ask(t, what, place)
    _ask(t, what, place, "again")
    for other in ("read", "summary", "write"):
        _ask(t, other, place, "afterwards")


@AREA.each(what=list(_REQUESTS))
def of_what_is_not_there(t: Stage, what: str) -> None:
    """{what} names an unknown and a negative partition, an unknown topic id and the zero id."""
    topic = looks.topic(t)
    places: list[tuple[str, Place]] = [
        ("unknown partition", (topic, 9)),
        ("negative partition", (topic, -1)),
        ("unknown id", (bytes(range(16)), 0)),
        ("zero id", (bytes(16), 0)),
    ]
    for note, place in places:
        _ask(t, what, place, note)


@AREA.each(what=list(_REQUESTS))
def of_groups_without_a_name(t: Stage, what: str) -> None:
    """{what} has an empty group id, and no topics."""
    topic = looks.topic(t)
    api, version, fields = _REQUESTS[what]
    partition = {"partition": 0, **fields}
    named = {"topic_id": t.own_topics[topic], "partitions": [partition]}
    for note, group, topics in (
        ("empty group", "", [named]),
        ("no topics", t.g, []),
        ("no partitions", t.g, [{**named, "partitions": []}]),
    ):
        answer = t.raw(api, version, {"group_id": group, "topics": topics})
        results = [
            [error(one["error_code"]) for one in topic["partitions"]] for topic in answer["results"]
        ]
        t.rec(note, results)


@AREA.each(what=list(_REQUESTS))
def several_partitions(t: Stage, what: str) -> None:
    """{what} names two partitions of two topics in one request, one of them unknown."""
    one, other = looks.topic(t, 2), looks.topic(t, suffix="second")
    for place in ((one, 0), (one, 1), (other, 0)):
        _ask(t, "initialize", place)
    api, version, fields = _REQUESTS[what]
    topics = [
        {
            "topic_id": t.own_topics[topic],
            "partitions": [{"partition": index, **fields} for index in indexes],
        }
        for topic, indexes in ((one, [1, 0]), (other, [0, 7]))
    ]
    answer = t.raw(api, version, {"group_id": t.g, "topics": topics})
    names = {topic_id: t.sub(name) for name, topic_id in t.own_topics.items()}
    results = {
        f"{names[topic['topic_id']]}-{place['partition']}": error(place["error_code"])
        for topic in answer["results"]
        for place in topic["partitions"]
    }
    t.rec(what, dict(sorted(results.items())))


@AREA.each(state_epoch=[0, 4, 5, 6, -1, -2])
def initialized_again(t: Stage, state_epoch: int) -> None:
    """A state is initialized with epoch 5, written, and initialized with {state_epoch}."""
    place = (looks.topic(t), 0)
    _ask(t, "initialize", place, state_epoch=5, start_offset=10)
    _write(t, place, [(10, 14, ACKNOWLEDGED, 1)], state_epoch=5, start_offset=10)
    _ask(t, "initialize", place, "again", state_epoch=state_epoch, start_offset=20)
    _ask(t, "read", place)
    _ask(t, "summary", place)


@AREA.each(start=[-1, 0, 7, -2])
def initialized_with_a_start(t: Stage, start: int) -> None:
    """A state is initialized with start offset {start}."""
    place = (looks.topic(t), 0)
    _ask(t, "initialize", place, start_offset=start)
    _ask(t, "read", place)
    _ask(t, "summary", place)
    _ask(t, "summary", place, "v0", version=0)


@AREA.each(epoch=[-1, 0, 2, 3, 4, -2])
def state_epoch_of_a_write(t: Stage, epoch: int) -> None:
    """A state with epoch 3 is written with epoch {epoch}."""
    place = (looks.topic(t), 0)
    _ask(t, "initialize", place, state_epoch=3)
    _write(t, place, [(5, 6, ACKNOWLEDGED, 1)], state_epoch=epoch)
    _ask(t, "read", place)


@AREA.each(what=["read", "write", "summary"], epoch=[-1, 0, 1, 2, 3])
def leader_epochs(t: Stage, what: str, epoch: int) -> None:
    """A leader of epoch 2 has read the state; {what} has leader epoch {epoch}."""
    place = (looks.topic(t), 0)
    _ask(t, "initialize", place)
    _ask(t, "read", place, "by 2", leader_epoch=2)
    _ask(t, what, place, f"by {epoch}", leader_epoch=epoch)
    _ask(t, "summary", place, "afterwards")
    _ask(t, "read", place, "by 2 again", leader_epoch=2)


@AREA.each(start=[-1, 3, 5, 7, 9, 12])
def start_of_a_write(t: Stage, start: int) -> None:
    """A state from 5 on with batches 5-6 and 8-9 is written with start offset {start}."""
    place = (looks.topic(t), 0)
    _ask(t, "initialize", place)
    _write(t, place, [(5, 6, ACKNOWLEDGED, 1), (8, 9, AVAILABLE, 2)])
    _write(t, place, [], f"start {start}", start_offset=start)
    _ask(t, "read", place)


@AREA.each(count=[-1, 0, 3, 2147483647])
def delivery_complete_count(t: Stage, count: int) -> None:
    """A write has {count} complete deliveries; version 0 lacks the field."""
    place = (looks.topic(t), 0)
    _ask(t, "initialize", place)
    _ask(t, "summary", place)
    _ask(t, "write", place, delivery_complete_count=count)
    _ask(t, "summary", place)
    _ask(t, "write", place, "v0", version=0)
    _ask(t, "summary", place)


_FIRST: State = (10, 19, AVAILABLE, 2)
_SECOND: dict[str, State] = {
    "the same": (10, 19, AVAILABLE, 2),
    "higher count": (10, 19, AVAILABLE, 3),
    "lower count": (10, 19, AVAILABLE, 1),
    "acknowledged": (10, 19, ACKNOWLEDGED, 2),
    "acknowledged with a lower count": (10, 19, ACKNOWLEDGED, 1),
    "acknowledged in the middle": (13, 15, ACKNOWLEDGED, 2),
    "acknowledged at the start": (10, 12, ACKNOWLEDGED, 2),
    "acknowledged at the end": (17, 19, ACKNOWLEDGED, 2),
    "around it": (5, 24, ACKNOWLEDGED, 2),
    "around it with a lower count": (5, 24, AVAILABLE, 1),
    "over its start": (7, 12, ARCHIVED, 3),
    "over its end": (17, 22, ARCHIVED, 3),
    "just after": (20, 24, AVAILABLE, 2),
    "just before": (5, 9, AVAILABLE, 2),
    "just after with another count": (20, 24, AVAILABLE, 1),
    "far after": (30, 34, AVAILABLE, 2),
    "below the start": (0, 3, ACKNOWLEDGED, 1),
    "backwards": (15, 12, ACKNOWLEDGED, 1),
    "unknown state": (10, 19, 7, 2),
}


@AREA.each(second=list(_SECOND), at_once=[False, True])
def combined(t: Stage, second: str, at_once: bool) -> None:
    """10-19, available with count 2, and {second} are written separately or at once."""
    place = (looks.topic(t), 0)
    _ask(t, "initialize", place)
    if at_once:
        _write(t, place, [_FIRST, _SECOND[second]], "both")
    else:
        _write(t, place, [_FIRST], "first")
        _write(t, place, [_SECOND[second]], "second")
    _ask(t, "read", place)


@AREA.scenario
def combined_out_of_order(t: Stage) -> None:
    """Batches are written in any order and read in offset order."""
    place = (looks.topic(t), 0)
    _ask(t, "initialize", place)
    _write(t, place, [(30, 34, AVAILABLE, 1), (5, 9, ACKNOWLEDGED, 1), (20, 24, ARCHIVED, 5)])
    _ask(t, "read", place)
    _write(t, place, [(10, 19, ACKNOWLEDGED, 1), (25, 29, ARCHIVED, 5)], start_offset=7)
    _ask(t, "read", place)


@AREA.scenario
def deleted(t: Stage) -> None:
    """A state is deleted, deleted again, and initialized with a lower epoch."""
    place = (looks.topic(t), 0)
    _ask(t, "initialize", place, state_epoch=5)
    _write(t, place, [(5, 9, ACKNOWLEDGED, 1)], state_epoch=5)
    _ask(t, "delete", place)
    _ask(t, "read", place)
    _ask(t, "summary", place)
    _ask(t, "delete", place, "again")
    _ask(t, "initialize", place, "again", state_epoch=1, start_offset=2)
    _ask(t, "read", place)
    _ask(t, "summary", place)


@AREA.scenario
def deleted_topic(t: Stage) -> None:
    """The topic of a state is deleted."""
    place = (looks.topic(t), 0)
    _ask(t, "initialize", place)
    topic_id = t.own_topics[place[0]]
    t.delete_topic(place[0])
    known, summary = (topic_id, 0), "ReadShareGroupStateSummary"
    while not looks.ask_state(t, summary, 1, known, {"leader_epoch": -1})["error_code"]:
        t.nap(0.02)
    t.sleep(0.1)
    for what in ("read", "summary", "write", "delete", "initialize"):
        _ask(t, what, (topic_id, 0))


@AREA.scenario
def more_updates_than_a_snapshot_takes(t: Stage) -> None:
    """After 500 updates of a partition there is a snapshot, and the state stays the same."""
    place = (looks.topic(t), 0)
    _ask(t, "initialize", place)
    for offset in range(5, 510):
        _quietly(t, _write, t, place, [(offset, offset, ACKNOWLEDGED, 1 + offset % 3)])
    _ask(t, "write", place, start_offset=503)
    _ask(t, "read", place)


@AREA.each(change=["written", "initialized", "deleted"])
def under_a_group(t: Stage, change: str) -> None:
    """The state of an active group is {change} externally, and its next write fails."""
    place, a = reader(t, (2, 2, 2))
    a.fetch(place, max_records=1)
    a.acknowledge([(0, 1, ACCEPT)])
    if change == "written":
        _write(t, place, [(2, 3, ACKNOWLEDGED, 1)], state_epoch=2, leader_epoch=5, start_offset=2)
    elif change == "initialized":
        _ask(t, "initialize", place, state_epoch=9, start_offset=4)
    else:
        _ask(t, "delete", place)
    a.fetch(max_records=1)
    a.acknowledge([(2, 3, ACCEPT)])
    a.nothing(note="again")
    a.acknowledge([(2, 3, ACCEPT)], "again")
    _ask(t, "summary", place)


@AREA.scenario
def texts(t: Stage) -> None:
    """Which error messages have refused requests?"""
    topic = looks.topic(t)
    _quietly(t, _ask, t, "initialize", (topic, 0), state_epoch=5)
    _quietly(t, _ask, t, "read", (topic, 0), leader_epoch=5)
    for what, (api, version, fields) in _REQUESTS.items():
        for index, epochs in ((-1, 9), (0, 1), (7, 9)):
            body = dict(fields)
            for name in ("state_epoch", "leader_epoch"):
                if name in body:
                    body[name] = epochs
            if what != "delete" or index:
                answer = looks.ask_state(t, api, version, (topic, index), body)
                t.rec(f"{what} {index}", [answer["error_code"], answer["error_message"]])
