"""JSON in pieces, so that no step of a large response takes long."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import pytest

from coordinator_server.control import pace
from coordinator_server.steps import Steps

PARTITIONS = [{"start_offset": index, "end_offset": None} for index in range(2_000)]
RECORD = {"key": None, "value": {"text": 'ü"\\' * 300_000, "is_cut": False}}


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        "",
        {"a": 1, "b": [True, None, "x", 1.5]},
        {"topics": [{"topic": "t", "partitions": PARTITIONS, "configs": {}}]},
        {"records": [RECORD] * 3, "next": None},
        {"headers": [{"name": "h", "value": ["x" * 100_000] * 40}]},
        {str(number): number for number in range(10_000)},
        {"sent": [[[PARTITIONS]]]},
    ],
)
async def test_pieces_are_short(value: Any) -> None:
    """All pieces together are the JSON of the value, and no piece is long."""
    assert json.loads(await pace.encoded(value)) == value
    longest = max(map(len, pace._pieces(value)))
    assert longest <= 6 * pace._SHORT_TEXT
    if isinstance(value, dict) and ("topics" in value or "sent" in value):
        assert longest < 200


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
