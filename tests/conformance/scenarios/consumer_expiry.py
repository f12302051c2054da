"""Expiry of offsets and of Empty consumer groups, checked twice a second here.

Only versions 2 to 4 of OffsetCommit have a retention time, and members cannot send them. So offsets
that expire soon are committed while the group is Empty or does not exist yet.
"""

from __future__ import annotations

from tests.conformance.consumer_members import (
    listed,
    look,
    silently,
    stable,
    statics,
)
from tests.conformance.stage import Area, Stage

AREA = Area("consumer_expiry", "h")

CLEANED_SECONDS = 1.2


@AREA.scenario
def group_with_members_stays(t: Stage) -> None:
    """A group without offsets stays while it has members, even if a member waits or is away."""
    a, b = statics(t, "AB")
    stable(t, a)
    silently(t, b.join)
    a.leave_for_a_while()
    t.nap(CLEANED_SECONDS)
    look(t)
    b.leave()
    t.nap(CLEANED_SECONDS)
    look(t)
    a.leave()
    t.nap(CLEANED_SECONDS)
    listed(t)
