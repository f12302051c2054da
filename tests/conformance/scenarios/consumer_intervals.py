"""The assignment interval: a group that waits for its next target assignment is Assigning.

Kafka computes a target at most once per `group.consumer.assignment.interval.ms`, in the first
heartbeat of any member after that. The interval is a group config here.
"""

from __future__ import annotations

from tests.conformance import group_settings
from tests.conformance.consumer_members import (
    look,
    members,
    silently,
)
from tests.conformance.stage import Area, Stage

AREA = Area("consumer_intervals", "d")

LONG_MS = 15_000


def wait_long(t: Stage) -> None:
    """Set the interval so long that no further target is computed in the scenario."""
    group_settings.use(t, consumer_assignment_interval_ms=LONG_MS)


def do_not_wait(t: Stage) -> None:
    """Set the interval so that targets are computed at once."""
    group_settings.use(t, consumer_assignment_interval_ms=0)


@AREA.scenario
def assignor_is_chosen_when_the_target_is_computed(t: Stage) -> None:
    """Within the interval, members change their choice of assignor: the last one applies."""
    wait_long(t)
    a, b = members(t, "AB", assignor="uniform")
    silently(t, a.join)
    silently(t, b.join)
    a.beat("for range", server_assignor="range")
    b.beat("for range", server_assignor="range")
    look(t)
    do_not_wait(t)
    a.beat()
    look(t)
