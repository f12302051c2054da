"""Rebalances for tests of the journal of rebalances."""

from __future__ import annotations

from coordinator_server.core.groups.explain import Cause, Rebalance, RebalanceOutcome, Trigger


def account(
    generation: int = 1, outcome: RebalanceOutcome = RebalanceOutcome.STABLE, reason: str = ""
) -> Rebalance:
    """Return a rebalance that has ended."""
    cause = Cause(Trigger.MEMBER_LEFT, "m-1", None, "m", "/127.0.0.1", reason)
    return Rebalance(cause, generation - 1, None, 1_000).end(
        outcome, "consumer", 2_000, generation=generation
    )
