"""After a crash under load every client is back before its session ends."""

from __future__ import annotations

import pytest

from benchmarks.reconnecting import BUSY, GROUP_SIZE, GROUPS, measure
from tests.machine import slowness_on_the_wall

LIMIT_S = 5.0
"""On a quiet machine."""


@pytest.mark.alone
@pytest.mark.real_time
@pytest.mark.parametrize("groups", [100, pytest.param(GROUPS, marks=pytest.mark.nightly)])
def test_members_are_back_in_their_groups_soon_after_a_kill(groups: int) -> None:
    """Connections are accepted in bulk, and the groups stand as they were: nobody joins again."""
    result = measure(groups, GROUP_SIZE, BUSY)
    assert result.lost == 0
    assert result.last_s < LIMIT_S * slowness_on_the_wall(), result
