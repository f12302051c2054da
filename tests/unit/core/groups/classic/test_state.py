"""The table of classic group states is complete and enforced."""

import itertools

import pytest

from coordinator_server.core.groups.classic.state import (
    COMMIT_ANSWER,
    DEAD,
    HEARTBEAT_ANSWER,
    REBALANCEABLE,
    SYNC_ANSWER,
    TRANSITIONS,
    GroupState,
)
from tests.unit.core.groups.context import GroupContext

LEGAL = {
    ("Empty", "PreparingRebalance"),
    ("Stable", "PreparingRebalance"),
    ("CompletingRebalance", "PreparingRebalance"),
    ("PreparingRebalance", "CompletingRebalance"),
    ("PreparingRebalance", "Empty"),
    ("CompletingRebalance", "Stable"),
    ("Empty", "Dead"),
    ("PreparingRebalance", "Dead"),
    ("CompletingRebalance", "Dead"),
    ("Stable", "Dead"),
}


def test_the_legal_moves_are_those_of_kafka() -> None:
    """The table has exactly the transitions of Kafka's ClassicGroupState."""
    assert {(source.value, target.value) for source, target in TRANSITIONS} == LEGAL


@pytest.mark.parametrize(("source", "target"), list(itertools.product(GroupState, repeat=2)))
def test_an_illegal_move_is_a_bug(source: GroupState, target: GroupState) -> None:
    """A transition outside of the table fails an assertion; every other transition succeeds."""
    context = GroupContext()
    context.stable("A")
    group = context.broker.group
    assert group is not None
    group.state = source
    if (source, target) in TRANSITIONS:
        group.transition_to(target, 5)
        assert (group.state, group.state_timestamp_ms) == (target, 5)
    else:
        with pytest.raises(AssertionError):
            group.transition_to(target, 5)


def test_nothing_follows_dead() -> None:
    """Dead is the final state."""
    assert not any(source is DEAD for source, _ in TRANSITIONS)


def test_every_state_has_an_answer() -> None:
    """Each state except Dead is in the tables of responses."""
    states = set(GroupState) - {DEAD}
    assert set(HEARTBEAT_ANSWER) == set(SYNC_ANSWER) == set(COMMIT_ANSWER) == states


def test_a_rebalance_begins_where_the_table_says() -> None:
    """A rebalance can start in Empty, Stable and CompletingRebalance."""
    assert {state.value for state in REBALANCEABLE} == {"Empty", "Stable", "CompletingRebalance"}
