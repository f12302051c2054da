"""Start offsets of share groups, and described, altered and deleted offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.conformance import share_looks as looks
from tests.conformance.producers import error
from tests.conformance.share_setups import EARLIEST, join, reader
from tests.conformance.shares import ACCEPT, RELEASE, ShareMember, produce, topic_id
from tests.conformance.stage import Area, Stage

AREA = Area("share_offsets")

STATES = ["unknown", "stable", "empty", "classic", "consumer"]


def _reach(t: Stage, state: str, topic: str) -> ShareMember:
    """Bring the group into the state: another type, no members, or member A; return A."""
    if state == "classic":
        t.reach("empty", "C")
    elif state == "consumer":
        body = {
            "group_id": t.g,
            "member_id": "consumer",
            "member_epoch": 0,
            "rebalance_timeout_ms": 9000,
            "subscribed_topic_names": [topic],
            "topic_partitions": [],
        }
        assert t.raw("ConsumerGroupHeartbeat", 1, body)["error_code"] == 0
    a = ShareMember(t, "A", (topic, 0))
    if state in ("stable", "empty"):
        a.joined(topic)
    if state == "empty":
        t.setup(a.leave)
    return a


def _delete_records(t: Stage, topic: str, offset: int) -> None:
    """Raise the log start offset, unrecorded, and wait until that is visible."""
    partition = {"partition_index": 0, "offset": offset}
    body = {"topics": [{"name": topic, "partitions": [partition]}], "timeout_ms": 5000}
    answer = t.raw("DeleteRecords", 2, body)
    assert answer["topics"][0]["partitions"][0]["error_code"] == 0, answer
    t.nap(0.05)


_RESETS = {"hour": "by_duration:PT1H", "nothing": "by_duration:PT0S"}


@AREA.each(reset=["earliest", "latest", "hour", "nothing", "default"])
def first_offset(t: Stage, reset: str) -> None:
    """With share.auto.offset.reset={reset}, are records from before the first fetch acquired?"""
    topic = looks.topic(t)
    if reset != "default":
        looks.configure(t, {"share.auto.offset.reset": _RESETS.get(reset, reset)})
    produce(t, (topic, 0), 3)
    t.nap(0.05)
    (a,) = join(t, "A", topic)
    a.nothing((topic, 0))
    produce(t, (topic, 0), 2)
    a.nothing()
    looks.stored(t, (topic, 0))
    a.close()
    looks.stored(t, (topic, 0))
    looks.offsets(t)


@AREA.each(reset=["earliest", "latest"])
def first_offset_of_a_log_without_a_start(t: Stage, reset: str) -> None:
    """The log start offset is 4, and the group starts with {reset}."""
    topic = looks.topic(t)
    looks.configure(t, {"share.auto.offset.reset": reset})
    produce(t, (topic, 0), 3, 3)
    _delete_records(t, topic, 4)
    (a,) = join(t, "A", topic)
    a.nothing((topic, 0))
    produce(t, (topic, 0), 1)
    a.nothing()
    a.close()
    looks.stored(t, (topic, 0))


@AREA.each(acquired=["all", "none", "some released"], offset=[2, 3, 5])
def records_deleted(t: Stage, acquired: str, offset: int) -> None:
    """The log start offset rises to {offset} in a log of 3 and 3 records; acquired: {acquired}."""
    place, a = reader(t, (3, 3))
    if acquired == "none":
        a.nothing(place, max_records=0)
    else:
        a.fetch(place)
    if acquired == "some released":
        a.acknowledge([(0, 3, RELEASE)])
    _delete_records(t, place[0], offset)
    a.nothing(note="after the deletion")
    if acquired == "all":
        a.acknowledge([(0, 5, ACCEPT)])
    looks.stored(t, place)
    looks.offsets(t)
    produce(t, place, 1)
    a.nothing(note="with a new record")


@AREA.scenario
def all_records_deleted(t: Stage) -> None:
    """The log start offset rises to the log end while records are acquired."""
    place, a = reader(t, (3, 3))
    a.fetch(place, max_records=1)
    _delete_records(t, place[0], 6)
    a.nothing(note="after the deletion")
    a.acknowledge([(0, 2, ACCEPT)])
    looks.stored(t, place)
    looks.offsets(t)
    produce(t, place, 2)
    a.nothing(note="with new records")
    a.acknowledge([(6, 7, ACCEPT)])
    looks.stored(t, place)


@AREA.each(state=STATES, version=[0, 1])
def described(t: Stage, state: str, version: int) -> None:
    """DescribeShareGroupOffsets {version} of a {state} group: all, known and unknown topics."""
    topic = looks.topic(t, 2)
    looks.configure(t, EARLIEST)
    _reach(t, state, topic)
    looks.offsets(t, "all", version=version)
    looks.offsets(t, "named", [(topic, 1), (topic, 0)], version=version)
    # Kafka omits unknown partitions of known topics.
    looks.offsets(t, "unknown topic", [("nowhere", 0)], version=version)
    looks.offsets(t, "not subscribed", [(t.t1, 0)], version=version)
    looks.offsets(t, "nothing", [], version=version)


@AREA.scenario
def order_of_described_partitions(t: Stage) -> None:
    """Partitions of a known and an unknown topic are named in descending order."""
    topics = [
        {"topic_name": name, "partitions": [2, 0, 1]} for name in ("cf-none", t.topic(partitions=3))
    ]
    body = {"groups": [{"group_id": t.g, "topics": topics}]}
    for topic in t.raw("DescribeShareGroupOffsets", 1, body)["groups"][0]["topics"]:
        indexes = [partition["partition_index"] for partition in topic["partitions"]]
        t.rec(t.sub(topic["topic_name"]), indexes)


@AREA.scenario
def lag(t: Stage) -> None:
    """How does the lag change as records are written, acquired, accepted and released?"""
    place, a = reader(t, (2, 2))
    looks.offsets(t, "before the first fetch")
    a.fetch(place)
    looks.offsets(t, "acquired")
    a.acknowledge([(2, 2, ACCEPT)])
    looks.offsets(t, "one accepted")
    produce(t, place, 3)
    looks.offsets(t, "three more")
    a.acknowledge([(0, 1, ACCEPT)])
    looks.offsets(t, "two more accepted")
    a.close()
    looks.offsets(t, "closed")


@AREA.scenario
def several_groups_described(t: Stage) -> None:
    """One request has several groups, a group twice, and an unknown group."""
    place, a = reader(t)
    a.fetch(place)
    a.acknowledge([(0, 1, ACCEPT)])
    names = [t.g, t.group("unknown"), "", t.g]
    body = {"groups": [{"group_id": name, "topics": None} for name in names]}
    answer = t.raw("DescribeShareGroupOffsets", 1, body)
    shown = [[t.sub(one["group_id"]), looks.shown_offsets(t, one)] for one in answer["groups"]]
    t.rec("groups", sorted(shown, key=str))


@AREA.each(state=STATES)
def altered(t: Stage, state: str) -> None:
    """AlterShareGroupOffsets is sent for a group that is {state}; then the group reads."""
    topic = looks.topic(t, 2)
    looks.configure(t, EARLIEST)
    a = _reach(t, state, topic)
    produce(t, (topic, 0), 3, 3)
    looks.alter_offsets(t, {(topic, 0): 3})
    looks.described(t)
    looks.listed(t)
    looks.offsets(t)
    looks.stored(t, (topic, 0))
    if state in ("unknown", "empty"):
        a.epoch = 0
        a.joined(topic, partitions=2)
        looks.described(t)
        a.fetch((topic, 0))


@AREA.scenario
def altered_after_the_session_was_closed(t: Stage) -> None:
    """If a closed session's connection stays open, altered offsets apply once a write fails."""
    place, a = reader(t, (3, 3))
    a.fetch(place)
    a.acknowledge([(0, 5, ACCEPT)])
    t.setup(a.close)
    t.setup(a.leave)
    looks.alter_offsets(t, {place: 4})
    (b,) = join(t, "B", place[0])
    b.nothing(place)
    produce(t, place, 1)
    b.fetch()
    b.acknowledge([(6, 6, ACCEPT)])
    b.nothing()
    looks.stored(t, place)


