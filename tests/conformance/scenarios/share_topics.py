"""Share sessions while topics are deleted, recreated or given more partitions."""

from __future__ import annotations

from typing import Any

from tests.conformance import share_looks as looks
from tests.conformance.producers import Partition
from tests.conformance.share_setups import group
from tests.conformance.shares import (
    ACCEPT,
    CLOSE,
    RENEW,
    Place,
    ShareMember,
    produce,
    topic_id,
)
from tests.conformance.stage import Area, Stage

AREA = Area("share_topics")

_LONG_MS = 3000
_WAIT_MS = 600
_UNKNOWN: Place = (bytes(range(16)), 0)


@AREA.each(beside=["nothing", "an empty one", "records"])
def unknown_id(t: Stage, beside: str) -> None:
    """A session has an unknown topic id beside {beside}."""
    place, (a,) = _members(t, sizes=(2,) if beside == "records" else ())
    known = [] if beside == "nothing" else [place]
    a.fetch(_UNKNOWN, *known, note="opens", wait_ms=_WAIT_MS)
    a.fetch(note="goes on", wait_ms=_WAIT_MS)
    a.fetch(note="forgets it", forget=[_UNKNOWN], wait_ms=_WAIT_MS)
    a.fetch(note="goes on without it", wait_ms=_WAIT_MS)


@AREA.scenario
def unknown_id_acknowledged(t: Stage) -> None:
    """An unknown topic id is acknowledged with a fetch, and with ShareAcknowledge."""
    place, (a,) = _members(t, sizes=(2, 2))
    a.fetch(place, max_records=1)
    said = {_UNKNOWN: [(0, 0, ACCEPT)], place: [(0, 1, ACCEPT)]}
    a.fetch(acks=said, wait_ms=_WAIT_MS)
    a.acknowledge({_UNKNOWN: [(0, 0, ACCEPT)], place: [(2, 3, ACCEPT)]})
    a.fetch(note="goes on", wait_ms=_WAIT_MS)
    a.fetch(note="closes", acks={_UNKNOWN: [(0, 0, ACCEPT)]}, share_session_epoch=CLOSE)


@AREA.each(field=["max_records", "max_bytes"])
def unknown_id_of_a_fetch_of_nothing(t: Stage, field: str) -> None:
    """A request with {field} 0 names an unknown and a known topic id."""
    place, (a,) = _members(t)
    nothing: dict[str, Any] = {field: 0}
    a.fetch(_UNKNOWN, place, note="opens", **nothing)
    a.fetch(note="goes on", **nothing)
    a.fetch(note="reads", wait_ms=_WAIT_MS)


@AREA.each(index=[-1, -2, 7])
def unknown_partition(t: Stage, index: int) -> None:
    """A session has partition {index} of a topic with one partition."""
    place, (a,) = _members(t)
    unknown = (place[0], index)
    a.fetch(unknown, note="opens", wait_ms=_WAIT_MS)
    a.fetch(place, note="adds one", wait_ms=_WAIT_MS)
    a.fetch(note="goes on", wait_ms=_WAIT_MS)
    a.fetch(acks={unknown: [(0, 0, ACCEPT)], place: [(0, 4, ACCEPT)]}, wait_ms=_WAIT_MS)
    a.acknowledge({unknown: [(0, 0, ACCEPT)]})
    a.acknowledge({unknown: [(0, 0, ACCEPT)], place: [(0, 0, ACCEPT)]})
    a.fetch(note="forgets it", forget=[unknown], wait_ms=_WAIT_MS)
    a.fetch(note="goes on without it", wait_ms=_WAIT_MS)


@AREA.each(index=[-1, 7])
def unknown_partition_acknowledged(t: Stage, index: int) -> None:
    """Fetches that read nothing, renew or close acknowledge records of partition {index}."""
    place, (a,) = _members(t)
    unknown = (place[0], index)
    nothing: dict[str, Any] = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "wait_ms": 0}
    a.fetch(place, unknown, note="opens, reads nothing", max_records=0)
    a.fetch(place, wait_ms=_WAIT_MS)
    a.fetch(note="reads nothing", acks={unknown: [(0, 0, ACCEPT)]}, max_records=0)
    a.fetch(note="backwards", acks={unknown: [(3, 1, ACCEPT)]}, max_records=0)
    a.fetch(
        note="renews",
        acks={place: [(0, 0, RENEW)], unknown: [(0, 0, RENEW)]},
        is_renew_ack=True,
        **nothing,
    )
    a.fetch(note="renews nothing", acks={unknown: []}, is_renew_ack=True, **nothing)
    a.fetch(note="without ranges", acks={unknown: [], place: [(1, 1, ACCEPT)]}, wait_ms=_WAIT_MS)
    a.fetch(note="forgets it", acks={unknown: [(0, 0, ACCEPT)]}, forget=[unknown], wait_ms=_WAIT_MS)
    a.acknowledge({unknown: [], place: [(2, 2, ACCEPT)]}, "without ranges")
    a.acknowledge({unknown: []}, "nothing")
    a.fetch(note="closes", acks={unknown: [(0, 0, ACCEPT)]}, share_session_epoch=CLOSE)
    a.fetch(unknown, note="opens again", wait_ms=_WAIT_MS)
    a.fetch(unknown, note="closes", share_session_epoch=CLOSE)


