"""The broker is killed under load; `python -m tests.faults.kills --kills N` does more of it."""

from pathlib import Path

import pytest

from tests.faults.kills import Kills


@pytest.mark.real_time
def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path) -> None:
    """After each of some kills every acknowledged commit and record is there and groups go on."""
    kills = Kills(str(tmp_path / "data"), seed=7)
    try:
        for _ in range(5):
            kills.kill_and_check()
    finally:
        kills.close()
    assert all(worker.acknowledged > 0 for worker in kills.committers)
    assert all(producer.offset_of for producer in kills.producers)
