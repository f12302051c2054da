"""ShareFetch: acquired records, batches, and the time of the response."""

from __future__ import annotations

from typing import Any

from tests.conformance import share_looks as looks
from tests.conformance.producers import Producer
from tests.conformance.share_setups import EARLIEST, group, join, reader, readers
from tests.conformance.shares import (
    ACCEPT,
    BATCH_OPTIMIZED,
    RECORD_LIMIT,
    RELEASE,
    ShareMember,
    produce,
)
from tests.conformance.stage import Area, Stage

AREA = Area("share_fetches")


@AREA.each(sizes=["5", "1 1 1", "5 3 4"], version=[1, 2])
def batches_of_the_log(t: Stage, sizes: str, version: int) -> None:
    """ShareFetch v{version} acquires all records of batches of {sizes} records."""
    place, a = reader(t, [int(one) for one in sizes.split()])
    a.fetch(place, version=version)
    a.nothing(note="again")
    looks.stored(t, place)


@AREA.each(mode=[BATCH_OPTIMIZED, RECORD_LIMIT], most=[1, 3, 5, 7, 8, 12])
def limited_records(t: Stage, mode: int, most: int) -> None:
    """Batches of 5, 3 and 4 records, at most {most} at a time, acquire mode {mode}."""
    place, a = reader(t, (5, 3, 4))
    options: dict[str, Any] = {"share_acquire_mode": mode, "max_records": most}
    a.fetch(place, note="first", **options)
    a.nothing(note="second", **options)
    a.nothing(note="third", **options)


@AREA.each(mode=[BATCH_OPTIMIZED, RECORD_LIMIT], size=[0, 1, 2, 4, 5, 6, 100])
def limited_batches(t: Stage, mode: int, size: int) -> None:
    """Batches of 5, 3 and 4 records are acquired in batches of {size}, acquire mode {mode}."""
    place, a = reader(t, (5, 3, 4))
    a.fetch(place, share_acquire_mode=mode, batch_size=size)
    a.acknowledge([(0, 1, ACCEPT)], "a part of the first")
    looks.stored(t, place)


@AREA.each(mode=[BATCH_OPTIMIZED, RECORD_LIMIT])
def limits_after_a_release(t: Stage, mode: int) -> None:
    """Released records are redelivered, at most 2 at a time, acquire mode {mode}."""
    place, a = reader(t, (5, 3))
    a.fetch(place)
    a.acknowledge([(0, 7, RELEASE)])
    options: dict[str, Any] = {"share_acquire_mode": mode, "max_records": 2}
    for note in ("first", "second", "third", "fourth"):
        a.nothing(note=note, **options)
    looks.stored(t, place)


@AREA.each(mode=[-1, 2, 127])
def unknown_acquire_mode(t: Stage, mode: int) -> None:
    """ShareFetch 2 has the unknown acquire mode {mode}."""
    place, a = reader(t)
    a.fetch(place, share_acquire_mode=mode)
    a.nothing(note="in the session", share_session_epoch=1)


@AREA.each(most=[0, -1])
def no_records_wanted(t: Stage, most: int) -> None:
    """A fetch of at most {most} records opens a session and returns nothing."""
    place, a = reader(t)
    a.nothing(place, max_records=most)
    a.fetch(note="of all")


@AREA.each(most=[0, 1, 100, 200])
def limited_bytes(t: Stage, most: int) -> None:
    """A fetch of {most} bytes from batches of 1, 1 and 5 records returns at least one batch."""
    place, a = reader(t, (1, 1, 5))
    a.nothing(place, note="first", max_bytes=most)
    a.nothing(note="second", max_bytes=most)
    a.nothing(note="of all")


@AREA.each(least=[0, 1, 10_000])
def least_bytes(t: Stage, least: int) -> None:
    """A fetch of at least {least} bytes waits for a moment, with and without records."""
    place, a = reader(t, ())
    a.nothing(place, note="without records", min_bytes=least)
    produce(t, place, 2)
    a.nothing(note="with records", min_bytes=least)


@AREA.scenario
def waits_for_a_record(t: Stage) -> None:
    """A fetch of an empty partition waits, and returns when a record is written."""
    place, a = reader(t, ())
    a.nothing(place, note="opens")
    pending = a.fetching()
    t.parked(pending)
    produce(t, place, 3)
    a.fetched(pending)


