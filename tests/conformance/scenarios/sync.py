"""SyncGroup: a parked request that Kafka never answers."""

from __future__ import annotations

from tests.conformance.stage import Area, Stage

AREA = Area("sync")


@AREA.scenario
def parked_sync_of_a_leaving_member(t: Stage) -> None:
    """A member leaves while its SyncGroup is parked."""
    a, b = t.completing("A", "B")
    sync = b.sync()
    t.parked(sync)
    b.leave()
    t.parked(sync)
    t.state()
    a.join_now()
    t.state()
