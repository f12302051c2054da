"""Long work of requests, and the garbage collector meanwhile."""

from __future__ import annotations

import asyncio
import gc

import pytest

from coordinator_server.control import pace
from coordinator_server.steps import Steps


async def test_overlapping_requests_turn_the_collector_on_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The garbage collector is off until the last of two long requests has ended, then on."""
    monkeypatch.setattr(pace, "SLICE_SECONDS", 0.0)
    seen: list[bool] = []

    def steps(count: int) -> Steps:
        for _ in range(count):
            seen.append(gc.isenabled())
            yield

    was_enabled = gc.isenabled()
    gc.enable()
    try:
        await asyncio.gather(pace.in_steps(steps(2)), pace.in_steps(steps(6)))
        assert gc.isenabled()
    finally:
        if not was_enabled:
            gc.disable()
    assert seen == [True, False, *[False] * 6]
