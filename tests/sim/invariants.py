"""Invariants of a group whose task is not applying operations."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.core.groups.classic.state import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from tests.harness.one_group import Answer, answer_of


def check_group(
    group: GroupMetadata | None, answers: Iterable[Answer], flushing: Iterable[Answer] = ()
) -> None:
    """Check that every unanswered request is parked in the group or waits for a sync (`flushing`).

    The counters of the group must also agree with each other.
    """
    unanswered = {id(answer) for answer in answers if answer.parked}
    unanswered -= {id(answer) for answer in flushing}
    if group is None:
        assert not unanswered, "an answer is lost with its group"
        return
    membership = group.membership
    members = membership.members.values()
    parked = [
        id(answer_of(one))
        for member in members
        for one in (member.awaiting_join, member.awaiting_sync)
        if one is not None
    ]
    assert len(parked) == len(set(parked)), "a request is parked twice"
    assert set(parked) == unanswered, "a request is neither answered nor parked"
    assert membership.awaiting_join == sum(one.awaiting_join is not None for one in members)
    static_ids = {
        one.group_instance_id: one.member_id for one in members if one.group_instance_id is not None
    }
    assert membership.static_ids == static_ids, "static members"
    assert not membership.pending.keys() & membership.members.keys(), "a member id twice"
    if members:
        assert membership.leader_id in membership.members, "no leader"
    for member in members:
        waits = member.awaiting_join is not None or member.awaiting_sync is not None
        may_have_none = waits and not member.is_new
        assert may_have_none or member.session.deadline_ms is not None, "no timer"
    names = {name for member in members for name, _ in member.protocols}
    for name in names:
        everybody = all(name in dict(member.protocols) for member in members)
        assert membership.supports_any([name]) == everybody, "protocols that all support"
    _check_state(group)


def _check_state(group: GroupMetadata) -> None:
    members, state = group.membership.members.values(), group.state
    if state is EMPTY:
        assert not members, "members of an Empty group"
    elif state in (COMPLETING_REBALANCE, STABLE):
        assert members, f"{state} without members"
        assert not any(one.awaiting_join for one in members), "a JoinGroup is forgotten"
    if state is not COMPLETING_REBALANCE:
        assert not any(one.awaiting_sync for one in members), "a SyncGroup is forgotten"
    assert (state is PREPARING_REBALANCE) == (group.join_operation is not None)
