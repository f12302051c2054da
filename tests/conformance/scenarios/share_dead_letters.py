"""Dead letter queues: which records they get, in which form, and what happens on failure."""

from __future__ import annotations

from protocol.compression import Compression
from tests.conformance import dead_letters as dlq
from tests.conformance import share_looks as looks
from tests.conformance.dead_letters import COPY, LIMIT, QUEUE, plain
from tests.conformance.shares import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    ShareMember,
)
from tests.conformance.stage import Area, Stage

AREA = Area("share_dead_letters")

_COPIED = ["false", "true"]
_ARCHIVING = 3


def _seen(t: Stage, place: tuple[str, int], queue: str) -> None:
    """Record the settled state, and the records in the queue."""
    dlq.settled(t, place)
    looks.stored(t, place)
    looks.offsets(t)
    dlq.letters(t, queue)


@AREA.each(copy=_COPIED, by=["acknowledge", "fetch", "close"])
def whole_batch_rejected(t: Stage, copy: str, by: str) -> None:
    """{by} rejects a whole batch; copies of records: {copy}."""
    queue = dlq.queue(t)
    place, a = dlq.reader_of(t, queue, plain(3), plain(2), configs={COPY: copy})
    a.fetch(place, batch_size=3)
    ranges = [(0, 2, REJECT)]
    if by == "fetch":
        a.nothing(acks=ranges, max_records=0)
    elif by == "close":
        a.close(ranges)
    else:
        a.acknowledge(ranges)
    _seen(t, place, queue)
    if by != "close":
        a.acknowledge([(3, 4, ACCEPT)])
        looks.stored(t, place)
        a.nothing()


@AREA.each(copy=_COPIED, types=["1 3 3 1 3", "3 2 0 1 3", "4 3 1 1 3", "3 3 3 3 3"])
def types_of_each_offset(t: Stage, copy: str, types: str) -> None:
    """Offsets 1 to 5 of six are acknowledged with types {types}; copies of records: {copy}."""
    queue = dlq.queue(t)
    place, a = dlq.reader_of(t, queue, plain(6), configs={COPY: copy})
    a.fetch(place)
    kinds = [int(one) for one in types.split()]
    a.acknowledge([(1, 5, kinds)], renew=RENEW in kinds)
    dlq.settled(t, place)
    looks.stored(t, place)
    dlq.letters(t, queue)
    a.nothing(note="what is released")
    a.acknowledge([(0, 0, ACCEPT)])
    dlq.settled(t, place)
    a.nothing()


@AREA.each(copy=_COPIED, how=["released", "session closed", "lock expired"])
def over_the_limit(t: Stage, copy: str, how: str) -> None:
    """Records reach the limit of 2 deliveries, then {how}; copies of records: {copy}."""
    queue = dlq.queue(t)
    configs = {COPY: copy, LIMIT: "2", "share.record.lock.duration.ms": "1000"}
    place, a = dlq.reader_of(t, queue, plain(3), plain(2), configs=configs)
    a.fetch(place, batch_size=3)
    a.acknowledge([(0, 4, RELEASE)])
    a.fetch(note="again", max_records=3)
    if how == "released":
        a.acknowledge([(0, 2, RELEASE)])
    elif how == "session closed":
        a.close()
    else:
        t.sleep(1.5)
    _seen(t, place, queue)


@AREA.each(kind=["gap", "accept", "release"])
def other_acknowledgements(t: Stage, kind: str) -> None:
    """Acknowledgements of type {kind} do not write to the queue."""
    queue = dlq.queue(t)
    place, a = dlq.reader_of(t, queue, plain(3))
    a.fetch(place)
    a.acknowledge([(0, 2, {"gap": GAP, "accept": ACCEPT, "release": RELEASE}[kind])])
    _seen(t, place, queue)


