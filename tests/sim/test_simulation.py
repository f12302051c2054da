"""The simulation as part of the test suite; `python -m tests.sim` runs more seeds."""

from pathlib import Path

import pytest

from tests.sim.world import World, run

STEPS = 600
KEPT = [
    line.split(maxsplit=2)
    for line in (Path(__file__).parent / "kept_seeds.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_what_must_hold_holds(first: int) -> None:
    """No invariant is violated by any clients and faults, and every simulation becomes idle."""
    for seed in range(first, first + 10):
        run(seed, STEPS)


@pytest.mark.parametrize(("seed", "steps", "what"), KEPT, ids=[one[0] for one in KEPT])
def test_seeds_that_once_failed(seed: str, steps: str, what: str) -> None:
    """Seeds that failed once, and were fixed, keep passing."""
    run(int(seed), int(steps))


def test_a_seed_tells_always_the_same_story() -> None:
    """Two runs of a seed give the same trace, line by line."""
    stories: list[list[str]] = [[], []]
    for story in stories:
        run(7, 200, story.append)
    assert stories[0] == stories[1]
    assert len(stories[0]) > 200


def test_a_violation_says_how_to_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A violation has a note with the command that reproduces it."""

    def broken(world: World) -> None:
        raise AssertionError("the moon is gone")

    monkeypatch.setattr(World, "check", broken)
    with pytest.raises(AssertionError) as caught:
        run(3, 10)
    assert caught.value.__notes__ == [
        "seed 3, step 1; to see it: python -m tests.sim --seed 3 --steps 10 --trace"
    ]
