"""Reconciliation with a new target: who revokes, who waits, and when epochs change."""

from __future__ import annotations

from tests.conformance.consumer_members import (
    ConsumerMember,
    balance,
    look,
    members,
    settle,
    silently,
    stable,
    statics,
)
from tests.conformance.stage import Area, Stage

AREA = Area("consumer_reconciliation", "d")


@AREA.each(size=[2, 3, 4])
def everyone_ends_with_a_share(t: Stage, size: int) -> None:
    """The `uniform` shares of {size} members of <t3> and <tx> differ by at most one partition."""
    group = members(t, "ABCD"[:size], [t.t3, t.tx], assignor="uniform")
    stable(t, *group)
    balance(t, *group)
    silently(t, group[-1].leave)
    settle(t, *group[:-1])
    balance(t, *group[:-1], label="after one has left")


@AREA.scenario
def uniform_moves_as_little_as_it_can(t: Stage) -> None:
    """The `uniform` assignor does not swap partitions between members."""
    a, b, c = members(t, "ABC", [t.t3, t.tx, t.t1], assignor="uniform")
    stable(t, a, b)
    before = [_partitions(member) for member in (a, b)]
    silently(t, c.join)
    settle(t, a, b, c)
    after = [_partitions(member) for member in (a, b)]
    t.rec("kept", [len(old & new) for old, new in zip(before, after, strict=True)])
    balance(t, a, b, c)
    silently(t, c.leave)
    settle(t, a, b)
    last = [_partitions(member) for member in (a, b)]
    t.rec("kept at last", [len(old & new) for old, new in zip(after, last, strict=True)])


def _partitions(member: ConsumerMember) -> set[tuple[str, int]]:
    return {(topic, index) for topic, indexes in member.owned.items() for index in indexes}


@AREA.scenario
def static_members_before_others(t: Stage) -> None:
    """`range` assigns to static members first, by instance id, then to others by member id."""
    a, b = statics(t, "AB")
    c = ConsumerMember(t, "0", member_id="a-first")
    t.name_it(c.id, "C")
    for member in (c, b, a):
        silently(t, member.join)
    settle(t, a, b, c)
    look(t)