@AREA.each(partitions=[1, 2, 4])
def partitions_of_the_queue(t: Stage, partitions: int) -> None:
    """Which partitions of the queue, {partitions} in all, get the records of three partitions?"""
    queue = dlq.queue(t, partitions)
    (topic, _), a = dlq.reader_of(t, queue, partitions=3)
    places = [(topic, index) for index in range(3)]
    for place in places:
        dlq.send(t, place, plain(1))
    for place in places:
        a.fetch(place)
        a.home = place
        a.acknowledge([(0, 0, REJECT)])
        dlq.settled(t, place)
    for index in range(partitions):
        dlq.letters(t, queue, index)


_RECORDS: dict[str, list[tuple[bytes | None, bytes | None]]] = {
    "no key": [(None, b"value")],
    "no value": [(b"key", None)],
    "neither": [(None, None)],
    "empty": [(b"", b"")],
    "large": [(b"key", b"v" * 200_000)],
}


@AREA.each(records=list(_RECORDS), compression=["NONE", "GZIP", "SNAPPY", "LZ4", "ZSTD"])
def records_that_are_copied(t: Stage, records: str, compression: str) -> None:
    """A record with {records} and a second record, compressed with {compression}, are copied."""
    queue = dlq.queue(t)
    given = [*_RECORDS[records], (b"k", b"v")]
    place, a = dlq.reader_of(
        t, queue, given, compression=Compression[compression], configs={COPY: "true"}
    )
    a.fetch(place)
    a.acknowledge([(0, 1, REJECT)])
    _seen(t, place, queue)


_CONFIGS: dict[str, tuple[str, str]] = {
    "append time": ("message.timestamp.type", "LogAppendTime"),
    "compression": ("compression.type", "gzip"),
    "compaction": ("cleanup.policy", "compact"),
    "small batches": ("max.message.bytes", "100"),
}


@AREA.each(config=list(_CONFIGS), copy=_COPIED)
def configs_of_the_queue(t: Stage, config: str, copy: str) -> None:
    """The queue has an unusual config: {config}; copies of records: {copy}."""
    name, value = _CONFIGS[config]
    queue = dlq.queue(t, configs={name: value})
    place, a = dlq.reader_of(t, queue, plain(3), configs={COPY: copy})
    a.fetch(place)
    a.acknowledge([(0, 2, REJECT)])
    _seen(t, place, queue)


@AREA.each(compression=["NONE", "GZIP"], size=[100, 400, 800, 2000])
def queue_with_small_batches(t: Stage, compression: str, size: int) -> None:
    """The queue takes batches of 1000 bytes; five {compression} records have {size} bytes each."""
    queue = dlq.queue(t, configs={"max.message.bytes": "1000"})
    place, a = dlq.reader_of(
        t,
        queue,
        plain(5, size),
        compression=Compression[compression],
        configs={COPY: "true"},
    )
    a.fetch(place)
    a.acknowledge([(0, 4, REJECT)])
    _seen(t, place, queue)


@AREA.each(by=["range", "offset"])
def one_record_is_too_large_for_the_queue(t: Stage, by: str) -> None:
    """Four records are rejected by {by}; the second copy, with its headers, is too large."""
    queue = dlq.queue(t, configs={"max.message.bytes": "1000"})
    values = [(b"k", b"v" * size) for size in (10, 900, 10, 10)]
    place, a = dlq.reader_of(t, queue, values, configs={COPY: "true"})
    a.fetch(place)
    said = (0, 3, REJECT) if by == "range" else (1, 3, [REJECT] * 3)
    a.acknowledge([said])
    _seen(t, place, queue)


@AREA.each(copy=_COPIED)
def more_records_than_a_step(t: Stage, copy: str) -> None:
    """1500 records in three batches are rejected at once; copies of records: {copy}."""
    queue = dlq.queue(t)
    place, a = dlq.reader_of(t, queue, *[plain(500)] * 3, configs={COPY: copy})
    a.fetch(place, max_records=1500)
    a.acknowledge([(0, 1499, REJECT)])
    dlq.settled(t, place)
    shown = dlq.shown_letters(t, queue)
    t.rec("letters", [len(shown), shown[0], shown[-1]])
    t.rec("in order", all(f" offset={number} " in one for number, one in enumerate(shown)))


