"""Runs on a real standalone Spark cluster whose workers have no installation of the pipeline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline import schema, shipping
from pipeline.command import main
from pipeline.report.reading import Output, TableRow
from tests.pipeline.scenes import tell
from tests.pipeline.standalone import Standalone
from tests.pipeline.story import AT_MS
from tests.support import ROOT

_SECONDS = 900
_DRIVER = """
import json, sys, time
from pathlib import Path
from pipeline.command import main
links, steps = json.loads(sys.argv[1])
for step in steps:
    began = time.time_ns() // 1_000_000
    code = main(step)
    print(json.dumps([code, began, time.time_ns() // 1_000_000]), flush=True)
    for link, target in links.items():
        if not Path(link).exists():
            Path(link).symlink_to(target)
"""


def _settings(events: Path) -> list[str]:
    """Return settings for a small cluster on the loopback on which both executors get tasks."""
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.sql.shuffle.partitions": "2",
        "spark.locality.wait": "0",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
    }
    return [word for pair in settings.items() for word in ("--conf", "=".join(pair))]


def _executors(events: Path, began_ms: int, ended_ms: int) -> set[str]:
    """Return the executors that ran tasks within a time span, by Spark's event log."""
    found = set()
    for path in events.rglob("*events*"):
        if path.is_file():
            for line in path.read_text().splitlines():
                event = json.loads(line)
                if event["Event"] == "SparkListenerTaskEnd":
                    task = event["Task Info"]
                    if began_ms <= task["Launch Time"] <= task["Finish Time"] <= ended_ms:
                        found.add(task["Executor ID"])
    return found


def _rows(out: Path, table: schema.Table) -> list[TableRow]:
    """Return a table with rounded doubles, as the last bits of a sum depend on the shards."""
    return [
        {name: float(f"{one:.11g}") if isinstance(one, float) else one for name, one in row.items()}
        for row in Output(out).rows(table)
    ]


@pytest.mark.nightly
def test_two_workers_make_the_same_tables(spark: SparkSession, tmp_path: Path) -> None:
    """A batch run and a stream on two workers give the same tables as a local run.

    A worker that lacks a library is reported with the library's name. All three commands run in one
    driver process, because a start takes most of the time.
    """
    log, events = tmp_path / "log", tmp_path / "events"
    tell().write(log)
    events.mkdir()
    common = ["--log-dir", str(log), "--at", str(AT_MS)]
    with Standalone(tmp_path) as cluster:
        alone = subprocess.run(
            [cluster.python, "-c", "import pipeline"],
            cwd=tmp_path / "empty",
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            check=False,
        )
        assert b"No module named 'pipeline'" in alone.stderr
        cluster.lend("numpy", "polars", "_polars_runtime_32", "pyarrow", "cramjam", "xxhash")
        library = Path(sys.modules["google_crc32c"].__file__ or "").parent
        links = {str(cluster.libraries / "google_crc32c"): str(library)}
        beside = library.with_name("google_crc32c.libs")
        if beside.is_dir():
            links[str(cluster.libraries / beside.name)] = str(beside)
        far = [*common, "--master", cluster.master, *_settings(events)]
        names = ("run", "run", "stream")
        steps = [[name, *far, "--out", str(tmp_path / f"far-{name}")] for name in names]
        environment = {**os.environ, "PYSPARK_PYTHON": str(cluster.python)}
        done = subprocess.run(
            [sys.executable, "-c", _DRIVER, json.dumps([links, steps])],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-5000:]
    lacking, run, stream = (json.loads(line) for line in done.stdout.splitlines())
    assert lacking[0] == 1
    assert "lacks google-crc32c: install there" in done.stderr
    assert [run[0], stream[0]] == [0, 0], done.stderr[-5000:]
    assert f"./{shipping.ARCHIVE}/pipeline" in done.stderr
    assert _executors(events, *run[1:]) == {"0", "1"}
    assert _executors(events, *stream[1:]) == {"0", "1"}
    near = tmp_path / "near"
    assert spark.sparkContext.master == "local[2]"
    assert main(["run", *common, "--out", str(near)]) == 0
    for table in schema.TABLES:
        expected = _rows(near, table)
        for name in ("run", "stream"):
            assert _rows(tmp_path / f"far-{name}", table) == expected, (name, table.name)
    assert _rows(near, schema.LAG)
