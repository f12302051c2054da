"""SyncGroup: repeated, late, of another generation, and interrupted while parked."""

from __future__ import annotations

from tests.conformance.connection import Pending
from tests.conformance.members import Member
from tests.conformance.stage import Area, Stage

AREA = Area("syncs")


@AREA.scenario
def follower_syncs_twice_on_two_connections(t: Stage) -> None:
    """Is a parked SyncGroup answered if the follower sends it again from another connection?"""
    a, b = t.reach("completing", "A", "B")
    first = b.sync(note="first")
    t.parked(first)
    again = b.sync(note="again", conn=t.conn())
    t.parked(first, again)
    t.got(a.sync(), again)
    t.parked(first)
    t.state()


@AREA.scenario
def follower_syncs_twice_on_one_connection(t: Stage) -> None:
    """The second of two pipelined SyncGroups waits for the answer to the first."""
    a, b = t.reach("completing", "A", "B")
    first, again = b.sync(note="first"), b.sync(note="again")
    t.parked(first)
    t.got(a.sync(), first, again)
    t.state()


@AREA.scenario
def leader_syncs_twice_on_one_connection(t: Stage) -> None:
    """The leader pipelines two different assignments, and the first one counts."""
    a, b = t.reach("completing", "A", "B")
    first = a.sync(note="first", assign={a.id: b"one", b.id: b"one"})
    again = a.sync(note="again", assign={a.id: b"two", b.id: b"two"})
    t.got(first, again)
    b.sync_now()
    t.state()


# In the scenarios below, a request interrupts parked SyncGroups.


def _two_wait(t: Stage) -> tuple[list[Member], list[Pending]]:
    """Return A, which leads and has not synced, and B and C, whose SyncGroups are parked."""
    a, b, c = t.reach("completing", "A", "B", "C")
    syncs = [b.sync(), c.sync()]
    t.parked(*syncs)
    return [a, b, c], syncs


@AREA.scenario
def parked_sync_of_one_that_leaves(t: Stage) -> None:
    """What happens to parked SyncGroups of B and C if B leaves?"""
    (a, b, c), syncs = _two_wait(t)
    b.leave()
    t.parked(*syncs)
    t.state()
    t.end_round([], a, c)