@AREA.each(records=["acquired", "none"])
def deleted(t: Stage, records: str) -> None:
    """The only topic of a session is deleted; acquired records: {records}."""
    place, (a,) = _members(t, sizes=(5,) if records == "acquired" else ())
    a.fetch(place, wait_ms=_WAIT_MS)
    _delete(t, place)
    a.fetch(wait_ms=_WAIT_MS)
    a.fetch(note="again", wait_ms=_WAIT_MS)
    a.acknowledge({(topic_id(t, place[0]), 0): [(0, 4, ACCEPT)]})
    a.fetch(acks={(topic_id(t, place[0]), 0): [(0, 4, ACCEPT)]}, wait_ms=_WAIT_MS)
    a.fetch(note="forgets it", forget=[place], wait_ms=_WAIT_MS)
    a.fetch(note="afterwards", wait_ms=_WAIT_MS)
    a.close()


@AREA.each(sizes=["", "3"])
def deleted_beside_another(t: Stage, sizes: str) -> None:
    """One of two topics of a session is deleted; records in the other topic: {sizes}."""
    place, (a,), other = _two_topics(t)
    _delete(t, place)
    produce(t, other, *map(int, sizes.split()))
    a.fetch(wait_ms=_WAIT_MS)
    a.fetch(note="again", wait_ms=_WAIT_MS)
    a.fetch(note="closes", share_session_epoch=CLOSE)


@AREA.scenario
def one_deleted_of_two_acknowledged(t: Stage) -> None:
    """One of two topics is deleted, then records of both are acknowledged."""
    place, (a,), other = _two_topics(t)
    produce(t, place, 2)
    produce(t, other, 2)
    a.fetch(max_records=1)
    a.fetch(max_records=1, note="the other one")
    _delete(t, place)
    a.acknowledge({place: [(0, 0, ACCEPT)], other: [(0, 0, ACCEPT)]})
    a.fetch(acks={place: [(1, 1, ACCEPT)], other: [(1, 1, ACCEPT)]}, wait_ms=_WAIT_MS)
    looks.stored(t, other)


@AREA.scenario
def created_again(t: Stage) -> None:
    """The topic of a session is recreated; the session adds the new id and forgets the old id."""
    place, (a,) = _members(t)
    a.fetch(place)
    gone = (topic_id(t, place[0]), 0)
    _delete(t, place)
    looks.topic(t)
    a.fetch(wait_ms=_WAIT_MS)
    a.fetch(note="again", wait_ms=_WAIT_MS)
    a.acknowledge({gone: [(0, 4, ACCEPT)]})
    _assigned_again(t, a, place)
    a.fetch(place, note="adds the new one", wait_ms=_WAIT_MS)
    waiting = a.fetching(note="waits for records", wait_ms=_LONG_MS)
    t.parked(waiting)
    produce(t, place, 4)
    a.fetched(waiting)
    a.fetch(note="nothing in it again", wait_ms=_WAIT_MS)
    a.acknowledge({gone: [(0, 0, ACCEPT)], place: [(0, 3, ACCEPT)]})
    a.fetch(note="forgets the old one", forget=[gone], wait_ms=_WAIT_MS)
    a.fetch(note="afterwards", wait_ms=_WAIT_MS)


@AREA.scenario
def created_again_beside_another(t: Stage) -> None:
    """One of two topics of a session is recreated; the other topic gets records meanwhile.

    If the other topic already had records, Kafka would return them in some runs only.
    """
    place, (a,), other = _two_topics(t)
    _delete(t, place)
    looks.topic(t)
    a.fetch(note="nothing", wait_ms=_WAIT_MS)
    a.fetch(note="nothing again", wait_ms=_WAIT_MS)
    waiting = a.fetching(note="waits", wait_ms=_LONG_MS)
    t.parked(waiting)
    produce(t, other, 2)
    a.fetched(waiting)
    a.fetch(note="closes", share_session_epoch=CLOSE)


@AREA.scenario
def created_again_in_a_new_session(t: Stage) -> None:
    """A session is opened with the id of a deleted topic and the id of the recreated topic."""
    place, (a,) = _members(t)
    a.fetch(place)
    gone = (topic_id(t, place[0]), 0)
    _delete(t, place)
    looks.topic(t)
    produce(t, place, 2)
    _assigned_again(t, a, place)
    a.fetch(gone, place, note="opens again", wait_ms=_WAIT_MS, share_session_epoch=0)
    a.session = 1
    a.fetch(note="goes on", wait_ms=_WAIT_MS)


