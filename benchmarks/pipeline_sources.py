"""Segment files and Spark's Kafka connector compared: the same offsets log, decoded to bronze.

    python -m benchmarks.pipeline_sources --commits 300000

This project's broker serves the directory to the connector; the files are read without a broker.
Both run alternately in one session; the first turn warms the JVM up and does not count. CPU is that
of Spark (JVM and workers); the connector needs the broker's CPU in addition.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.pipeline_end_to_end import workload
from benchmarks.pipeline_workload import OFFSETS_PARTITIONS, Watch
from pipeline import schema
from pipeline.bronze import read_offsets_log
from pipeline.decode.kinds import COMMIT
from pipeline.progress import silent
from pipeline.session import open_session
from pipeline.sources.jars import connector_settings
from pipeline.sources.kafka import BrokerSource
from pipeline.sources.segments import LogDirSource
from pipeline.sources.source import Source
from pipeline.store import Store
from tests.support import Broker

FOR_EVER = {
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "offsets.retention.minutes": "100000000",
    "log.retention.ms": "-1",
    "log.cleaner.min.compaction.lag.ms": str(10**12),
}
"""The workload is in the past, so retention and compaction are disabled."""


def measure(spark: SparkSession, source: Source, out: Path) -> tuple[int, float, float]:
    """Return the number of commits, wall seconds and CPU seconds of Spark."""
    store = Store(spark, str(out))
    watch = Watch(os.getpid())
    watch.look()
    began, used = time.perf_counter(), watch.cpu_seconds
    read_offsets_log(source, store, silent)
    taken = time.perf_counter() - began
    watch.look()
    watch.stop()
    # Count only commits: the broker adds records when the members of the groups time out.
    kept = store.read_bronze(schema.OFFSETS_LOG).where(F.col("kind") == COMMIT)
    return kept.count(), taken, watch.cpu_seconds - used


def main() -> int:
    """Print the rows per second of both sources, and how many times faster the files are.

    Raises SystemExit if the numbers of records differ.
    """
    options = argparse.ArgumentParser()
    options.add_argument("--commits", type=int, default=300_000)
    options.add_argument("--rounds", type=int, default=3)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        data = folder / "data"
        workload(asked.commits, None).write(data)
        spark = open_session(settings=connector_settings(None))
        best: dict[str, tuple[float, float]] = {}
        with Broker(FOR_EVER, data_dir=data) as broker:
            sources: dict[str, Source] = {
                "connector": BrokerSource(spark, broker.bootstrap_servers),
                "files": LogDirSource(spark, str(data)),
            }
            counts = set()
            for number in range(asked.rounds + 1):
                for name, source in sources.items():
                    count, wall, cpu = measure(spark, source, folder / f"{name}-{number}")
                    counts.add(count)
                    print(f"{name}: {count / wall:,.0f} rows/s, {cpu / count * 1e6:.1f} us of CPU")
                    if number:
                        before = best.get(name, (wall, cpu))
                        best[name] = min(before[0], wall), min(before[1], cpu)
        spark.stop()
    if len(counts) != 1:
        raise SystemExit(f"they read different numbers of records: {sorted(counts)}")
    by_wall, by_cpu = (best["connector"][part] / best["files"][part] for part in (0, 1))
    print(f"files give {by_wall:.1f} times the rows a second, at {1 / by_cpu:.2f} of the CPU")
    return 0


if __name__ == "__main__":
    sys.exit(main())
