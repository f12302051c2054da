"""After a crash under load every client reconnects before its session expires."""

from __future__ import annotations

import pytest

from benchmarks.reconnecting import BUSY, GROUP_SIZE, GROUPS, measure
from tests.machine import slowness_on_the_wall

LIMIT_S = 5.0
"""Limit on a quiet machine."""


@pytest.mark.alone
@pytest.mark.real_time
@pytest.mark.parametrize("groups", [100, pytest.param(GROUPS, marks=pytest.mark.nightly)])
def test_members_are_back_in_their_groups_soon_after_a_kill(groups: int) -> None:
    """After a kill, members reconnect quickly and keep their groups without rejoining."""
    result = measure(groups, GROUP_SIZE, BUSY)
    assert result.lost == 0
    assert result.last_s < LIMIT_S * slowness_on_the_wall(), result
