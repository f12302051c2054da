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
from tests.support import Broker

GROUPS = 100
ROUNDS = 8
"""How often every offset is committed: as many times the live data is written to the log."""

SETTINGS = {"offsets.topic.num.partitions": "4", "group.initial.rebalance.delay.ms": "0"}
MOST = 2.5
"""Largest size over live data, each half second: the middle one of all. The promise is twice; what
is above it is for a log as small as this one, where each file counts, on a machine that is busy."""

MOST_EVER = ROUNDS / 2
"""Of any half second. A disk that stands still for a while holds compaction up and not the commits,
until the next sync; without compaction the log would come to `ROUNDS`."""

WARM_UP_SECONDS = 2.0
"""A new log is first looked at after a while; by then many times half a megabyte is written."""

SAMPLES = 10
"""Half seconds at least: a fast broker has written `ROUNDS` in two, and a median needs more."""

SECONDS = 60.0


async def largest_ratios(broker: Broker, data: Path) -> list[float]:
    """The largest size of the offsets log over its live data, each half second of the rounds."""
    load = Load(broker, data, GROUPS, connections=10)
    await load.begin()
    await load.run(WARM_UP_SECONDS, 0)
    ratios: list[float] = []
    commits = 0.0
    end = time.monotonic() + SECONDS
    while commits < ROUNDS * GROUPS * PARTITIONS or len(ratios) < SAMPLES:
        assert time.monotonic() < end, f"{commits:.0f} commits in {SECONDS} s"
        sizes = await load.run(0.5, 0)
        commits += sizes.commits_per_second * 0.5
        ratios.append(sizes.worst_ratio)
    await load.end()
    return ratios


@pytest.mark.alone
@pytest.mark.real_time
def test_the_offsets_log_stays_small_under_commits(tmp_path: Path) -> None:
    """Every file of it together stays near twice the live data, while eight times that comes."""
    data = tmp_path / "data"
    with Broker(SETTINGS, data_dir=data) as broker:
        ratios = uvloop.run(largest_ratios(broker, data))
    assert statistics.median(ratios) < MOST, ratios
    assert max(ratios) < MOST_EVER, ratios
