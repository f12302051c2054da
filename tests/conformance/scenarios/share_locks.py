"""Acquisition locks: their expiry, delivery counts, and the limits of both."""

from __future__ import annotations

from typing import Any

from tests.conformance import share_looks as looks
from tests.conformance.producers import Partition
from tests.conformance.share_setups import reader, readers
from tests.conformance.shares import (
    ACCEPT,
    RECORD_LIMIT,
    REJECT,
    RELEASE,
    RENEW,
    ShareMember,
    produce,
)
from tests.conformance.stage import Area, Stage

AREA = Area("share_locks")

_SHORT: dict[str, Any] = {"share_record_lock_duration_ms": "1000"}


def _until_stored(t: Stage, place: Partition, batch: str) -> None:
    """Wait, unrecorded, until the share coordinator has this batch."""
    for _ in range(100):
        if batch in looks.stored_state(t, place)[2]:
            return
        t.nap(0.05)
    t.rec("stored", f"still not {batch}")


@AREA.scenario
def lock_times_out(t: Stage) -> None:
    """Records with an expired lock are redelivered to the next fetch."""
    place, a, b = readers(t, **_SHORT)
    a.fetch(place)
    b.nothing(place)
    pending = b.fetching()
    t.parked(pending)
    b.fetched(pending)
    a.acknowledge([(0, 4, ACCEPT)], "too late")
    looks.stored(t, place)
    b.acknowledge([(0, 4, ACCEPT)])


@AREA.scenario
def lock_of_a_part_times_out(t: Stage) -> None:
    """Only the unacknowledged part of a batch is redelivered."""
    place, a = reader(t, **_SHORT)
    a.fetch(place)
    a.acknowledge([(1, 1, ACCEPT), (3, 3, REJECT)])
    for offset in (0, 2, 4):
        _until_stored(t, place, f"{offset}-{offset} available x1")
    a.nothing()
    looks.stored(t, place)


@AREA.scenario
def lock_of_a_session_that_is_open_times_out(t: Stage) -> None:
    """The member's own waiting fetch gets the records whose locks have expired."""
    place, a = reader(t, **_SHORT)
    a.fetch(place)
    pending = a.fetching()
    t.parked(pending)
    a.fetched(pending)
    a.acknowledge([(0, 4, ACCEPT)])
    looks.stored(t, place)


@AREA.each(how=["all", "a part"])
def renewed_lock(t: Stage, how: str) -> None:
    """The lock of {how} is renewed before the lock expires, and lasts as long again."""
    duration: dict[str, Any] = {"share_record_lock_duration_ms": str(t.ms(2000))}
    place, a, b = readers(t, **duration)
    b.nothing(place, max_records=0)
    a.fetch(place)
    t.sleep(0.8)
    a.acknowledge([(0, 4, RENEW) if how == "all" else (2, 3, RENEW)], renew=True)
    t.sleep(1.5)
    b.nothing(note="after the first lock")
    a.acknowledge([(2, 3, ACCEPT)])
    looks.stored(t, place)


@AREA.scenario
def renewed_too_late(t: Stage) -> None:
    """An expired lock cannot be renewed."""
    place, a = reader(t, **_SHORT)
    a.fetch(place)
    _until_stored(t, place, "0-4 available x1")
    a.acknowledge([(0, 4, RENEW)], renew=True)
    a.acknowledge([(0, 4, ACCEPT)])
    a.fetch()


@AREA.scenario
def lock_of_a_new_duration(t: Stage) -> None:
    """A changed lock duration applies to records acquired from then on."""
    place, a = reader(t, (2, 2))
    a.fetch(place, max_records=1)
    looks.configure(t, {"share.record.lock.duration.ms": "1000"})
    t.nap(0.1)
    a.fetch(max_records=1)
    a.fetch(note="waits")
    _until_stored(t, place, "2-3 available x1")
    looks.stored(t, place)


@AREA.each(limit=["2", "3", "5", None])
def delivered_too_often(t: Stage, limit: str | None) -> None:
    """A record is released until its delivery limit of {limit} is reached."""
    place, a = reader(t, (1, 1), **({"share_delivery_count_limit": limit} if limit else {}))
    a.fetch(place, max_records=1)
    for _ in range(int(limit or 5)):
        a.acknowledge([(0, 0, RELEASE)])
        looks.stored(t, place)
        a.nothing(max_records=1)
    looks.offsets(t)


@AREA.scenario
def timed_out_too_often(t: Stage) -> None:
    """Expired locks count as deliveries."""
    place, a = reader(t, (1,), share_delivery_count_limit="2", **_SHORT)
    a.fetch(place)
    a.fetch(wait_ms=2500)
    produce(t, place, 1)
    _until_stored(t, place, "0-0 archived x2")
    a.nothing()
    looks.stored(t, place)


