"""Fetch sessions (KIP-227) while topics are deleted, recreated or given more partitions."""

from __future__ import annotations

from typing import Any

from tests.conformance.fetchers import BY_ID, BY_NAME, CLOSE, OPEN, Fetcher
from tests.conformance.shares import Place, produce, topic_id
from tests.conformance.stage import Area, Stage

AREA = Area("fetch_topics")
VERSIONS = [BY_NAME, BY_ID]


@AREA.each(version=VERSIONS, records=[0, 2])
def created_again(t: Stage, version: int, records: int) -> None:
    """The topic of a session is deleted and recreated with {records} records: v{version}."""
    place = (_topic(t, 1), 0)
    a = Fetcher(t, version).opened(place)
    gone = (_of_version(t, a, place), 0)
    _delete(t, place)
    _topic(t, records)
    a.fetch(note="without changes")
    a.fetch(note="again")
    a.fetch(gone, note="names what it had", offset=1)
    a.fetch(place, note="names the new topic")
    a.fetch(note="both")
    a.fetch(note="forgets the deleted topic", forget=[gone])
    a.fetch(note="afterwards", wait_ms=200)


@AREA.each(version=VERSIONS)
def order_of_a_session(t: Stage, version: int) -> None:
    """In which order does a session list an unknown and a known partition?"""
    topic = _topic(t)
    a = Fetcher(t, version)
    places = [(topic, 1), (topic, 0)]
    a.fetch(*places, note="one of them is unknown", session_id=0, session_epoch=OPEN)
    t.grow_topic(topic, 2)
    for place in reversed(places):
        produce(t, place, 1)
    body: dict[str, Any] = {"max_wait_ms": 0, "session_id": a.session_id, "session_epoch": 1}
    answer = t.raw("Fetch", version, {"max_bytes": 1 << 20, "topics": [], **body})
    partitions = [one for topic in answer["responses"] for one in topic["partitions"]]
    t.rec("partitions", [one["partition_index"] for one in partitions])


@AREA.each(version=VERSIONS, session=["full", "sessionless"])
def outside_a_session(t: Stage, version: int, session: str) -> None:
    """A {session} request names a topic that was deleted, then recreated, and other topics."""
    place, other = (_topic(t, 1), 0), (_topic(t, suffix="other"), 0)
    a = Fetcher(t, version)
    epoch = OPEN if session == "full" else CLOSE
    gone = (_of_version(t, a, place), 0)
    for what in ("deleted", "created again"):
        _delete(t, place) if what == "deleted" else _topic(t)
        for note, places in (("alone", [gone]), ("and an empty one", [gone, other])):
            a.fetch(*places, note=f"{what} {note}", session_id=0, session_epoch=epoch)
    produce(t, other, 2)
    a.fetch(gone, other, note="and one with records", session_id=0, session_epoch=epoch)
    a.fetch((gone[0], 7), other, note="no such partition", session_id=0, session_epoch=epoch)


@AREA.each(version=VERSIONS)
def fewer_partitions(t: Stage, version: int) -> None:
    """The topic of a session is recreated with one partition instead of three."""
    topic = _topic(t, partitions=3)
    a = Fetcher(t, version).opened(*((topic, index) for index in range(3)))
    gone = _of_version(t, a, (topic, 0))
    _delete(t, (topic, 0))
    _topic(t, 2)
    a.fetch(note="without changes")
    a.fetch(note="forgets one", forget=[(gone, 1)])
    a.fetch(note="forgets the others", forget=[(gone, 0), (gone, 2)])


@AREA.each(version=VERSIONS)
def forgotten(t: Stage, version: int) -> None:
    """One request both fetches a deleted topic and forgets that topic."""
    place, other = (_topic(t), 0), (_topic(t, 1, suffix="other"), 0)
    a = Fetcher(t, version).opened(place, other)
    gone = (_of_version(t, a, place), 0)
    _delete(t, place)
    a.fetch(gone, note="names and forgets it", forget=[gone])
    a.fetch(other, note="without it", wait_ms=200, offset=1)
    _topic(t, 2)
    a.fetch(note="once there is another", wait_ms=200)
    a.fetch(place, note="names the new one", forget=[gone])
    a.fetch(note="afterwards", wait_ms=200)


def _topic(t: Stage, records: int = 0, partitions: int = 1, suffix: str = "own") -> str:
    """Create a topic with records in its first partition, and return its name.

    After `_delete` the topic is recreated.
    """
    name = t.topic(partitions, suffix)
    t.coordinator_learns()
    if records:
        produce(t, (name, 0), records)
    return name


def _delete(t: Stage, *places: Place) -> None:
    for topic, _ in places:
        t.delete_topic(str(topic))
    t.coordinator_learns()


def _of_version(t: Stage, fetcher: Fetcher, place: Place) -> str | bytes:
    """Return the topic as the fetcher names it: by name, or by its current topic id."""
    return topic_id(t, place[0]) if fetcher.version == BY_ID else place[0]
