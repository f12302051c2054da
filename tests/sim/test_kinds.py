"""The simulations of the other kinds of groups as part of the test suite.

`python -m tests.sim --kind consumer` plays more seeds of one kind.
"""

from __future__ import annotations

import pytest

from tests.sim.__main__ import OTHER_KINDS, SIMULATIONS

QUICK_SEEDS = 8


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_what_must_hold_holds(kind: str) -> None:
    """Whatever clients and faults do, no invariant is violated, and every world comes to rest."""
    run, steps = SIMULATIONS[kind]
    for seed in range(QUICK_SEEDS):
        run(seed, steps)


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_a_seed_tells_always_the_same_story(kind: str) -> None:
    """Two runs of a seed give the same trace, line by line."""
    stories: list[list[str]] = [[], []]
    for story in stories:
        SIMULATIONS[kind][0](7, 40, story.append)
    assert stories[0] == stories[1]
    assert len(stories[0]) > 40
