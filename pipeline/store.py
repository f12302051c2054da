"""The output folder of a run: bronze in atomic batches, and the tables in versions.

A batch of bronze is written to a staging folder and then renamed, so that it is complete or absent.
The name of a batch identifies its content, so that writing a batch twice changes nothing. Of a
bronze table that is replaced, the batch with the greatest number counts.

Each run writes all its tables to a new folder below `versions`. The marker `_complete` makes it the
current version; on a local file system, the symbolic link `tables` is then replaced. A version
stays for ten minutes after the next one, because readers may have it open.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from pipeline import schema
from pipeline.files import may_have_offsets, write_no_rows, write_parts
from pipeline.inputs import MINUTE_MS
from pipeline.merging import merge_batches, replaced_batches
from pipeline.pieces import PACKED, ArrowBatches, unpack_all, unpacked
from pipeline.sources.source import InputError
from pipeline.state import State, last_state

_BATCH = "batch"
_STAGING = "staging"
STATE = "state"
_TABLES, _VERSIONS = "tables", "versions"
_COMPLETE = "_complete"
_DELTA_LOG = "_delta_log"
_KEPT_MS = 10 * MINUTE_MS
"""How long a version stays after it was replaced."""
_REPLACED = (schema.OFFSET_TIMES, schema.PARTITION_ENDS, schema.SPARK_PROGRESS)
"""The bronze tables whose rows are replaced as a whole."""
_APPENDED = (schema.OFFSETS_LOG, schema.TOPIC_RECORDS, schema.GROUP_EVENTS, schema.SHARE_STATE)
"""The bronze tables to which runs add batches."""
PARQUET = "parquet"
DELTA = "delta"
DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Delta's log of a table has few lines, but by default Delta reads it in fifty tasks.
    "spark.databricks.delta.snapshotPartitions": "2",
}


@dataclass
class Reads:
    """What a run has read: bytes of keys and values of records, and requests for times."""

    size_bytes: int = 0
    requests: int = 0


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
    """The folders below `out`, a path of any Spark file system (local, HDFS, object store)."""

    def __init__(self, spark: SparkSession, out: str, table_format: str = PARQUET) -> None:
        self.spark = spark
        self.out = out.rstrip("/")
        self._format = table_format
        self._bronze = self.path("bronze")
        self._of_bronze = self
        self._version: str | None = None
        self.reads = Reads()

    def path(self, *names: str) -> str:
        """Return a path below the output folder."""
        return "/".join((self.out, *names))

    def has(self, path: str) -> bool:
        """Return whether a file or folder exists at the path."""
        return bool(self._call(path, lambda files, place: files.exists(place)))

    def read_text(self, path: str) -> str | None:
        """Return the content of a small file; None if it does not exist."""
        if not self.has(path):
            return None
        java: Any = self.spark._jvm
        stream = self._call(path, lambda files, place: files.open(place))
        try:
            return str(java.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write_text(self, path: str, text: str) -> None:
        """Write a small file, or replace it. A kill leaves the old file, the new one or none."""
        folder, _, name = path.rpartition("/")
        staging = f"{folder}/_{name}.new"
        stream = self._call(staging, lambda files, place: files.create(place, True))
        stream.write(bytearray(text.encode()))
        stream.close()
        self._delete(path)
        self._rename(staging, path)

    def has_bronze(self, table: schema.Table) -> bool:
        """Return whether the folder of a bronze table exists."""
        return self.has(self._folder(table))

    def _folder(self, table: schema.Table) -> str:
        folder = f"{self._bronze}/{table.name}"
        numbers = self._numbers(folder, f"{_BATCH}=") if table in _REPLACED else []
        return f"{folder}/{_BATCH}={max(numbers)}" if numbers else folder

    def _names(self, folder: str) -> list[str]:
        """Return the names in a folder; none if it does not exist."""
        if not self.has(folder):
            return []
        listed = self._call(folder, lambda files, place: files.listStatus(place))
        return [str(status.getPath().getName()) for status in listed]

    def _numbers(self, folder: str, before: str = "") -> list[str]:
        """Return the names in a folder that are numbers after `before`, without `before`.

        Programs of the desktop leave files such as `.DS_Store`.
        """
        numbers = (name.removeprefix(before) for name in self._names(folder))
        return [number for number in numbers if number.isdecimal()]

    def read_bronze(self, table: schema.Table) -> DataFrame:
        """Return all batches of a bronze table; an empty frame if there are none."""
        if not self.has_bronze(table):
            return self.nothing(table)
        return self._read_parquet(table, self._batches(table))

    def _read_parquet(self, table: schema.Table, folders: Sequence[str]) -> DataFrame:
        return self.spark.read.schema(table.spark()).parquet(*folders).select(table.names)

    def _batches(self, table: schema.Table) -> list[str]:
        """Return the folders with all rows of a bronze table."""
        folder = self._folder(table)
        if table in _REPLACED or not self._replaced(folder):
            return [folder]
        return [f"{folder}/{name}" for name in self.batch_names(table)]

    def batch_names(self, table: schema.Table) -> list[str]:
        """Return the names of the batches of a bronze table that have its rows."""
        folder = self._folder(table)
        away = self._replaced(folder)
        names = [name for name in self._names(folder) if name.startswith(f"{_BATCH}=")]
        return [name for name in names if name not in away]

    def _replaced(self, path: str) -> set[str]:
        folder = self._local(path)
        return set() if folder is None else replaced_batches(folder)

    @property
    def states(self) -> Path | None:
        """Return the folder of states; None if Spark writes the tables, or bronze is another's."""
        if self._format != PARQUET or self.reads_other_bronze:
            return None
        return self._local(self.path(STATE))

    def state(self) -> State | None:
        """Return the last state; None if there is none, or no bronze from which it was made."""
        if self.states is None or not self.has_bronze(schema.OFFSETS_LOG):
            return None
        return last_state(self.states)

    def staging_for(self, name: str) -> Path | None:
        """Return an empty folder for files of a new state; None where there are no states."""
        return None if self.states is None else self._empty_folder(self.path(_STAGING, name))

    def new_batches(self, state: State | None) -> list[str]:
        """Return the folders of bronze with all rows of the offsets log after the state.

        They may have earlier rows as well.
        """
        known = set() if state is None else {*state.batches}
        names = self.batch_names(schema.OFFSETS_LOG)
        folder = self._folder(schema.OFFSETS_LOG)
        return [f"{folder}/{name}" for name in names if name not in known]

    def new_files(self, state: State | None, until: Mapping[int, int] | None) -> list[str]:
        """Return the files of `new_batches` that may have rows after the state, below `until`."""
        start = {} if state is None else state.next_offsets
        files = []
        for folder in self.new_batches(state):
            local = self._local(folder)
            assert local is not None  # there are states only where workers write
            for file in sorted(local.rglob("*.parquet")):
                if may_have_offsets(file, start, until or {}):
                    files.append(f"{folder}/{file.relative_to(local)}")
        return files

    def log_of(self, state: State) -> str:
        """Return the folder of the reduced rows of a state."""
        return self.path(STATE, Path(state.folder).name, schema.OFFSETS_LOG.name)

    def read_new(self, state: State | None) -> DataFrame:
        """Return the rows of the offsets log after the state."""
        if state is None:
            return self.read_bronze(schema.OFFSETS_LOG)
        batches = self.new_batches(state)
        if not batches:
            return self._nothing(
                {column.name: column.type for column in schema.OFFSETS_LOG.columns}
            )
        known = F.create_map(*map(F.lit, chain(*state.next_offsets.items())))
        start = F.coalesce(known[F.col("log_partition")], F.lit(0))
        return self._read_parquet(schema.OFFSETS_LOG, batches).where(F.col("log_offset") >= start)

    def read_log(self, state: State | None) -> DataFrame:
        """Return the rows of the offsets log that tables need: the state's and those after it."""
        if state is None:
            return self.read_new(None)
        kept = self._read_parquet(schema.OFFSETS_LOG, [self.log_of(state)])
        return kept.unionAll(self.read_new(state))

    def merge_bronze(self) -> None:
        """Merge small batches of bronze, if workers can write there."""
        for table in _APPENDED if self.states is not None else ():
            if (folder := self._local(self._folder(table))) is not None:
                merge_batches(folder, folder.parents[1] / _STAGING / "merged", table)

    def nothing(self, table: schema.Table) -> DataFrame:
        """Return a table without rows."""
        return self._nothing({column.name: column.type for column in table.columns})

    def _nothing(self, columns: Mapping[str, str]) -> DataFrame:
        """Return an empty frame that Spark's optimizer recognizes as empty."""
        nulls = (f"CAST(NULL AS {kind}) AS `{name}`" for name, kind in columns.items())
        return self.spark.range(1).where("false").selectExpr(*nulls)

    def bronze_files(self, table: schema.Table) -> DataFrame:
        """Return the Parquet files of a bronze table: a frame with a column `content`."""
        return self.files_in(self._batches(table) if self.has_bronze(table) else [])

    def files_in(self, folders: Sequence[str]) -> DataFrame:
        """Return the Parquet files in folders: a frame with a column `content`."""
        if not folders:
            return self._nothing({"content": "binary"})
        files = self.spark.read.format("binaryFile").option("pathGlobFilter", "*.parquet")
        return files.option("recursiveFileLookup", "true").load([*folders]).select("content")

    def add_bronze(self, table: schema.Table, batch: str, frame: DataFrame) -> bool:
        """Store a batch; return False if a batch of this name exists already or there are no rows.

        Spark writes a file also without rows, and a stream calls this method every interval.
        """
        return self._add(table, batch, partial(_write_parquet, frame.select(table.names)))

    def add_packed_bronze(
        self, table: schema.Table, batch: str, packed: DataFrame, where: pl.Expr | None
    ) -> bool:
        """Like `add_bronze`, with packed rows (see `pipeline.pieces`) filtered by `where`."""

        def write(staging: str) -> None:
            if (folder := self._empty_folder(staging)) is not None:
                _write_by_workers(packed, table, where, folder)
            else:
                _write_parquet(unpacked(packed, table, where), staging)

        return self._add(table, batch, write)

    def _add(self, table: schema.Table, batch: str, write: Callable[[str], None]) -> bool:
        target = self.path("bronze", table.name, f"{_BATCH}={batch}")
        if self.has(target):
            return False
        staging = self.path(_STAGING, table.name, batch)
        write(staging)
        if has_rows := self._has_rows(table, staging):
            self._rename(staging, target)
        else:
            self._delete(staging)
        return has_rows

    def _has_rows(self, table: schema.Table, folder: str) -> bool:
        """Return whether Parquet files have rows, and add the bytes of their records to `reads`."""
        rows = self.spark.read.schema(table.spark()).parquet(folder)
        size = F.sum("record_bytes") if "record_bytes" in table.names else F.lit(0)
        count, size_bytes = rows.agg(F.count("*"), size).first() or (0, 0)
        self.reads.size_bytes += size_bytes or 0
        return count > 0

    def add_bronze_rows(self, table: schema.Table, rows: Sequence[tuple[object, ...]]) -> None:
        """Add a few rows to a small table, except rows whose key the table has already."""
        kept = {tuple(row[name] for name in table.key): tuple(row) for row in self._rows(table)}
        places = [table.names.index(name) for name in table.key]
        for row in rows:
            kept.setdefault(tuple(row[place] for place in places), row)
        frame = self.spark.createDataFrame(list(kept.values()), table.spark())
        self.replace_bronze(table, frame)

    def _rows(self, table: schema.Table) -> list[Row]:
        return self.read_bronze(table).collect()

    def use_bronze_of(self, other: Store) -> None:
        """Read bronze from the store of another run; new batches still go to this store."""
        self._bronze = other.path("bronze")
        self._of_bronze = other

    @property
    def reads_other_bronze(self) -> bool:
        """Return whether bronze is that of another run, so that this run reads no input."""
        return self._of_bronze is not self

    def coverage_of_bronze(self) -> Row | None:
        """Return the `schema.COVERAGE` of the run that read this bronze; None if it has none."""
        path = f"{self._of_bronze.tables}/{schema.COVERAGE.name}"
        if not self.has(path):
            return None
        return self.spark.read.schema(schema.COVERAGE.spark()).parquet(path).first()

    def write_coverage(self, frame: DataFrame) -> None:
        """Write the one-row table `schema.COVERAGE`, in Parquet for every format of the tables."""
        _write_parquet(frame.coalesce(1), f"{self.tables}/{schema.COVERAGE.name}")

    def replace_bronze(self, table: schema.Table, frame: DataFrame) -> None:
        """Replace all rows of a small bronze table, one of `_REPLACED`."""
        staging = self.path(_STAGING, table.name)
        _write_parquet(frame.select(table.names).coalesce(1), staging)
        folder = self.path("bronze", table.name)
        before = self._names(folder)
        number = 1 + max(map(int, self._numbers(folder, f"{_BATCH}=")), default=0)
        self._rename(staging, f"{folder}/{_BATCH}={number:012}")
        for name in before:
            self._delete(f"{folder}/{name}")

    def read_table(self, table: schema.Table) -> DataFrame:
        """Return a table as last written."""
        reader = self.spark.read.schema(table.spark()).format(self._format)
        if self._format == DELTA:
            reader = self.spark.read.format(DELTA)
        return reader.load(f"{self.tables}/{table.name}").select(table.names)

    def write_table(self, table: schema.Table, frame: DataFrame) -> None:
        """Overwrite a table. Raises ValueError if the frame's columns are not the table's."""
        actual = [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
        wanted = [(field.name, field.dataType.simpleString()) for field in table.spark().fields]
        if actual != wanted:
            raise ValueError(f"table {table.name} was made with columns {actual}, not {wanted}")
        writer = frame.write.mode("overwrite").format(self._format)
        if table.partitioned_by:
            writer = writer.partitionBy(*table.partitioned_by)
        writer.save(f"{self.tables}/{table.name}")

    @property
    def tables(self) -> str:
        """Return the folder of the current tables; within `new_tables`, that of the new ones."""
        if self._version is not None:
            return self.path(_VERSIONS, self._version)
        current = self._current() if self._format == PARQUET else None
        return self.path(_TABLES) if current is None else self.path(_VERSIONS, current)

    def _current(self) -> str | None:
        """Return the version of the current tables: the linked one, or the last complete one."""
        folder = self._local(self.out)
        if folder is not None and (folder / _TABLES).is_symlink():
            return (folder / _TABLES).readlink().name
        names = self._numbers(self.path(_VERSIONS))
        complete = [name for name in names if self.has(self.path(_VERSIONS, name, _COMPLETE))]
        return max(complete, default=None)

    @contextmanager
    def new_tables(self) -> Iterator[None]:
        """Write tables to a new version, which becomes the current one when the body has ended.

        Delta has versions of its own: its tables are replaced one by one.
        """
        if self._format != PARQUET:
            yield
            return
        number = 1 + max(map(int, self._numbers(self.path(_VERSIONS))), default=0)
        self._version = version = f"{number:012}"
        try:
            yield
            self.write_text(f"{self.tables}/{_COMPLETE}", "")
            self._point_to(version)
        finally:
            self._version = None
        for name in self._outdated():
            self._delete(self.path(_VERSIONS, name))

    def _outdated(self) -> list[str]:
        """Return versions that were replaced `_KEPT_MS` ago, and those of runs that were killed."""
        names = sorted(self._numbers(self.path(_VERSIONS)))
        marks = {name: self.path(_VERSIONS, name, _COMPLETE) for name in names}
        complete = [name for name in names if self.has(marks[name])]
        before_ms = time.time_ns() // 1_000_000 - _KEPT_MS
        kept = {
            name
            for name, following in pairwise(complete)
            if self._modified_ms(marks[following]) > before_ms
        }
        return [name for name in names if name not in kept and name not in complete[-1:]]

    def _modified_ms(self, path: str) -> int:
        status = self._call(path, lambda files, place: files.getFileStatus(place))
        return int(status.getModificationTime())

    def check_format(self) -> None:
        """Raise InputError if the tables have the other format: one would destroy the other."""
        is_delta = any(
            self.has(self.path(_TABLES, table.name, _DELTA_LOG)) for table in schema.TABLES
        )
        is_parquet = not is_delta and self.has(self.path(_TABLES, schema.LAG.name))
        if is_delta and self._format == PARQUET:
            raise InputError(
                f"--out {self.out}: its tables are Delta: use --format delta, or another --out"
            )
        if self._format == DELTA and (is_parquet or self._current() is not None):
            raise InputError(
                f"--out {self.out}: its tables are Parquet: name another --out for --format delta"
            )

    def _point_to(self, version: str) -> None:
        """Replace the symbolic link `tables`, where the file system has symbolic links.

        Elsewhere, tables of an older release are removed, as readers would take them for current.
        """
        folder = self._local(self.out)
        if folder is None or os.name != "posix":
            self._delete(self.path(_TABLES))
            return
        link, new = folder / _TABLES, folder / f".{_TABLES}.{version}"
        if link.is_dir() and not link.is_symlink():  # an older release wrote a folder
            link.rename(folder / _VERSIONS / f"{0:012}")
        for stale in folder.glob(f".{_TABLES}.*"):  # left by runs that were killed
            stale.unlink()
        new.symlink_to(Path(_VERSIONS, version))
        new.replace(link)

    def folder_for_files(self) -> Path | None:
        """Return an empty folder for tables below `out`; None if only Spark can write there."""
        if self._format != PARQUET or self._local(self.out) is None:
            return None
        return self._empty_folder(self.tables)

    def _empty_folder(self, path: str) -> Path | None:
        """Empty or create the folder and return it; None if it is not in the local file system."""
        folder = self._local(path)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        return folder

    def _local(self, path: str) -> Path | None:
        """Return a path of the local file system; None for other file systems."""
        place = self._place(path)
        files = place.getFileSystem(self.spark._jsc.hadoopConfiguration())
        if files.getUri().getScheme() != "file":
            return None
        return Path(files.makeQualified(place).toUri().getPath())

    def put_table(self, table: schema.Table, folder: Path) -> None:
        """Complete the files of a table in `folder`, a folder of `folder_for_files`."""
        if not (folder / table.name).exists():
            write_no_rows(table, folder / table.name)

    def _delete(self, path: str) -> None:
        self._call(path, lambda files, place: files.delete(place, True))

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
        """Call `deed` with the path and Hadoop's file system for it, and return its result."""
        place = self._place(path)
        configuration = self.spark._jsc.hadoopConfiguration()
        return deed(place.getFileSystem(configuration), place)
