"""Fetch sessions (KIP-227) while topics are deleted, recreated or given more partitions."""

from __future__ import annotations

from typing import Any

from tests.conformance.fetchers import BY_ID, BY_NAME, CLOSE, OPEN, Fetcher
from tests.conformance.shares import Place, produce, topic_id
from tests.conformance.stage import Area, Stage

AREA = Area("fetch_topics")
VERSIONS = [BY_NAME, BY_ID]

_LONG_MS = 3000
_UNKNOWN = bytes(range(16))


@AREA.each(version=VERSIONS, records=[0, 2])
def deleted(t: Stage, version: int, records: int) -> None:
    """The only topic of a session, with {records} records, is deleted: v{version}."""
    place = (_topic(t, records), 0)
    a = Fetcher(t, version).opened(place)
    _delete(t, place)
    a.fetch(note="without changes", offset=records)
    a.fetch(note="again")
    a.fetch((_of_version(t, a, place), 0), note="names it again")
    a.fetch(note="forgets it", forget=[(_of_version(t, a, place), 0)])
    a.fetch(note="afterwards")


@AREA.each(version=VERSIONS)
def deleted_beside_another(t: Stage, version: int) -> None:
    """One of two topics of a session is deleted; the other one is empty, then has records."""
    place, other = (_topic(t), 0), (_topic(t, suffix="other"), 0)
    a = Fetcher(t, version).opened(place, other)
    _delete(t, place)
    a.fetch(note="the other one is empty")
    produce(t, other, 2)
    a.fetch(note="the other one has records")
    a.fetch(other, note="at the end", offset=2)


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
def created_again_after_a_fetch(t: Stage, version: int) -> None:
    """A session fetches its topic while it is deleted, and after it is recreated."""
    place = (_topic(t, 1), 0)
    a = Fetcher(t, version).opened(place)
    _delete(t, place)
    a.fetch(note="while it is deleted")
    _topic(t)
    a.fetch(note="once it is back")
    a.fetch(note="again")
    produce(t, place, 2)
    a.fetch(note="with records")


@AREA.each(version=VERSIONS)
def created_again_beside_another(t: Stage, version: int) -> None:
    """One of two topics of a session is recreated; the other one stays without records."""
    place, other = (_topic(t), 0), (_topic(t, suffix="other"), 0)
    a = Fetcher(t, version).opened(place, other)
    _delete(t, place)
    _topic(t)
    a.fetch(note="nothing in both")
    produce(t, other, 2)
    a.fetch(note="records in the other one")
    produce(t, place, 3)
    a.fetch(other, note="records in the new topic", offset=2)


@AREA.each(version=VERSIONS, isolation=[0, 1])
def created_again_behind_the_offset(t: Stage, version: int, isolation: int) -> None:
    """Fetches of a recreated topic have the old offset and epoch; isolation level {isolation}."""
    place = (_topic(t, 5), 0)
    a = Fetcher(t, version).opened(place)
    known = {"fetch_offset": 5, "current_leader_epoch": 0, "last_fetched_epoch": 0}
    a.fetch(place, note="at the end", wait_ms=0, fields=known)
    _delete(t, place)
    _topic(t, 2)
    a.fetch(note="without changes", isolation_level=isolation)
    for note, fields in (
        ("within the log", {"fetch_offset": 1, "last_fetched_epoch": 0}),
        ("after a later epoch", {"last_fetched_epoch": 3}),
        ("without the epochs", {"fetch_offset": 5}),
        ("with a later epoch", {"current_leader_epoch": 3}),
    ):
        a.fetch(place, note=note, isolation_level=isolation, fields=fields)


@AREA.each(version=VERSIONS)
def order_of_a_session(t: Stage, version: int) -> None:
    """Which order has a session that was opened with an unknown and a known partition?"""
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


@AREA.each(version=VERSIONS, isolation=[0, 1])
def unknown_from_the_start(t: Stage, version: int, isolation: int) -> None:
    """A session is opened with only an unknown topic; isolation level {isolation}."""
    a = Fetcher(t, version)
    name: str | bytes = _UNKNOWN if version == BY_ID else f"{t.g}-own"
    t.name_it(f"{t.g}-own", "<own>")
    a.fetch((name, 0), note="opens", isolation_level=isolation)
    a.fetch(note="again", isolation_level=isolation)
    topic = _topic(t, 2)
    a.fetch(note="there is a topic", isolation_level=isolation)
    a.fetch((topic, 0), (topic, 1), note="names it", isolation_level=isolation)
    a.fetch(note="unknown partition", offset=2, isolation_level=isolation)


