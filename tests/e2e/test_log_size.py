"""Compaction keeps pace with commits that come as fast as they are answered.

`python -m benchmarks.log_size` watches the same for as long as one likes.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytest
import uvloop

from benchmarks.load import PARTITIONS
from benchmarks.log_size import Load
from storage.own_logs import FLOOR_BYTES
from tests.support import Broker

GROUPS = 100
ROUNDS = 80
"""How often every offset is committed: as many times the live data is written to the log."""

SETTINGS = {"offsets.topic.num.partitions": "4", "group.initial.rebalance.delay.ms": "0"}
MOST_BYTES = 1.5 * FLOOR_BYTES
"""Largest size, each half second: the middle one of all. The promise for a log as small as this one
is the floor and its live data; what is above it comes while a pass is under way."""

MOST_BYTES_EVER = 2.5 * FLOOR_BYTES
"""Of any half second. A disk that stands still for a while holds compaction up and not the commits,
until the next sync."""

WARM_UP_SECONDS = 2.0
"""A new log is first looked at after a while."""

SAMPLES = 10
"""Half seconds at least: a fast broker has written `ROUNDS` in two, and a median needs more."""

SECONDS = 60.0
RECORD_BYTES = 60
"""Of one offset in the log, at least."""


async def largest_sizes(broker: Broker, data: Path) -> list[int]:
    """The largest size of the offsets log in bytes, each half second of the rounds."""
    load = Load(broker, data, GROUPS, connections=10)
    await load.begin()
    await load.run(WARM_UP_SECONDS, 0)
    largest: list[int] = []
    commits = 0.0
    end = time.monotonic() + SECONDS
    while commits < ROUNDS * GROUPS * PARTITIONS or len(largest) < SAMPLES:
        assert time.monotonic() < end, f"{commits:.0f} commits in {SECONDS} s"
        sizes = await load.run(0.5, 0)
        commits += sizes.commits_per_second * 0.5
        largest.append(sizes.largest_bytes)
    await load.end()
    assert commits * RECORD_BYTES > 2 * FLOOR_BYTES, "too few to need compaction"
    return largest


@pytest.mark.nightly
@pytest.mark.alone
@pytest.mark.real_time
def test_the_offsets_log_stays_small_under_commits(tmp_path: Path) -> None:
    """Every file of it together stays near the floor, while several times that comes."""
    data = tmp_path / "data"
    with Broker(SETTINGS, data_dir=data) as broker:
        largest = uvloop.run(largest_sizes(broker, data))
    assert statistics.median(largest) < MOST_BYTES, largest
    assert max(largest) < MOST_BYTES_EVER, largest
