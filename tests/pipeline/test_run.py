"""What a run does when a table cannot be made."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipeline import run, schema
from pipeline.progress import silent
from pipeline.store import Store
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