@AREA.each(case=["missing", "not a queue", "another prefix", "unset"])
def no_queue_to_write_to(t: Stage, case: str) -> None:
    """The queue that the group names is unusable: {case}. Records are still archived."""
    prefix = "other." if case == "another prefix" else "dlq."
    queue = dlq.queue_name(t, prefix)
    if case == "not a queue":
        dlq.queue(t, configs={dlq.IS_QUEUE: "false"})
    elif case != "missing":
        dlq.queue(t, prefix=prefix)
    place, a = dlq.reader_of(t, queue, plain(3), plain(2))
    if case == "unset":
        looks.alter_configs(t, {QUEUE: None}, operation=looks.DELETE)
        t.nap(0.3)
    a.fetch(place, batch_size=3)
    a.acknowledge([(0, 2, REJECT)])
    _seen(t, place, queue)
    a.acknowledge([(3, 4, ACCEPT)])
    looks.stored(t, place)
    a.nothing()


@AREA.each(name=["__dlq.x", "dlq.x y", "", ".", "dlq." + "x" * 300])
def names_of_queues(t: Stage, name: str) -> None:
    """May the group use the queue '{name}'?"""
    t.rec("set", looks.alter_configs(t, {QUEUE: name}))


@AREA.each(copy=_COPIED, count=[1, 3, 4])
def archiving_when_the_state_is_read(t: Stage, copy: str, count: int) -> None:
    """Records that are read back in the state ARCHIVING are written to the queue again.

    The records were delivered {count} times; the limit is 3. Copies of records: {copy}.
    """
    queue = dlq.queue(t)
    configs = {COPY: copy, LIMIT: "3"}
    place, a = dlq.reader_of(t, queue, plain(5), plain(5), configs=configs)
    dlq.stored_states(t, place, 0, [(2, 3, _ARCHIVING, count)])
    a.fetch(place, wait_ms=500)
    _seen(t, place, queue)
    a.acknowledge([(0, 1, ACCEPT)])
    looks.stored(t, place)
    looks.offsets(t)


@AREA.scenario
def archiving_without_a_queue(t: Stage) -> None:
    """Records that are read back in the state ARCHIVING are archived if the group has no queue."""
    queue = dlq.queue(t)
    place, a = dlq.reader_of(t, "", plain(5))
    dlq.stored_states(t, place, 0, [(1, 2, _ARCHIVING, 1)])
    a.fetch(place, wait_ms=500)
    _seen(t, place, queue)


@AREA.scenario
def two_groups_share_a_queue(t: Stage) -> None:
    """Two groups that read the same records share a queue."""
    queue = dlq.queue(t)
    place, a = dlq.reader_of(t, queue, plain(2))
    other = t.group("other")
    looks.configure(t, {"share.auto.offset.reset": "earliest", QUEUE: queue}, other)
    b = ShareMember(t, "B", place, group=other).joined(place[0])
    a.fetch(place)
    a.acknowledge([(0, 1, REJECT)])
    dlq.settled(t, place)
    b.fetch(place)
    b.acknowledge([(0, 1, REJECT)])
    t.sleep(0.5)
    dlq.letters(t, queue)


@AREA.scenario
def queue_of_the_queue(t: Stage) -> None:
    """A group rejects records of a dead letter queue; the new copies name that queue as source."""
    queue = dlq.queue(t)
    place, a = dlq.reader_of(t, queue, plain(1), configs={COPY: "true"})
    a.fetch(place)
    a.acknowledge([(0, 0, REJECT)])
    dlq.settled(t, place)
    other = t.group("other")
    configs = {"share.auto.offset.reset": "earliest", QUEUE: queue, COPY: "true"}
    looks.configure(t, configs, other)
    t.own_topics[queue] = t.raw(
        "Metadata", 12, {"topics": [{"name": queue, "topic_id": bytes(16)}]}
    )["topics"][0]["topic_id"]
    t.topic_symbols[t.own_topics[queue]] = "<queue>"
    b = ShareMember(t, "B", (queue, 0), group=other).joined(queue)
    b.fetch((queue, 0))
    b.acknowledge([(0, 0, REJECT)])
    t.sleep(0.5)
    dlq.letters(t, queue)
