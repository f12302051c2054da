"""Compaction keeps up with commits at full speed.

`python -m benchmarks.log_size` measures the same for any length of time.
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
"""How often every offset is committed, and thus how often the live data is written to the log."""

SETTINGS = {"offsets.topic.num.partitions": "4", "group.initial.rebalance.delay.ms": "0"}
MOST_BYTES = 1.5 * FLOOR_BYTES
"""Limit of the median over the largest sizes of each half second.

The target for a small log is the floor and its live data; a running pass may exceed it.
"""

MOST_BYTES_EVER = 2.5 * FLOOR_BYTES
"""Limit of the largest size in any half second.

A stalled disk delays compaction, but not the commits until the next sync.
"""

WARM_UP_SECONDS = 2.0
"""Time until compaction first considers a new log."""

SAMPLES = 10
"""Least number of half seconds: a fast broker may write `ROUNDS` in two, too few for a median."""

SECONDS = 60.0
RECORD_BYTES = 60
"""Least size of one offset record in the log."""


async def largest_sizes(broker: Broker, data: Path) -> list[int]:
    """Return the largest size of the offsets log in bytes in each half second."""
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
    """The median size of the offsets log stays below MOST_BYTES while much more is written."""
    data = tmp_path / "data"
    with Broker(SETTINGS, data_dir=data) as broker:
        largest = uvloop.run(largest_sizes(broker, data))
    assert statistics.median(largest) < MOST_BYTES, largest
    assert max(largest) < MOST_BYTES_EVER, largest
