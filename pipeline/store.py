"""What a run keeps under its output folder, and how: bronze in whole batches, tables as they are.

A batch of bronze is written aside and renamed: it is there whole or not at all. Its name says what
it is a batch of, so that writing it a second time changes nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession

from pipeline import schema
from pipeline.files import write_no_rows, write_parts
from pipeline.pieces import PACKED, ArrowBatches, unpack_all, unpacked

_BATCH = "batch"
_STAGING = "staging"
PARQUET = "parquet"
DELTA = "delta"
DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # The log of a table is a few lines; Delta would read it in fifty tasks.
    "spark.databricks.delta.snapshotPartitions": "2",
}


def has_delta(spark: SparkSession) -> bool:
    """Whether Delta's classes are there."""
    name = "org/apache/spark/sql/delta/catalog/DeltaCatalog.class"
    java: Any = spark._jvm
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.getResource(name) is not None


def _write_parquet(frame: DataFrame, path: str) -> None:
    frame.write.mode("overwrite").parquet(path)


def _write_by_workers(
    packed: DataFrame, table: schema.Table, where: pl.Expr | None, folder: Path
) -> None:
    def write(batches: ArrowBatches) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None
        name = f"part-{task.partitionId():05}"
        write_parts(table, unpack_all(batches, where), folder, name)
        yield from ()

    packed.mapInArrow(write, PACKED).count()


