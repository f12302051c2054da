"""ShareFetch: acquired records, batches, and the time of the response."""

from __future__ import annotations

from tests.conformance import share_looks as looks
from tests.conformance.producers import Producer
from tests.conformance.share_setups import group, reader
from tests.conformance.shares import (
    ACCEPT,
    produce,
)
from tests.conformance.stage import Area, Stage

AREA = Area("share_fetches")


@AREA.each(most=[1, 4, 100])
def several_partitions(t: Stage, most: int) -> None:
    """A fetch returns at most {most} records; the partition that comes first changes each time."""
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
def whole_answers(t: Stage) -> None:
    """Which fields do answers to ShareFetch and ShareAcknowledge 1 and 2 have?"""
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
def sequences_of_a_producer(t: Stage) -> None:
    """Batches of an idempotent producer are acquired like others."""
    place, a = reader(t, ())
    p = Producer(t, "P", transactional_id="").started()
    t.setup(p.produce, [place], transactional=False, transactional_id=None, records=3)
    t.setup(p.produce, [place], transactional=False, transactional_id=None, records=2)
    a.fetch(place)
