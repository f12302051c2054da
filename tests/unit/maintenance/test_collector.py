"""The garbage collector: its pauses do not grow with what the broker holds."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from coordinator_server.maintenance.collector import LONG_MS, CollectionTimer


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    """What these tests freeze is looked at again afterwards."""
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize(("lasted_ms", "is_frozen"), [(LONG_MS / 2, False), (2 * LONG_MS, True)])
def test_what_takes_long_is_looked_at_once(lasted_ms: float, is_frozen: bool) -> None:
    """A long collection is the last one of the objects that it has found."""
    times_s = iter((5.0, 5.0 + lasted_ms / 1000))
    timer = CollectionTimer(lambda: next(times_s))
    timer("start", {})
    timer("stop", {})
    assert bool(gc.get_freeze_count()) is is_frozen
