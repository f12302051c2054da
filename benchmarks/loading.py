"""CPU to load the groups of a million commits, after kill -9 and after a clean stop.

    python -m benchmarks.loading
    python -m benchmarks.loading --rounds 1 --groups 100

Groups commit 100 partitions repeatedly. Then the broker is killed or stopped, and started again.
The table shows the CPU time of the whole process until the offsets topic is loaded, and the
difference to the start of an empty broker. The log is either compacted (Kafka's defaults) or keeps
every record.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import uvloop

from benchmarks.load import PARTITIONS
from benchmarks.log_size import Load, log_bytes, switch_compaction
from tests.support import Broker, wait_for


async def _commit(broker: Broker, data: Path, groups: int, rounds: int, keep_all: bool) -> None:
    load = Load(broker, data, groups, connections=10)
    await load.begin()
    if keep_all:
        # The first commits have created the topic, so its config can be changed.
        switch_compaction(broker, on=False)
    for _ in range(rounds - 1):
        await load.commit_each()
    await load.end()


def _loading_cpu_seconds(broker: Broker, data: Path) -> float:
    """Start a broker, wait until the offsets topic is loaded, and return the broker's CPU time."""
    partitions = len(list(data.glob("__consumer_offsets-*")))
    broker.start()
    wait_for(lambda: len(broker.log_lines("coordinator.loaded")) == partitions, "the groups")
    return broker.cpu_seconds()


def _measure(groups: int, rounds: int, *, keep_all: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "data"
        broker = Broker(data_dir=data)
        with broker:
            uvloop.run(_commit(broker, data, groups, rounds, keep_all))
            size = log_bytes(data, ".log")
            broker.kill()
            seconds = {"kill -9": _loading_cpu_seconds(broker, data)}
            broker.stop()
            seconds["clean stop"] = _loading_cpu_seconds(broker, data)
            broker.stop()
        with Broker() as empty:
            start = empty.cpu_seconds()
            empty.stop()
    what = "every record kept" if keep_all else "as compaction left it"
    print(f"{what}: {size / 1e6:.1f} MB; an empty start costs {start:.2f} s CPU")
    for after, spent in seconds.items():
        print(f"  after {after:10} {spent:6.2f} s CPU in all, {spent - start:.2f} s of loading")


def main() -> int:
    """Run the benchmark and print the figures."""
    parser = argparse.ArgumentParser(description="Measure the CPU time to load committed offsets.")
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    commits = arguments.groups * arguments.rounds * PARTITIONS
    print(f"{commits} commits of {arguments.groups} groups")
    for keep_all in (False, True):
        _measure(arguments.groups, arguments.rounds, keep_all=keep_all)
    return 0


if __name__ == "__main__":
    sys.exit(main())
