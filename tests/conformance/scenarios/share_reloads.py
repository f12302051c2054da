"""Share-partition states read back from the share coordinator.

A broker forgets a share partition when the last connection with a session of the group closes, and
reads its state with the next fetch.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.conformance import share_looks as looks
from tests.conformance.producers import Partition
from tests.conformance.share_setups import reader
from tests.conformance.shares import (
    produce,
)
from tests.conformance.stage import Area, Stage

AREA = Area("share_reloads")

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
State = tuple[int, int, int, int]
"""First and last offset, delivery state and delivery count."""


def _stored(t: Stage, place: Partition, start: int, states: Sequence[State]) -> None:
    """Write a state, unrecorded."""
    batches = [
        {
            "first_offset": first,
            "last_offset": last,
            "delivery_state": state,
            "delivery_count": count,
        }
        for first, last, state, count in states
    ]
    body = {
        "state_epoch": 2,
        "leader_epoch": 0,
        "start_offset": start,
        "delivery_complete_count": 0,
        "state_batches": batches,
    }
    answer = looks.ask_state(t, "WriteShareGroupState", 1, place, body)
    assert answer["error_code"] == 0, answer


@AREA.each(offset=[3, 8, 15])
def log_start_that_has_moved(t: Stage, offset: int) -> None:
    """The state (2, 5-9 available, 12 acknowledged) is read with log start offset {offset}."""
    place, a = reader(t, (5, 5, 5))
    _stored(t, place, 2, [(5, 9, AVAILABLE, 2), (12, 12, ACKNOWLEDGED, 1)])
    partition = {"partition_index": 0, "offset": offset}
    body = {"topics": [{"name": place[0], "partitions": [partition]}], "timeout_ms": 5000}
    t.raw("DeleteRecords", 2, body)
    t.sleep(0.1)
    a.nothing(place, note="first")
    a.nothing(note="second")
    produce(t, place, 2)
    a.nothing(note="with new records")
    a.close()
    looks.stored(t, place)