@AREA.scenario
def zero_id(t: Stage) -> None:
    """The zero topic id is fetched, alone and beside an existing topic."""
    place, zero = (_topic(t, 1), 0), (bytes(16), 0)
    a = Fetcher(t, BY_ID)
    a.fetch(zero, place, note="without a session", session_epoch=CLOSE)
    a.fetch(zero, note="alone")
    a.fetch(note="again")


@AREA.each(version=VERSIONS)
def more_partitions(t: Stage, version: int) -> None:
    """A session has a partition that does not exist until the topic gets three partitions."""
    topic = _topic(t)
    a = Fetcher(t, version)
    a.fetch((topic, 0), (topic, 2), note="opens", wait_ms=200)
    a.fetch(note="again")
    t.grow_topic(topic, 3)
    a.fetch(note="after the growth", wait_ms=200)
    produce(t, (topic, 2), 2)
    a.fetch(note="with records")
    a.fetch((topic, 1), note="adds a partition", offset=0)


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


@AREA.each(version=VERSIONS, then=["stays away", "comes back"])
def deleted_while_waiting(t: Stage, version: int, then: str) -> None:
    """The only topic of a waiting fetch is deleted and {then}."""
    place = (_topic(t), 0)
    a = Fetcher(t, version).opened(place)
    waiting = a.fetching(note="waits", wait_ms=_LONG_MS)
    t.parked(waiting)
    _delete(t, place)
    if then == "comes back":
        _topic(t)
    a.fetched(waiting)
    a.fetch(note="afterwards")
    a.fetch(note="again")


@AREA.each(version=VERSIONS, isolation=[0, 1])
def one_of_two_deleted_while_waiting(t: Stage, version: int, isolation: int) -> None:
    """One of two topics of a waiting fetch is deleted; isolation level {isolation}."""
    place, other = (_topic(t), 0), (_topic(t, suffix="other"), 0)
    a = Fetcher(t, version).opened(other, place)
    waiting = a.fetching(note="waits", wait_ms=_LONG_MS, isolation_level=isolation)
    t.parked(waiting)
    _delete(t, place)
    a.fetched(waiting)
    a.fetch(note="afterwards")


@AREA.each(version=VERSIONS)
def unknown_one_appears_while_waiting(t: Stage, version: int) -> None:
    """An unknown partition of a waiting fetch is created, and the fetch still waits."""
    topic = _topic(t)
    a = Fetcher(t, version).opened((topic, 0), (topic, 1))
    waiting = a.fetching(note="waits", wait_ms=1500)
    t.parked(waiting)
    t.grow_topic(topic, 2)
    produce(t, (topic, 1), 1)
    a.fetched(waiting)
    a.fetch(note="afterwards")


@AREA.each(version=VERSIONS)
def grows_while_waiting(t: Stage, version: int) -> None:
    """The topic of a waiting fetch gets more partitions, then records."""
    topic = _topic(t)
    a = Fetcher(t, version).opened((topic, 0))
    waiting = a.fetching(note="waits", wait_ms=_LONG_MS)
    t.parked(waiting)
    t.grow_topic(topic, 4)
    t.parked(waiting)
    produce(t, (topic, 0), 1)
    a.fetched(waiting)


@AREA.each(version=VERSIONS, min_bytes=[1, 100_000])
def deleted_with_too_little(t: Stage, version: int, min_bytes: int) -> None:
    """Does a fetch of at least {min_bytes} bytes with an unknown partition wait?"""
    topic, other = _topic(t, 1), (_topic(t, suffix="other"), 0)
    a = Fetcher(t, version)
    places = [other, (topic, 9), (topic, 0)]
    a.fetch(*places, note="unknown partition", min_bytes=min_bytes)
    gone = _of_version(t, a, other)
    _delete(t, other)
    a.fetch(note="and a deleted topic", min_bytes=min_bytes)
    a.fetch(note="without the others", forget=[(gone, 0), (topic, 9)], min_bytes=min_bytes)


@AREA.each(version=VERSIONS)
def forgotten(t: Stage, version: int) -> None:
    """The same request forgets deleted topics and names them."""
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


@AREA.scenario
def versions_change(t: Stage) -> None:
    """After the topic is recreated, a session by id continues by name, and the reverse."""
    place = (_topic(t, 1), 0)
    for first, second in ((BY_ID, BY_NAME), (BY_NAME, BY_ID)):
        a = Fetcher(t, first, f"v{first}").opened(place)
        _delete(t, place)
        _topic(t)
        a.version = second
        a.fetch(note=f"v{second}")
        a.version = first
        a.fetch(note=f"v{first} again")


def _topic(t: Stage, records: int = 0, partitions: int = 1, suffix: str = "own") -> str:
    """Create a topic with records in its first partition, again with the same name if deleted."""
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
    """Return the fetcher's name for the topic, or the id, which stays after a recreation."""
    return topic_id(t, place[0]) if fetcher.version == BY_ID else place[0]
