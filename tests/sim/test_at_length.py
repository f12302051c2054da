"""Long runs of the simulation: hundreds of seeds, and small worlds to depth 5."""

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
    """In 400 seeds no step violates an invariant, and every world comes to rest."""
    for seed in SEEDS[first : first + SEEDS_AT_ONCE]:
        run(seed, STEPS)


@pytest.mark.parametrize("first", SEEDS[:: 5 * SEEDS_AT_ONCE])
def test_transactions_hold(first: int) -> None:
    """In 400 seeds of transactions no step violates an invariant."""
    for seed in SEEDS[first : first + 5 * SEEDS_AT_ONCE]:
        run_transactions(seed)


@pytest.mark.parametrize("first", SEEDS_OF_OTHER_KINDS[:: 2 * SEEDS_AT_ONCE])
@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_other_kinds_hold(kind: str, first: int) -> None:
    """In 200 seeds of each other kind of group no step violates an invariant."""
    play, steps = SIMULATIONS[kind]
    for seed in SEEDS_OF_OTHER_KINDS[first : first + 2 * SEEDS_AT_ONCE]:
        play(seed, steps)


@pytest.mark.parametrize("name", WORLDS)
def test_every_order_of_events_is_right(name: str) -> None:
    """No order of events, one event deeper than in `make test`, violates an invariant."""
    assert explore(name, DEPTH).states > 100
