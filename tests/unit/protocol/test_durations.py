"""Durations as text."""

from __future__ import annotations

import pytest

from protocol.durations import read_duration_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT1H", 3_600_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("pt0.001s", 1),
        ("-PT1M", -60_000),
        ("PT-1.5S", -1_500),
        ("P-2D", -172_800_000),
        ("PT1,25S", 1_250),
    ],
)
def test_durations(text: str, expected: int) -> None:
    """ISO 8601 durations are read as by Java's Duration.parse."""
    assert read_duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1H", "P1W", "PT1", "P1Y"])
def test_what_is_no_duration(text: str) -> None:
    """Invalid durations, also empty ones, are refused."""
    assert read_duration_ms(text) is None
