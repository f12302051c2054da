"""Topics that are created, deleted and given partitions while members are subscribed to them."""

from __future__ import annotations

from tests.conformance.consumer_members import (
    ConsumerMember,
    settle,
    silently,
)
from tests.conformance.stage import Area, Stage

AREA = Area("consumer_topics", "d")


@AREA.each(topics=["offsets topic", "unknown", "many"])
def subscribed_to(t: Stage, topics: str) -> None:
    """How many partitions does a member with {topics} get?"""
    names = {
        "offsets topic": ["__consumer_offsets"],
        "unknown": [f"no-such-{number}" for number in range(50)],
        "many": [t.t1, t.t3, t.tx, *(f"no-such-{number}" for number in range(50))],
    }[topics]
    a = ConsumerMember(t, "A", names)
    silently(t, a.join)
    settle(t, a)
    t.rec("A", [a.epoch, a.count])
