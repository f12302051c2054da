"""The simulation of transactions as part of the test suite."""

from __future__ import annotations

import pytest

from tests.sim.transactions import run


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_what_must_hold_holds(first: int) -> None:
    """Whatever clients, disk and kills do, each transaction is visible wholly or not at all."""
    for seed in range(first, first + 20):
        run(seed)


def test_a_seed_tells_always_the_same_story() -> None:
    """Two runs of a seed give the same trace, line by line."""
    stories: list[list[str]] = [[], []]
    for story in stories:
        run(7, 40, story.append)
    assert stories[0] == stories[1]
    assert len(stories[0]) > 30
