"""Acquisition locks: their expiry, delivery counts, and the limits of both."""

from __future__ import annotations

from tests.conformance import share_looks as looks
from tests.conformance.producers import Partition
from tests.conformance.share_setups import reader
from tests.conformance.shares import (
    ACCEPT,
    ShareMember,
)
from tests.conformance.stage import Area, Stage

AREA = Area("share_locks")


def until_stored(t: Stage, place: Partition, batch: str) -> None:
    """Wait, unrecorded, until the share coordinator has this batch."""
    for _ in range(100):
        if batch in looks.stored_state(t, place)[2]:
            return
        t.nap(0.05)
    t.rec("stored", f"still not {batch}")


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