@AREA.each(then=["stays away", "comes back"])
def deleted_while_waiting(t: Stage, then: str) -> None:
    """The only topic of a waiting fetch is deleted and {then}."""
    place, (a,) = _members(t, sizes=())
    _opened(t, a, place)
    gone = (topic_id(t, place[0]), 0)
    waiting = a.fetching(note="waits", wait_ms=_LONG_MS)
    t.parked(waiting)
    _delete(t, place)
    if then == "comes back":
        looks.topic(t)
    a.fetched(waiting)
    a.fetch(note="afterwards", wait_ms=_WAIT_MS)
    a.fetch(note="again", wait_ms=_WAIT_MS)
    a.fetch(note="forgets it", forget=[gone], wait_ms=_WAIT_MS)


@AREA.scenario
def one_of_two_deleted_while_waiting(t: Stage) -> None:
    """One of two topics of a waiting fetch is deleted; then the other topic has records."""
    place, (a,), other = _two_topics(t)
    waiting = a.fetching(note="waits", wait_ms=_LONG_MS)
    t.parked(waiting)
    _delete(t, place)
    t.parked(waiting)
    produce(t, other, 2)
    a.fetched(waiting)
    a.fetch(note="afterwards", wait_ms=_WAIT_MS)


@AREA.scenario
def unknown_id_of_a_fetch_that_waits(t: Stage) -> None:
    """A fetch with an unknown topic id waits, and the known partition gets records."""
    place, (a,) = _members(t, sizes=())
    _opened(t, a, place)
    waiting = a.fetching(_UNKNOWN, note="waits", wait_ms=_LONG_MS)
    t.parked(waiting)
    produce(t, place, 2)
    a.fetched(waiting)
    a.fetch(note="afterwards", wait_ms=_WAIT_MS)


@AREA.scenario
def more_partitions(t: Stage) -> None:
    """A session has a partition that does not exist until the topic gets three partitions."""
    place, (a,) = _members(t, sizes=())
    later = (place[0], 2)
    a.fetch(place, later, note="opens", wait_ms=_WAIT_MS)
    a.fetch(note="again", wait_ms=_WAIT_MS)
    t.grow_topic(place[0], 3)
    looks.wait_until_known(t, place[0], 3)
    a.joined(partitions=3)
    produce(t, later, 2)
    a.fetch(note="after the growth", wait_ms=_WAIT_MS)
    a.acknowledge({later: [(0, 1, ACCEPT)]})
    a.fetch(note="afterwards", wait_ms=_WAIT_MS)


@AREA.scenario
def grows_while_waiting(t: Stage) -> None:
    """The topic of a waiting fetch gets more partitions, then records."""
    place, (a,) = _members(t, sizes=())
    _opened(t, a, place)
    waiting = a.fetching(note="waits", wait_ms=_LONG_MS)
    t.parked(waiting)
    t.grow_topic(place[0], 3)
    t.parked(waiting)
    produce(t, place, 2)
    a.fetched(waiting)


@AREA.scenario
def fewer_partitions(t: Stage) -> None:
    """The topic of a session is recreated with one partition instead of three."""
    place, (a,) = _members(t, sizes=(), partitions=3)
    _opened(t, a, *((place[0], index) for index in range(3)))
    produce(t, place, 2)
    a.fetch(wait_ms=_WAIT_MS)
    gone = topic_id(t, place[0])
    _delete(t, place)
    looks.topic(t)
    a.fetch(note="without changes", wait_ms=_WAIT_MS)
    a.acknowledge({(gone, 2): [(0, 0, ACCEPT)], (gone, 0): [(0, 1, ACCEPT)]})
    a.fetch(note="forgets two", forget=[(gone, 0), (gone, 1)], wait_ms=_WAIT_MS)
    a.fetch(note="forgets the last", forget=[(gone, 2)], wait_ms=_WAIT_MS)


def _members(
    t: Stage, sizes: tuple[int, ...] = (5,), partitions: int = 1
) -> tuple[Partition, list[ShareMember]]:
    """Create a topic and a group; return partition 0 and member A, whose waits are recorded."""
    place, members = group(t, "A", sizes, partitions=partitions)
    for member in members:
        member.shows_waits = True
    return place, members


def _two_topics(t: Stage) -> tuple[Partition, list[ShareMember], Partition]:
    """Return the partitions of two empty topics, and a member with both in its session."""
    place, (a,) = _members(t, ())
    other = (looks.topic(t, suffix="other"), 0)
    t.recording = False
    a.heartbeat("both topics", place[0], other[0])
    t.recording = True
    a.joined(partitions=2)
    _opened(t, a, place, other)
    return place, [a], other


def _opened(t: Stage, a: ShareMember, *places: Place) -> None:
    """Open a session, unrecorded, and give Kafka time to read each partition's state."""
    t.recording = False
    a.fetch(*places, wait_ms=300)
    t.recording = True


def _assigned_again(t: Stage, a: ShareMember, place: Partition) -> None:
    """Send heartbeats, unrecorded, until the group has the recreated topic."""
    t.recording = False
    a.heartbeat("the same topic", place[0])
    t.recording = True
    a.joined(place[0])


def _delete(t: Stage, place: Partition) -> None:
    t.delete_topic(place[0])
    t.coordinator_learns()
