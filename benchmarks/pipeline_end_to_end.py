"""CPU, time and memory of a run of the pipeline, from segment files to all tables.

    python -m benchmarks.pipeline_end_to_end --commits 1000000
    python -m benchmarks.pipeline_end_to_end --commits 1000000 --commits 2000000    # how it grows
    python -m benchmarks.pipeline_end_to_end --groups 100000 --commits 100000       # many groups

The command runs in its own process, and its start is included. More commits mean more groups. CPU
seconds are those of the run alone, so the machine may be busy.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from benchmarks.pipeline_workload import AT_MS, Cost, Workload, run_pipeline

PARTITIONS, ROUNDS = 100, 10


def workload(commits: int, groups: int | None) -> Workload:
    """Return a workload of `commits` commits, with 1000 per group or in `groups` groups."""
    if groups is None:
        return Workload(groups=max(1, commits // PARTITIONS // ROUNDS))
    partitions = max(1, min(PARTITIONS, commits // groups))
    rounds = max(1, commits // groups // partitions)
    return Workload(groups=groups, partitions=partitions, rounds=rounds, members=1)


def measure(load: Workload, folder: Path, settings: list[str], master: str) -> Cost:
    """Write the log directory if it does not exist, and run the pipeline on it."""
    name = f"{load.groups}-{load.partitions}-{load.rounds}"
    data = folder / f"data-{name}"
    load.write(data)
    options = [part for setting in settings for part in ("--conf", setting)]
    out = str(folder / f"out-{name}-{os.getpid()}")
    at = ["--at", str(AT_MS), "--replay-from", str(AT_MS - 600_000)]
    return run_pipeline(
        ["run", "--log-dir", str(data), "--out", out, "--master", master, *at, *options]
    )


def main() -> int:
    """Print a line for each number of commits, and the growth of the costs."""
    options = argparse.ArgumentParser()
    options.add_argument("--commits", type=int, action="append", default=[])
    options.add_argument(
        "--groups", type=int, help="number of groups (default: one per thousand commits)"
    )
    options.add_argument(
        "--folder", type=Path, help="directory in which files are kept (default: files are deleted)"
    )
    options.add_argument("--master", default="local[2]")
    options.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE")
    asked = options.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        for count in asked.commits or [1_000_000]:
            load = workload(count, asked.groups)
            cost = measure(load, folder, asked.conf, asked.master)
            rows.append((load, cost))
    print("commits, groups: CPU seconds (of the JVM), wall seconds, peak MB, us of CPU a commit")
    for load, cost in rows:
        each = cost.cpu_seconds / load.commits * 1e6
        print(
            f"{load.commits:,}, {load.groups:,}: {cost.cpu_seconds:.1f} ({cost.java_seconds:.1f}), "
            f"{cost.wall_seconds:.1f}, {cost.peak_mb:,.0f}, {each:.1f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
