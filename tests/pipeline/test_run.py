"""Failures, notes and coverage of runs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipeline import run, schema
from pipeline.progress import silent
from pipeline.sources.segments import LogDirSource
from pipeline.store import Store
from tests.pipeline.logs import START_MS, plain, write_segment
from tests.pipeline.logs import commits as log_commits
from tests.pipeline.report.scene import commits, write
from tests.pipeline.story import AT_MS
from tests.pipeline.ways import plain_rows, questions, read_table


class _FullStore(Store):
    """A store whose first table fails with a full disk; writing the others takes some time."""

    written: list[str]

    def folder_for_files(self) -> None:
        """Return None, so that Spark writes the tables."""

    def write_table(self, table: schema.Table, frame: DataFrame) -> None:
        """Fail for the first table; record the names of the others."""
        if table == schema.TABLES[0]:
            raise OSError("No space left on device")
        time.sleep(0.2)
        self.written.append(table.name)


def test_a_table_that_fails_ends_the_run(spark: SparkSession, tmp_path: Path) -> None:
    """If a table fails, the run raises its error and starts no further tables."""
    store = _FullStore(spark, str(tmp_path))
    store.written = []
    with pytest.raises(OSError, match="No space left"):
        run.make_tables(store, questions(AT_MS), None, silent)
    assert len(store.written) < len(schema.TABLES) // 2


def test_the_memory_for_a_large_group_is_told_first(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note on a large group, with the memory of its worker, precedes the making of tables."""
    write(tmp_path, "bronze", schema.OFFSETS_LOG, commits("big", "t", 9, 0, range(4)))
    monkeypatch.setattr(run, "LARGE_GROUP_RECORDS", 4)
    monkeypatch.setattr(run, "_BYTES_PER_RECORD", 1_000_000_000)
    monkeypatch.setattr(run, "make_files", lambda *_: {})
    said: list[str] = []
    run.make_tables(Store(spark, str(tmp_path)), questions(), None, said.append)
    assert said[0] == (
        "note: group big has 4 records in the offsets log: the worker that makes its tables takes"
        " about 4.0 GB of memory"
    )
    assert said[1].startswith("tables: making them")


@pytest.mark.nightly
def test_coverage_says_what_a_run_saw(spark: SparkSession, tmp_path: Path) -> None:
    """`coverage` has cluster, input and damage; a run on the bronze of this run repeats them."""
    log = tmp_path / "log"
    write_segment(log, [plain(log_commits(0, 2)), b"no batch, for " + bytes(99)])
    (log / "meta.properties").write_text("version=1\ncluster.id=AbC\nnode.id=1\n")
    store = Store(spark, str(tmp_path / "out"))
    source = LogDirSource(spark, str(log))
    run.run_batch(source, store, lambda: questions(AT_MS), "g", silent)
    (row,) = plain_rows(read_table(store, schema.COVERAGE), schema.COVERAGE)
    assert (row["at_ms"], row["cluster_id"], row["input"]) == (AT_MS, "AbC", str(log))
    assert (row["groups"], row["first_log_ms"]) == ("g", START_MS)
    assert row["notes"] == ["__consumer_offsets-0: a torn tail of 113 bytes was left out"]
    again = Store(spark, str(tmp_path / "again"))
    again.use_bronze_of(store)
    run.run_batch(None, again, lambda: questions(AT_MS + 1), None, silent)
    (copied,) = plain_rows(read_table(again, schema.COVERAGE), schema.COVERAGE)
    assert copied == {**row, "at_ms": AT_MS + 1, "groups": None}
    assert LogDirSource(spark, str(without_meta(tmp_path))).cluster_id is None


def without_meta(folder: Path) -> Path:
    """Return a folder with partitions but without meta.properties."""
    write_segment(folder / "copied", [plain(log_commits(0, 2))])
    return folder / "copied"
