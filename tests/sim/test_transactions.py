"""The simulation of transactions as a part of the test suite."""

from __future__ import annotations

import pytest

from tests.sim.transactions import run


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_what_must_hold_holds(first: int) -> None:
    """Whatever clients, the disk and kills do: all of a transaction or nothing, as was answered."""
    for seed in range(first, first + 20):
        run(seed)


def test_a_seed_tells_always_the_same_story() -> None:
    """Two runs of a seed are the same, line by line."""
    stories: list[list[str]] = [[], []]
    for story in stories:
        run(7, 40, story.append)
    assert stories[0] == stories[1]
    assert len(stories[0]) > 30
