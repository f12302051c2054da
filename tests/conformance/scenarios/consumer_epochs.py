"""Member epochs: which epochs a heartbeat may have in each state, and when members are fenced."""

from __future__ import annotations

from tests.conformance.consumer_members import (
    ConsumerMember,
    look,
)
from tests.conformance.stage import Area, Stage

AREA = Area("consumer_epochs", "d")


@AREA.scenario
def two_groups_do_not_know_each_other(t: Stage) -> None:
    """The same member id has separate epochs in two groups."""
    other = t.group("other")
    a = ConsumerMember(t, "A")
    b = ConsumerMember(t, "A", group=other)
    a.join()
    b.join("joins the other group")
    a.subscribe(t.t1)
    look(t)
    look(t, "other group", other)
    a.leave()
    b.beat("beats in the other group")
    look(t)
    look(t, "other group", other)
