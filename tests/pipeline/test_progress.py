"""Progress lines of long stages."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from pipeline.progress import watched
from tests.support import wait_for

OFTEN_SECONDS = 0.01


def session(active: Callable[[], list[int]]) -> Any:
    """Return a fake session: stage n has n tasks, one of them done; stage 9 no longer exists."""

    def info(number: int) -> Any:
        return None if number == 9 else SimpleNamespace(numTasks=number, numCompletedTasks=1)

    tracker = SimpleNamespace(getActiveStageIds=active, getStageInfo=info)
    return SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))


def test_stages_at_work_are_counted_together() -> None:
    """A line sums the tasks of all active stages, without stages that have just ended."""
    told: list[str] = []
    with watched(session(lambda: [5, 7, 9]), told.append, OFTEN_SECONDS):
        wait_for(lambda: len(told) >= 2, "two lines")
    assert set(told) == {"  at work: 2 of 12 tasks done"}
    count = len(told)
    time.sleep(10 * OFTEN_SECONDS)
    assert len(told) == count


def test_nothing_is_told_while_nothing_is_at_work() -> None:
    """No line is printed while no stage is active, as in a stream that waits for records."""
    told: list[str] = []
    looks: list[int] = []

    def idle() -> list[int]:
        looks.append(1)
        return []

    with watched(session(idle), told.append, OFTEN_SECONDS):
        wait_for(lambda: len(looks) >= 3, "three looks")
    assert told == []
