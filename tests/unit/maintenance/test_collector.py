"""The garbage collector: its pauses do not grow with the objects of the broker."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from coordinator_server.maintenance.collector import LONG_MS, CollectionTimer


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    """Unfreeze the objects after the test."""
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize(("lasted_ms", "is_frozen"), [(LONG_MS / 2, False), (2 * LONG_MS, True)])
def test_what_takes_long_is_looked_at_once(lasted_ms: float, is_frozen: bool) -> None:
    """Objects that survive a long collection are frozen and not collected again."""
    times_s = iter((5.0, 5.0 + lasted_ms / 1000))
    timer = CollectionTimer(lambda: next(times_s))
    timer("start", {})
    timer("stop", {})
    assert bool(gc.get_freeze_count()) is is_frozen
