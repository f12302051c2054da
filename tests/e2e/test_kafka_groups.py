"""A broker with an offsets log that Kafka wrote serves the same groups as Kafka.

`expected.json` is the description of the groups by a Kafka that started on the same segments. A
Kafka 4.1 gave the same description of its own log of the same events.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from storage.cleaner import Cleaning
from storage.local_disk import LocalDisk
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.groups import Groups, groups_of
from tests.support import Broker

DATA = Path(__file__).parents[1] / "data"
PARTITIONS = 4
NOW_MS = 1_800_000_000_000  # later than every timestamp in the log
SETTINGS = {"offsets.topic.num.partitions": str(PARTITIONS)}
EXPECTED: Groups = json.loads((DATA / "segments" / "expected.json").read_text())
CLASSIC = {name: one for name, one in EXPECTED.items() if one["type"] == "Classic"}


@pytest.fixture(params=["segments", "segments-4.1"])
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of Kafka's offsets log without indexes, checkpoints and epochs."""
    for partition in range(PARTITIONS):
        name = f"__consumer_offsets-{partition}"
        log = DATA / str(request.param) / name
        shutil.copytree(log, tmp_path / "data" / name, copy_function=shutil.copyfile)
    return tmp_path / "data"


def assert_served(data: Path) -> None:
    """Check that classic groups are as expected; of KIP-848 groups compare only the offsets."""
    with Broker(SETTINGS, data_dir=data) as broker:
        groups = groups_of(broker.bootstrap_servers)
        broker.stop()
    assert set(groups) == set(EXPECTED)
    assert {name: groups[name] for name in CLASSIC} == CLASSIC
    for name in set(EXPECTED) - set(CLASSIC):
        assert groups[name]["offsets"] == EXPECTED[name]["offsets"]


def compact(data: Path) -> tuple[int, int]:
    """Run our cleaner over the whole log; return its size before and after."""
    manager = LogManager.open(LocalDisk(), str(data), LogConfig())
    logs = [manager.log("__consumer_offsets", partition) for partition in range(PARTITIONS)]
    before = sum(log.size_bytes for log in logs)
    for log in logs:
        log.roll(NOW_MS)
        for _ in Cleaning(log, 0, NOW_MS).run():
            pass
    after = sum(log.size_bytes for log in logs)
    manager.close()
    return before, after


def test_the_groups_are_those_that_kafka_serves(data: Path) -> None:
    """Types, members, instance ids, offsets, metadata and epochs agree with Kafka's.

    They still agree after a restart, and after our compaction of the log.
    """
    assert_served(data)
    assert_served(data)
    before, after = compact(data)
    assert after < before
    assert_served(data)