class Store:
    """Folders below `out`, a path that Spark knows (local, HDFS, an object store)."""

    def __init__(self, spark: SparkSession, out: str, table_format: str = PARQUET) -> None:
        self.spark = spark
        self.out = out.rstrip("/")
        self._format = table_format
        self._bronze = self.path("bronze")
        self._coverage = self.path("tables", schema.COVERAGE.name)

    def path(self, *names: str) -> str:
        """A path below the output folder."""
        return "/".join((self.out, *names))

    def has(self, path: str) -> bool:
        """Whether something lies there."""
        return bool(self._call(path, lambda files, place: files.exists(place)))

    def has_bronze(self, table: schema.Table) -> bool:
        """Whether a batch of a bronze table was begun at least."""
        return self.has(self._folder(table))

    def _folder(self, table: schema.Table) -> str:
        return f"{self._bronze}/{table.name}"

    def read_bronze(self, table: schema.Table) -> DataFrame:
        """All batches of a bronze table; an empty frame where there is none."""
        if not self.has_bronze(table):
            return self._nothing({column.name: column.type for column in table.columns})
        reader = self.spark.read.schema(table.spark())
        return reader.parquet(self._folder(table)).select(table.names)

    def _nothing(self, columns: Mapping[str, str]) -> DataFrame:
        """A frame without rows, of which Spark sees that there is nothing to do."""
        nulls = (f"CAST(NULL AS {kind}) AS `{name}`" for name, kind in columns.items())
        return self.spark.range(1).where("false").selectExpr(*nulls)

    def bronze_files(self, table: schema.Table) -> DataFrame:
        """The Parquet files of all batches of a bronze table: a frame with a column `content`."""
        if not self.has_bronze(table):
            return self._nothing({"content": "binary"})
        files = self.spark.read.format("binaryFile").option("pathGlobFilter", "*.parquet")
        return (
            files.option("recursiveFileLookup", "true").load(self._folder(table)).select("content")
        )

    def add_bronze(self, table: schema.Table, batch: str, frame: DataFrame) -> bool:
        """Add a batch by its name, once: False if it is there already."""
        return self._add(table, batch, partial(_write_parquet, frame.select(table.names)))

    def add_packed_bronze(
        self, table: schema.Table, batch: str, packed: DataFrame, where: pl.Expr | None
    ) -> bool:
        """The same with packed rows, see `pipeline.pieces`, of which some are wanted."""

        def write(staging: str) -> None:
            folder = self._empty_folder(staging)
            if folder is None:
                _write_parquet(unpacked(packed, table, where), staging)
            else:
                _write_by_workers(packed, table, where, folder)

        return self._add(table, batch, write)

    def _add(self, table: schema.Table, batch: str, write: Callable[[str], None]) -> bool:
        target = self.path("bronze", table.name, f"{_BATCH}={batch}")
        if self.has(target):
            return False
        staging = self.path(_STAGING, table.name, batch)
        write(staging)
        self._rename(staging, target)
        return True

    def add_bronze_rows(self, table: schema.Table, rows: Sequence[tuple[object, ...]]) -> None:
        """Add a few rows to a small table; a row with a key that is there already is left out."""
        kept = {tuple(row[name] for name in table.key): tuple(row) for row in self._rows(table)}
        places = [table.names.index(name) for name in table.key]
        for row in rows:
            kept.setdefault(tuple(row[place] for place in places), row)
        frame = self.spark.createDataFrame(list(kept.values()), table.spark())
        self.replace_bronze(table, frame)

    def _rows(self, table: schema.Table) -> list[Row]:
        return self.read_bronze(table).collect()

    def use_bronze_of(self, other: Store) -> None:
        """Read bronze from where another run keeps it; what is added still comes here."""
        self._bronze = other.path("bronze")
        self._coverage = other.path("tables", schema.COVERAGE.name)

    def coverage_of_bronze(self) -> Row | None:
        """What the run that read this bronze said of itself in `schema.COVERAGE`."""
        if not self.has(self._coverage):
            return None
        return self.spark.read.schema(schema.COVERAGE.spark()).parquet(self._coverage).first()

    def write_coverage(self, frame: DataFrame) -> None:
        """Write `schema.COVERAGE`: a row, in Parquet whatever the format of the tables is."""
        _write_parquet(frame.coalesce(1), self.path("tables", schema.COVERAGE.name))

    def replace_bronze(self, table: schema.Table, frame: DataFrame) -> None:
        """Put a small table in the place of what was kept of it."""
        staging = self.path(_STAGING, table.name)
        _write_parquet(frame.select(table.names).coalesce(1), staging)
        folder = self.path("bronze", table.name)
        self._call(folder, lambda files, place: files.delete(place, True))
        self._rename(staging, f"{folder}/{_BATCH}=0")

    def write_table(self, table: schema.Table, frame: DataFrame) -> None:
        """Write a made table over the one before; ValueError when its columns are not its own."""
        actual = [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
        wanted = [(field.name, field.dataType.simpleString()) for field in table.spark().fields]
        if actual != wanted:
            raise ValueError(f"table {table.name} was made with columns {actual}, not {wanted}")
        writer = frame.write.mode("overwrite").format(self._format)
        if table.partitioned_by:
            writer = writer.partitionBy(*table.partitioned_by)
        writer.save(self.path("tables", table.name))

    def folder_for_files(self) -> Path | None:
        """An empty folder below `out` for files of tables; None where only Spark can write them."""
        if self._format != PARQUET:
            return None
        return self._empty_folder(self.path(_STAGING, "tables"))

    def _empty_folder(self, path: str) -> Path | None:
        """A folder at a path; None if that is not of the machine's own file system."""
        place = self._place(path)
        files = place.getFileSystem(self.spark._jsc.hadoopConfiguration())
        if files.getUri().getScheme() != "file":
            return None
        folder = Path(files.makeQualified(place).toUri().getPath())
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def put_table(self, table: schema.Table, folder: Path) -> None:
        """Put the files that were written into such a folder in the place of a table."""
        staged = folder / table.name
        if not staged.exists():
            write_no_rows(table, staged)
        target = self.path("tables", table.name)
        self._call(target, lambda files, place: files.delete(place, True))
        self._rename(str(staged), target)

    def _rename(self, source: str, target: str) -> None:
        parent = target.rpartition("/")[0]
        self._call(parent, lambda files, place: files.mkdirs(place))
        moved = self._call(source, lambda files, place: files.rename(place, self._place(target)))
        if not moved:
            raise OSError(f"{source} could not be renamed to {target}")

    def _place(self, path: str) -> Any:
        java: Any = self.spark._jvm
        return java.org.apache.hadoop.fs.Path(path)

    def _call(self, path: str, deed: Callable[[Any, Any], Any]) -> Any:
        """Do something at a path with Hadoop's file system of that path."""
        place = self._place(path)
        configuration = self.spark._jsc.hadoopConfiguration()
        return deed(place.getFileSystem(configuration), place)
