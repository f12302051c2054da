"""The share coordinator's own APIs: Initialize, Read, Write, Delete and ReadSummary of states.

Normally brokers send these requests; here they are sent for partitions of a group without members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.conformance import share_looks as looks
from tests.conformance.producers import error
from tests.conformance.shares import Place
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


def ask(
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
    ask(t, "write", place, note, state_batches=batches, **more)


def _quietly(t: Stage, do: Callable[..., None], *arguments: Any, **options: Any) -> None:
    """Run a function unrecorded; unlike `Stage.setup`, do not pause afterwards."""
    was, t.recording = t.recording, False
    do(*arguments, **options)
    t.recording = was


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
        ask(t, "initialize", place)
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


@AREA.scenario
def more_updates_than_a_snapshot_takes(t: Stage) -> None:
    """After 500 updates of a partition a snapshot is written; the state stays the same."""
    place = (looks.topic(t), 0)
    ask(t, "initialize", place)
    for offset in range(5, 510):
        _quietly(t, _write, t, place, [(offset, offset, ACKNOWLEDGED, 1 + offset % 3)])
    ask(t, "write", place, start_offset=503)
    ask(t, "read", place)


@AREA.scenario
def texts(t: Stage) -> None:
    """Which error messages do refused requests get?"""
    topic = looks.topic(t)
    _quietly(t, ask, t, "initialize", (topic, 0), state_epoch=5)
    _quietly(t, ask, t, "read", (topic, 0), leader_epoch=5)
    for what, (api, version, fields) in _REQUESTS.items():
        for index, epochs in ((-1, 9), (0, 1), (7, 9)):
            body = dict(fields)
            for name in ("state_epoch", "leader_epoch"):
                if name in body:
                    body[name] = epochs
            if what != "delete" or index:
                answer = looks.ask_state(t, api, version, (topic, index), body)
                t.rec(f"{what} {index}", [answer["error_code"], answer["error_message"]])