@AREA.each(offset=[-1, -2, 0, 4, 99])
def altered_to(t: Stage, offset: int) -> None:
    """The start offset becomes {offset} in a log of 3 and 3 records."""
    place, a = reader(t, (3, 3))
    a.fetch(place)
    a.acknowledge([(0, 5, ACCEPT)])
    a.disconnect()
    t.setup(a.leave)
    looks.alter_offsets(t, {place: offset})
    looks.stored(t, place)
    looks.offsets(t)
    (b,) = join(t, "B", place[0])
    b.nothing(place)


@AREA.scenario
def altered_while_a_session_is_open(t: Stage) -> None:
    """The empty group's start offset is altered; an open session gets an error."""
    place, a = reader(t, (3, 3))
    a.fetch(place, max_records=1)
    t.setup(a.leave)
    looks.alter_offsets(t, {place: 1})
    a.acknowledge([(0, 2, ACCEPT)])
    a.nothing()
    a.nothing(note="again")
    looks.stored(t, place)


@AREA.scenario
def altered_in_part(t: Stage) -> None:
    """AlterShareGroupOffsets names existing and nonexistent partitions in one request."""
    topic = looks.topic(t, 2)
    looks.alter_offsets(t, {(topic, 0): 1, (topic, 5): 1, ("nowhere", 0): 1, (t.t1, 0): 0})
    looks.offsets(t)
    looks.alter_offsets(t, {("nowhere", 0): 1}, "of an unknown topic")
    looks.alter_offsets(t, {}, "of nothing")
    looks.described(t)