@AREA.scenario
def closed_too_often(t: Stage) -> None:
    """A closed session counts as a delivery, because the record may have been read."""
    place, a = reader(t, (1,), share_delivery_count_limit="2")
    for _ in range(4):
        a.nothing(place)
        a.close()
        looks.stored(t, place)


@AREA.each(limit=["4", "5"])
def batch_close_to_the_limit(t: Stage, limit: str) -> None:
    """A batch of 4 that is often released is split before its limit of {limit}."""
    place, a = reader(t, (4,), share_delivery_count_limit=limit)
    a.fetch(place)
    a.acknowledge([(0, 3, RELEASE)])
    for _ in range(2):
        a.fetch()
        a.acknowledge([(0, 3, RELEASE)])
    for _ in range(4):
        a.nothing()
    looks.stored(t, place)


@AREA.scenario
def one_poison_record(t: Stage) -> None:
    """One record of a batch is always released, and the others are accepted."""
    place, a = reader(t, (5,))
    a.fetch(place)
    a.acknowledge([(0, 4, [ACCEPT, ACCEPT, RELEASE, ACCEPT, ACCEPT])])
    for _ in range(4):
        a.fetch()
        a.acknowledge([(2, 2, RELEASE)])
    a.nothing()
    looks.stored(t, place)
    looks.offsets(t)


@AREA.scenario
def limit_that_is_lowered(t: Stage) -> None:
    """The limit becomes 2 after a record was delivered 3 times."""
    place, a = reader(t, (1,))
    a.fetch(place)
    for _ in range(2):
        a.acknowledge([(0, 0, RELEASE)])
        a.fetch()
    looks.configure(t, {"share.delivery.count.limit": "2"})
    t.nap(0.1)
    a.acknowledge([(0, 0, RELEASE)])
    a.nothing()
    looks.stored(t, place)


@AREA.each(mode=["batch", "record"])
def records_in_flight(t: Stage, mode: str) -> None:
    """With 100 records in flight the rest waits for acknowledgements ({mode})."""
    place, a = reader(t, (60, 30, 30, 30), share_partition_max_record_locks="100")
    options: dict[str, Any] = {"share_acquire_mode": RECORD_LIMIT} if mode == "record" else {}
    a.nothing(place, **options)
    a.nothing(note="full", **options)
    a.acknowledge([(70, 79, ACCEPT)])
    a.nothing(note="the end is done", **options)
    a.acknowledge([(0, 9, ACCEPT)])
    a.nothing(note="the start is done", **options)
    a.acknowledge([(10, 59, RELEASE)])
    a.nothing(note="some released", **options)
    looks.stored(t, place)


@AREA.scenario
def one_batch_larger_than_the_limit(t: Stage) -> None:
    """A batch has 150 records, and 100 may be in flight."""
    place, a = reader(t, (150, 10), share_partition_max_record_locks="100")
    a.nothing(place)
    a.nothing(note="full")
    a.acknowledge([(0, 99, ACCEPT)])
    a.nothing(note="after the first hundred")
    looks.offsets(t)


@AREA.scenario
def locks_of_two_members(t: Stage) -> None:
    """The in-flight limit applies to the partition, not to a member."""
    place, a, b = readers(t, (90, 20, 20), share_partition_max_record_locks="100")
    a.nothing(place, max_records=1)
    b.nothing(place, max_records=1)
    a.nothing(note="full")
    b.acknowledge([(90, 109, ACCEPT)])
    a.nothing(note="still full")
    a.acknowledge([(0, 89, ACCEPT)])
    a.nothing(note="empty again")


@AREA.scenario
def lock_timeout_in_the_answers(t: Stage) -> None:
    """Answers have the group's lock duration, also after a change."""
    place, a = reader(t, (1, 1), share_record_lock_duration_ms="1500")
    stranger = ShareMember(t, "S", place, group=t.group("other"))
    for member in (a, stranger):
        answer = t.setup(member.nothing, place, max_records=1)
        t.rec(f"{member.name} fetches", answer["acquisition_lock_timeout_ms"])
    answer = t.setup(a.acknowledge, [(0, 0, ACCEPT)])
    t.rec("acknowledges", answer["acquisition_lock_timeout_ms"])
    looks.configure(t, {"share.record.lock.duration.ms": "20000"})
    t.nap(0.1)
    answer = t.setup(a.nothing)
    t.rec("fetches after the change", answer["acquisition_lock_timeout_ms"])
    answer = t.setup(a.nothing, share_session_epoch=77)
    t.rec("a wrong epoch", answer["acquisition_lock_timeout_ms"])