@AREA.each(kind=["released", "accepted"])
def waits_for_records_of_another(t: Stage, kind: str) -> None:
    """Member A has acquired all records; B's fetch waits until the records are {kind}."""
    place, a, b = readers(t)
    a.fetch(place)
    b.nothing(place, note="opens")
    pending = b.fetching(wait_ms=3000 if kind == "released" else 1000)
    t.parked(pending)
    a.acknowledge([(0, 4, RELEASE if kind == "released" else ACCEPT)])
    b.fetched(pending)


@AREA.scenario
def waits_for_a_session_to_end(t: Stage) -> None:
    """Member A has acquired all records; B's waiting fetch gets them when A closes its session."""
    place, a, b = readers(t)
    a.fetch(place)
    b.nothing(place, note="opens")
    pending = b.fetching()
    t.parked(pending)
    a.close()
    b.fetched(pending)


@AREA.scenario
def waits_while_another_leaves_the_group(t: Stage) -> None:
    """Member A leaves the group with its session open, and keeps all acquired records."""
    place, a, b = readers(t)
    a.fetch(place)
    b.nothing(place, note="opens")
    a.leave()
    b.nothing()
    a.acknowledge([(0, 4, ACCEPT)], "after it has left")
    looks.stored(t, place)


@AREA.scenario
def two_members_share_a_partition(t: Stage) -> None:
    """Two members of one partition get different records, batch by batch."""
    place, a, b = readers(t, (2, 2, 2))
    a.fetch(place, max_records=1)
    b.fetch(place, max_records=1)
    a.fetch(max_records=1)
    b.nothing()
    a.acknowledge([(0, 1, ACCEPT), (4, 5, ACCEPT)])
    looks.stored(t, place)
    b.acknowledge([(2, 3, ACCEPT)])
    looks.stored(t, place)


@AREA.scenario
def two_groups_read_on_their_own(t: Stage) -> None:
    """Another group gets the same records."""
    place, a = reader(t)
    other = t.group("other")
    looks.configure(t, EARLIEST, other)
    b = ShareMember(t, "B", place, group=other).joined(place[0])
    a.fetch(place)
    b.fetch(place)
    a.acknowledge([(0, 4, ACCEPT)])
    b.acknowledge([(0, 4, RELEASE)])
    b.nothing()
    a.nothing()


@AREA.each(most=[1, 4, 100])
def several_partitions(t: Stage, most: int) -> None:
    """At most {most} records of three partitions: the first partition changes with the epoch."""
    place, (a,) = group(t, "A", (), partitions=3)
    places = [(place[0], index) for index in range(3)]
    a.nothing(*places, note="opens")
    for other in places:
        produce(t, other, 2, 2)
    for note in ("first", "second", "third", "fourth"):
        # Kafka answers before it has unlocked the partitions, and a fetch skips locked partitions.
        t.sleep(0.1)
        a.nothing(note=note, max_records=most)


@AREA.scenario
def members_that_are_not_in_the_group(t: Stage) -> None:
    """A stranger fetches from a group with members, without a check at the group coordinator."""
    place, a = reader(t)
    stranger = ShareMember(t, "S", place)
    stranger.fetch(place)
    stranger.acknowledge([(0, 4, ACCEPT)])
    a.nothing(place)
    looks.described(t)


@AREA.each(kind=["unknown", "empty", "classic"])
def group_without_state(t: Stage, kind: str) -> None:
    """A fetch comes for a group whose partition was never initialized: {kind}."""
    topic = looks.topic(t)
    if kind == "empty":
        a = ShareMember(t, "A", (topic, 0))
        t.setup(a.heartbeat, "", t.t1)
        t.setup(a.leave)
    elif kind == "classic":
        t.stable("C")
    b = ShareMember(t, "B", (topic, 0))
    b.fetch((topic, 0), wait_ms=500)
    b.fetch(note="again", wait_ms=500)
    b.acknowledge([(0, 0, ACCEPT)])