@AREA.each(what=["alter", "delete"])
def of_a_group_without_a_name(t: Stage, what: str) -> None:
    """A request to {what} offsets names a group with an empty name, then a nonexistent group."""
    topic: dict[str, Any] = {"topic_name": t.t1}
    if what == "alter":
        topic["partitions"] = [{"partition_index": 0, "start_offset": 0}]
    api = {"alter": "AlterShareGroupOffsets", "delete": "DeleteShareGroupOffsets"}[what]
    for name in ("", t.g):
        answer = t.raw(api, 0, {"group_id": name, "topics": [topic]})
        t.rec(f"{what} of {t.sub(name)}", _shown(t, answer))
    looks.described(t)


@AREA.each(state=STATES)
def deleted(t: Stage, state: str) -> None:
    """DeleteShareGroupOffsets is sent for a group that is {state}."""
    topic = looks.topic(t, 2)
    looks.configure(t, EARLIEST)
    a = _reach(t, state, topic)
    looks.delete_offsets(t, topic)
    looks.described(t)
    looks.offsets(t)
    looks.stored(t, (topic, 0))
    if state == "empty":
        looks.delete_offsets(t, topic, label="again")
        produce(t, (topic, 0), 2)
        a.epoch = 0
        a.joined(topic, partitions=2)
        looks.described(t)
        a.fetch((topic, 0))
        looks.stored(t, (topic, 0))


@AREA.scenario
def deleted_in_part(t: Stage) -> None:
    """Offsets are deleted for a read, an unknown and an unread topic, and for no topic."""
    place, a = reader(t)
    other = looks.topic(t, suffix="second")
    t.setup(a.heartbeat, "", place[0], other)
    a.joined(partitions=2)
    t.setup(a.leave)
    looks.delete_offsets(t, label="of nothing")
    looks.delete_offsets(t, other, "nowhere", t.t1)
    looks.offsets(t)
    looks.delete_offsets(t, other, label="again")
    looks.delete_offsets(t, place[0], place[0], label="twice at once")
    looks.offsets(t)


@AREA.scenario
def deleted_and_altered(t: Stage) -> None:
    """Offsets are deleted and altered, and the state starts again with the group's epoch."""
    place, a = reader(t, (3, 3))
    a.fetch(place)
    a.acknowledge([(0, 5, ACCEPT)])
    a.disconnect()
    t.setup(a.leave)
    looks.delete_offsets(t, place[0])
    looks.alter_offsets(t, {place: 2})
    looks.stored(t, place)
    (b,) = join(t, "B", place[0])
    b.nothing(place)


@AREA.each(what=["alter", "delete"])
def texts(t: Stage, what: str) -> None:
    """Which error message does a refused change of offsets get: {what}?"""
    topic = looks.topic(t)

    def say(note: str, names: Sequence[str], index: int = 0) -> None:
        topics: list[dict[str, Any]] = [{"topic_name": name} for name in names]
        if what == "alter":
            for one in topics:
                one["partitions"] = [{"partition_index": index, "start_offset": 0}]
        api = {"alter": "AlterShareGroupOffsets", "delete": "DeleteShareGroupOffsets"}[what]
        answer = t.raw(api, 0, {"group_id": t.g, "topics": topics})
        told = [answer["error_code"], _plain(t, answer["error_message"])]
        for one in answer["responses"]:
            for each in one.get("partitions", [one]):
                told.append([each["error_code"], _plain(t, each["error_message"])])
        t.rec(note, told)

    say("unknown group", [topic])
    a = ShareMember(t, "A", (topic, 0)).joined(topic)
    say("not empty", [topic])
    t.setup(a.leave)
    say("unknown topic", ["nowhere"])
    say("unknown partition", [topic], 9)
    say("not subscribed", [t.t1])
    looks.offsets(t)


def _plain(t: Stage, text: str | None) -> str | None:
    return text and text.replace(t.g, "<g>")


def _shown(t: Stage, answer: Any) -> Any:
    if answer["error_code"]:
        return error(answer["error_code"])
    names = {topic_id(t, t.t1): "<t1>", bytes(16): "<zero id>"}
    return [
        [
            t.sub(one["topic_name"]),
            names.get(one["topic_id"], "<id?>"),
            [error(each["error_code"]) for each in one.get("partitions", [one])],
        ]
        for one in answer["responses"]
    ]
