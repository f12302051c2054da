"""What a micro-batch costs as the history grows: CPU seconds, step by step.

    python -m benchmarks.pipeline_increments --commits 300000 --commits 1000000
    python -m benchmarks.pipeline_increments --commits 3000000 --groups 1    # memory of one group

A stream with an interval first reads a log directory whose commits lie ten minutes apart, so that
more commits are a longer history of the same groups. Then one group commits its 100 partitions
again, several times; a line has the median CPU seconds of each step of such a micro-batch, without
the start of Spark. The last columns are the cost of the first run and a worker's largest memory.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.pipeline_workload import Watch, Workload

PARTITIONS, ROUND_MS = 100, 600_000
STEPS = ("offsets log", "ends and topics", "tables", "in all")


class Stream:
    """A stream in a process of its own, whose lines on standard error mark the steps."""

    def __init__(self, log: Path, out: Path, settings: list[str]) -> None:
        command = [sys.executable, "-m", "pipeline", "stream", "--interval", "1s"]
        options = [part for setting in settings for part in ("--conf", setting)]
        self._process = subprocess.Popen(
            [*command, "--log-dir", str(log), "--out", str(out), *options],
            stderr=subprocess.PIPE,
            text=True,
        )
        self.watch = Watch(self._process.pid)

    def lines(self) -> Iterator[tuple[float, str]]:
        """Yield the CPU seconds so far and each line."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.watch.look()
            yield self.watch.cpu_seconds, line.rstrip()
        raise SystemExit("the stream has ended")

    def stop(self) -> None:
        """End the stream."""
        self._process.terminate()
        self._process.wait()
        self.watch.stop()


def measure(load: Workload, folder: Path, repeats: int, settings: list[str]) -> list[float]:
    """Return the median cost of each step, the cost of the first run, and a worker's memory."""
    log = folder / f"log-{load.commits}"
    load.write(log)
    stream = Stream(log, folder / f"out-{load.commits}", settings)
    steps: list[list[float]] = []
    marks: list[float] = []
    first = begun = 0.0
    try:
        for cpu, line in stream.lines():
            print(f"  [{cpu:7.1f} CPU s] {line}", file=sys.stderr)
            if "micro-batch" in line or ("topic records and group events" in line and marks):
                marks.append(cpu)
            elif "table dead_letters" in line:
                time.sleep(1.5)  # what a refresh does after its tables belongs to it
                stream.watch.look()
                cpu = stream.watch.cpu_seconds
                if first and len(marks) == 2:
                    steps.append([marks[0] - begun, marks[1] - marks[0], cpu - marks[1]])
                # The tables that are made before the first micro-batch are empty.
                first = first or (cpu if marks else 0.0)
                begun, marks = cpu, []
                if len(steps) == repeats + 1:
                    break
                if first:
                    load.commit_again(log, time.time_ns() // 1_000_000)
    finally:
        stream.stop()
    # The first micro-batch still compiles the JVM's code.
    medians = [statistics.median(values) for values in zip(*steps[1:], strict=True)]
    return [*medians, sum(medians), first, stream.watch.worker_mb]


def main() -> int:
    """Print a line for each number of commits."""
    options = argparse.ArgumentParser()
    options.add_argument("--commits", type=int, action="append", default=[])
    options.add_argument("--groups", type=int, default=100)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE")
    asked = options.parse_args()
    print(f"{'commits':>10} {' '.join(f'{name:>16}' for name in (*STEPS, 'first run'))} {'MB':>8}")
    for commits in asked.commits or [300_000, 1_000_000]:
        rounds = commits // asked.groups // PARTITIONS
        load = Workload(
            asked.groups,
            PARTITIONS,
            rounds,
            end_ms=time.time_ns() // 10**6,
            span_ms=rounds * ROUND_MS,
        )
        with tempfile.TemporaryDirectory() as folder:
            *costs, peak = measure(load, Path(folder), asked.repeats, asked.conf)
        print(f"{load.commits:10} {' '.join(f'{cost:16.1f}' for cost in costs)} {peak:8.0f}")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
