"""Spark's Python processes import the installed PySpark, not a zip without bytecode."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pipeline.pieces import ArrowBatches
from pipeline.session import fast_home


def test_workers_import_the_installed_package(spark: SparkSession) -> None:
    """Workers import pyspark and py4j from the installed packages."""

    def where(batches: ArrowBatches) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            found = [os.path.realpath(str(files(name))) for name in ("pyspark", "py4j")]
            yield pa.record_batch([found], names=["folder"])

    found = {row["folder"] for row in spark.range(1).mapInArrow(where, "folder string").collect()}
    assert found == {os.path.realpath(str(files(name))) for name in ("pyspark", "py4j")}


def test_the_home_is_that_of_the_start_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """SPARK_HOME is set only during the start, and an existing value is kept."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    with fast_home():
        home = Path(os.environ["SPARK_HOME"])
        assert (home / "bin" / "spark-submit").exists()
        assert list((home / "jars").glob("spark-core_*.jar"))
    assert "SPARK_HOME" not in os.environ
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    with fast_home():
        assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert os.environ["SPARK_HOME"] == "/opt/spark"
