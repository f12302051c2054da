"""The broker is killed under load; `kills` and `group_kills` run longer (`--kills N`)."""

from pathlib import Path

import pytest

from tests.faults.group_kills import ClientKills, ConsumerKills, ShareKills
from tests.faults.kills import Kills


@pytest.mark.real_time
def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path) -> None:
    """After each kill every acknowledged commit and record exists, and groups make progress."""
    kills = Kills(str(tmp_path / "data"), seed=7)
    try:
        for _ in range(5):
            kills.kill_and_check()
    finally:
        kills.close()
    assert all(worker.acknowledged > 0 for worker in kills.committers)
    assert all(producer.offset_of for producer in kills.producers)


@pytest.mark.real_time
def test_consumer_groups_go_on_after_kill_9(tmp_path: Path) -> None:
    """After each kill, consumer groups keep their epochs, partitions and committed offsets."""
    kills = ConsumerKills(str(tmp_path / "data"), seed=7)
    try:
        for _ in range(4):
            kills.kill_and_check()
    finally:
        kills.close()
    for commits in kills.commits.values():
        assert all(offset >= 0 for offset in commits.acknowledged.values())


@pytest.mark.real_time
def test_share_groups_go_on_after_kill_9(tmp_path: Path) -> None:
    """Acknowledged records are not delivered again, and all other records are delivered."""
    kills = ShareKills(str(tmp_path / "data"), seed=7)
    try:
        for _ in range(4):
            kills.kill_and_check()
        assert kills.drain()
    finally:
        kills.close()


@pytest.mark.real_time
def test_clients_of_consumer_groups_go_on_after_kill_9(tmp_path: Path) -> None:
    """confluent-kafka with `group.protocol=consumer` reads every record and keeps its commits."""
    kills = ClientKills(str(tmp_path / "data"), seed=7)
    try:
        for _ in range(2):
            kills.kill_and_check()
        assert kills.drain()
    finally:
        kills.close()
