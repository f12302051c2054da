"""The simulation at length: hundreds of seeds, small worlds to depth 5, the other bugs."""

import pytest

from tests.sim.__main__ import OTHER_KINDS, SIMULATIONS
from tests.sim.small_worlds import WORLDS, explore
from tests.sim.transactions import run as run_transactions
from tests.sim.world import run

pytestmark = pytest.mark.nightly

SEEDS = range(400)
SEEDS_AT_ONCE = 20
SEEDS_OF_OTHER_KINDS = range(200)
STEPS = 1000
DEPTH = 5


@pytest.mark.parametrize("first", SEEDS[::SEEDS_AT_ONCE])
def test_what_must_hold_holds(first: int) -> None:
    """No violation in any step of 400 seeds, and rest in the end."""
    for seed in SEEDS[first : first + SEEDS_AT_ONCE]:
        run(seed, STEPS)


@pytest.mark.parametrize("first", SEEDS[:: 5 * SEEDS_AT_ONCE])
def test_transactions_hold(first: int) -> None:
    """The same for 400 seeds of transactions."""
    for seed in SEEDS[first : first + 5 * SEEDS_AT_ONCE]:
        run_transactions(seed)


@pytest.mark.parametrize("first", SEEDS_OF_OTHER_KINDS[:: 2 * SEEDS_AT_ONCE])
@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_other_kinds_hold(kind: str, first: int) -> None:
    """The same for 200 seeds of each of the other kinds of groups."""
    play, steps = SIMULATIONS[kind]
    for seed in SEEDS_OF_OTHER_KINDS[first : first + 2 * SEEDS_AT_ONCE]:
        play(seed, steps)


@pytest.mark.parametrize("name", WORLDS)
def test_every_order_of_events_is_right(name: str) -> None:
    """No order of one event more than `make test` tries breaks a rule, in any of the worlds."""
    assert explore(name, DEPTH).states > 100
