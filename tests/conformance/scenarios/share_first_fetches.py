"""The first fetch of share partitions, whose states Kafka reads one by one."""

from __future__ import annotations

from tests.conformance import share_looks as looks
from tests.conformance.share_setups import group
from tests.conformance.shares import produce
from tests.conformance.stage import Area, Stage

AREA = Area("share_first_fetches")


@AREA.each(index=[0, 1, 2], epoch=[0, 1, 2])
def of_one_with_records(t: Stage, index: int, epoch: int) -> None:
    """Only partition {index} of three has records; the fetch at epoch {epoch} is the first read."""
    place, (a,) = group(t, "A", (), partitions=3)
    produce(t, (place[0], index), 2)
    places = [(place[0], one) for one in range(3)]
    for _ in range(epoch):
        a.nothing(*places, max_records=0)
    a.fetch(*places, wait_ms=600)
    a.fetch(note="second", wait_ms=600)


@AREA.each(records=["0 1", "0 2", "1 2", "0 1 2"])
def of_several_with_records(t: Stage, records: str) -> None:
    """Of three partitions, these have records at the first fetch: {records}."""
    place, (a,) = group(t, "A", (), partitions=3)
    for index in records.split():
        produce(t, (place[0], int(index)), 2)
    a.fetch(*((place[0], index) for index in range(3)), wait_ms=600)
    t.sleep(0.2)
    a.fetch(note="second", wait_ms=600)
    a.fetch(note="third", wait_ms=600)


@AREA.each(least=[0, 100, 10_000])
def of_at_least(t: Stage, least: int) -> None:
    """The first fetch of two partitions requests {least} bytes."""
    place, (a,) = group(t, "A", (2,), partitions=2)
    produce(t, (place[0], 1), 2)
    a.fetch(place, (place[0], 1), min_bytes=least, wait_ms=600)
    t.sleep(0.2)
    a.fetch(note="second", wait_ms=600)


@AREA.each(records=["the first", "the second", "both"])
def of_two_topics(t: Stage, records: str) -> None:
    """Of two topics, these have records at the first fetch: {records}."""
    place, (a,) = group(t, "A", (2,) if records != "the second" else ())
    other = (looks.topic(t, suffix="second"), 0)
    if records != "the first":
        produce(t, other, 3)
    t.recording = False
    a.heartbeat("both topics", place[0], other[0])
    t.recording = True
    a.joined(partitions=2)
    a.fetch(place, other, wait_ms=600)
    t.sleep(0.2)
    a.fetch(note="second", wait_ms=600)


@AREA.scenario
def a_partition_beside_known_ones(t: Stage) -> None:
    """A session adds a partition that was never read beside a partition that was read."""
    place, (a,) = group(t, "A", (2,), partitions=2)
    other = (place[0], 1)
    a.fetch(place, wait_ms=600)
    produce(t, other, 2)
    produce(t, place, 2)
    a.fetch(other, note="adds one", wait_ms=600)
    t.sleep(0.2)
    a.fetch(note="second", wait_ms=600)