@AREA.scenario
def partitions_that_are_not_there(t: Stage) -> None:
    """Unknown partitions, an unknown id and the zero id come beside a partition with records."""
    place, a = reader(t)
    unknown = bytes(range(16))
    a.fetch((place[0], 7), note="unknown partition", wait_ms=200)
    a.fetch((unknown, 0), note="and unknown id", wait_ms=200)
    a.fetch((bytes(16), 0), note="and zero id", wait_ms=200)
    a.fetch(place, note="and a known one")
    a.nothing(note="what stays of it")


@AREA.each(group_kind=["null", "empty"])
def names_that_are_none(t: Stage, group_kind: str) -> None:
    """A fetch has a {group_kind} group id, and member ids that are null, empty and too long."""
    place, a = reader(t)
    name = None if group_kind == "null" else ""
    a.fetch(place, note=f"{group_kind} group", group_id=name, wait_ms=200)
    for note, member in (("null", None), ("empty", ""), ("37", "m" * 37), ("36", "m" * 36)):
        a.fetch(place, note=f"{note} member", member_id=member, share_session_epoch=0)


@AREA.scenario
def whole_answers(t: Stage) -> None:
    """Which fields have the answers to ShareFetch and ShareAcknowledge 1 and 2?"""
    place, a = reader(t, (2, 2), share_record_lock_duration_ms="20000")
    for version in (1, 2):
        answer = t.setup(a.fetch, place, version=version, max_records=1)
        (topic,) = answer["responses"]
        (one,) = topic["partitions"]
        one["records"] = f"{len(one['records'])} bytes"
        topic["topic_id"] = "<own>"
        t.rec(f"ShareFetch {version}", answer)
        base = 2 * version - 2
        answer = t.setup(a.acknowledge, [(base, base + 1, ACCEPT)], version=version)
        answer["responses"][0]["topic_id"] = "<own>"
        t.rec(f"ShareAcknowledge {version}", answer)


@AREA.each(count=[2, 4])
def added_partitions(t: Stage, count: int) -> None:
    """The topic gets {count} partitions, and the member reads them from their start."""
    place, a = reader(t)
    topic = {"name": place[0], "count": count, "assignments": None}
    body = {"topics": [topic], "timeout_ms": 9000, "validate_only": False}
    assert t.raw("CreatePartitions", 3, body)["results"][0]["error_code"] == 0
    looks.wait_until_known(t, place[0], count)
    a.joined(partitions=count)
    looks.described(t)
    produce(t, (place[0], 1), 3)
    a.fetch(place, note="the first")
    a.fetch((place[0], 1), note="the second")
    looks.offsets(t)


@AREA.scenario
def deleted_topic(t: Stage) -> None:
    """The topic of a session with acquired records is deleted."""
    place, a = reader(t)
    a.fetch(place)
    t.delete_topic(place[0])
    a.nothing()
    a.acknowledge([(0, 4, ACCEPT)])
    a.nothing(note="again")


@AREA.scenario
def in_another_session_of_two_topics(t: Stage) -> None:
    """Two topics are assigned, and one answer has records of both."""
    place, (a,) = group(t, "A", (2,))
    other = (looks.topic(t, suffix="second"), 0)
    produce(t, other, 3)
    a.heartbeat("both topics", place[0], other[0])
    a.joined(partitions=2)
    a.opened(place, other)
    a.fetch()
    a.acknowledge({place: [(0, 1, ACCEPT)], other: [(0, 2, ACCEPT)]})
    looks.offsets(t)


@AREA.scenario
def after_the_last_member_has_left(t: Stage) -> None:
    """When the last member leaves, sessions and acquisitions end, and offsets stay."""
    place, a = reader(t, (2, 2))
    a.fetch(place, max_records=1)
    a.acknowledge([(0, 0, ACCEPT)])
    a.leave()
    looks.described(t)
    a.nothing(note="in the old session")
    looks.stored(t, place)
    looks.offsets(t)
    (b,) = join(t, "B", place[0])
    b.fetch(place)


@AREA.scenario
def sequences_of_a_producer(t: Stage) -> None:
    """Batches of an idempotent producer are acquired like others."""
    place, a = reader(t, ())
    p = Producer(t, "P", transactional_id="").started()
    t.setup(p.produce, [place], transactional=False, transactional_id=None, records=3)
    t.setup(p.produce, [place], transactional=False, transactional_id=None, records=2)
    a.fetch(place)
