"""Views of an unfinished rebalance record."""

from __future__ import annotations

from coordinator_server.core.groups.explain import RebalanceOutcome
from coordinator_server.core.groups.modern.account import EpochChange
from coordinator_server.core.groups.modern.snapshot import sides, wanted
from coordinator_server.core.groups.settings import GroupKind
from tests.unit.core.groups.consumer.context import ConsumerContext


def test_an_account_so_far() -> None:
    """A view says that the change is under way; the record itself stays open."""
    context = ConsumerContext()
    a, b = context.member("a", "three"), context.member("b", "three")
    context.joined(a)
    b.join()
    account = context.group.rebalance
    assert isinstance(account, EpochChange)
    so_far = account.so_far(context.group, context.broker.now_ms)
    assert so_far.outcome is RebalanceOutcome.UNDER_WAY
    context.reconcile(a, b)
    assert context.group.rebalance is None
    assert context.broker.explained[-1].outcome is RebalanceOutcome.STABLE


def test_a_member_without_an_assignment() -> None:
    """A member without an assignment has empty current and target assignments."""
    for kind in GroupKind:
        assert sides(kind, None) == ({}, {})
        assert wanted(kind, None) == {}
