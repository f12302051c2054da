"""What a run does when a table cannot be made."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipeline import run, schema
from pipeline.progress import silent
from pipeline.store import Store
from tests.pipeline.report.scene import commits, write
from tests.pipeline.story import AT_MS
from tests.pipeline.ways import questions


class _FullStore(Store):
    """The first table finds the disk full; each of the others takes its time."""

    written: list[str]

    def folder_for_files(self) -> None:
        """No folder: Spark writes."""

    def write_table(self, table: schema.Table, frame: DataFrame) -> None:
        """Instead of writing."""
        if table == schema.TABLES[0]:
            raise OSError("No space left on device")
        time.sleep(0.2)
        self.written.append(table.name)


def test_a_table_that_fails_ends_the_run(spark: SparkSession, tmp_path: Path) -> None:
    """Its error comes out, and what was not begun is left."""
    store = _FullStore(spark, str(tmp_path))
    store.written = []
    with pytest.raises(OSError, match="No space left"):
        run.make_tables(store, questions(AT_MS), None, silent)
    assert len(store.written) < len(schema.TABLES) // 2


def test_the_memory_for_a_large_group_is_told_first(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before tables are made: the group, its records, and what its worker takes."""
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
