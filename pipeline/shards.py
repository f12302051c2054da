"""Compute all tables from bronze, shard by shard.

A row of the offsets log is needed in two combinations: with the records of its (topic, partition),
and with the other rows of its group. There are therefore two passes. In the first, a shard has some
partitions with all their records and commits, and the functions marked `by_partition` run. In the
second, a shard has some groups with all their rows of the log and the results of the first pass for
their readers. Within a shard, Polars computes the tables in Spark's Python workers.

Bronze is read as whole files; rows move between the passes in pieces (`pipeline.pieces`).
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import polars as pl
import pyarrow as pa
from pyspark.sql import functions as sql

from pipeline import schema
from pipeline.decode.kinds import COMMIT
from pipeline.files import completed, write_rows
from pipeline.inputs import Bronze, Questions, merged
from pipeline.pieces import (
    PIECES,
    ROWS_PER_PIECE,
    ArrowBatches,
    by_shard,
    cut,
    gathered,
    meet,
    pack,
    unpacked,
)
from pipeline.reduction import reduced
from pipeline.schema.arrow import polars_schema
from pipeline.state import State
from pipeline.tables import makers, offset_commits
from pipeline.tables.kept import BY_PARTITION
from pipeline.tables.positions import SPARK_GROUP_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipeline.store import Store

ROWS_PER_SHARD = 250_000
"""The target size of a shard, which takes some hundred MB. A shard with a larger group or partition
exceeds this size."""

_MAKERS = makers()  # importing all table modules fills BY_PARTITION
_OF_COMMITS = (
    "log_partition",
    "log_offset",
    "log_timestamp_ms",
    "kind",
    "tombstone",
    "group",
    "topic",
    "partition",
    "committed_offset",
    "leader_epoch",
    "metadata",
    "commit_timestamp_ms",
    "expire_timestamp_ms",
    "topic_id",
    "problem",
    "earlier_commits",
)
"""The columns of commits that the first pass needs."""

_NEVER = 2**63 - 1
_GROUP = pl.col("group")
_GROUP_OF_QUERY = SPARK_GROUP_PREFIX + pl.col("query_id")
_PARTITION = pl.concat_str("topic", "partition", separator="-")
_IS_COMMIT = (pl.col("kind") == COMMIT) & pl.col("problem").is_null()


class _Part(NamedTuple):
    """The rows of a bronze table that a pass needs; `key` determines their shard."""

    table: schema.Table
    key: pl.Expr
    group: pl.Expr | None
    columns: Sequence[str] | None = None
    where: pl.Expr | None = None

    def with_rows(self, where: pl.Expr) -> _Part:
        """Return the part with those of its rows for which `where` holds."""
        return self._replace(where=where if self.where is None else self.where & where)


_BY_PARTITION = (
    _Part(schema.OFFSETS_LOG, _PARTITION, _GROUP, _OF_COMMITS, _IS_COMMIT),
    _Part(schema.TOPIC_RECORDS, _PARTITION, None),
    _Part(schema.OFFSET_TIMES, _PARTITION, None),
    _Part(schema.PARTITION_ENDS, _PARTITION, None),
    _Part(schema.SHARE_STATE, _PARTITION, _GROUP),
    _Part(schema.SPARK_PROGRESS, _PARTITION, _GROUP_OF_QUERY),
)
_BY_GROUP = (
    _Part(schema.OFFSETS_LOG, _GROUP, _GROUP),
    _Part(schema.GROUP_EVENTS, _GROUP, _GROUP),
    _Part(schema.SHARE_STATE, _GROUP, _GROUP),
    _Part(schema.SPARK_PROGRESS, _GROUP_OF_QUERY, _GROUP_OF_QUERY),
)


def shards_for(spark: SparkSession, rows: int) -> int:
    """Return the number of shards for `rows` of bronze: a multiple of the processors."""
    processors = spark.sparkContext.defaultParallelism
    return processors * max(1, math.ceil(rows / ROWS_PER_SHARD / processors))


class Work(NamedTuple):
    """The tables to compute.

    `groups` is a regular expression for whole group names; other groups are left out. With `state`,
    the log consists of the state's rows and the rows after it, and only events after it are made.
    `until` has the first offsets of the log, by partition, that do not count; null for none.
    """

    questions: Questions
    groups: str | None
    shards: int
    state: State | None = None
    until: Mapping[int, int] | None = None

    @property
    def since_ms(self) -> int:
        """Return the begin of the window."""
        return self.questions.at_ms - self.questions.window_ms

    @property
    def is_new(self) -> pl.Expr:
        """Return whether a row of the log comes after the state and counts."""
        at = pl.col("log_offset")
        start = _bound({} if self.state is None else self.state.next_offsets, 0)
        return (at >= start) & (at < _bound(self.until or {}, _NEVER))


def _bound(offsets: Mapping[int, int], default: int) -> pl.Expr:
    """Return the offset of a row's partition of the log."""
    if not offsets:
        return pl.lit(default, pl.Int64)
    number = pl.col("log_partition")
    return number.replace_strict(offsets, default=default, return_dtype=pl.Int64)


def make_pieces(store: Store, work: Work) -> DataFrame:
    """Compute all tables from the bronze of a store, in pieces (see `table_of`)."""

    def make(batches: ArrowBatches) -> Iterator[pa.RecordBatch]:
        for shard, frames in by_shard(batches):
            for table, rows in _tables(frames, work):
                yield from pack(shard, table.name, rows)

    return _by_group(store, work).mapInArrow(make, PIECES)


def table_of(pieces: DataFrame, table: schema.Table) -> DataFrame:
    """Return the rows of one table from the pieces of `make_pieces`."""
    return unpacked(pieces.where(sql.col("name") == table.name).select("rows"), table)


def make_files(
    store: Store, work: Work, folder: Path, state_folder: Path | None = None
) -> dict[str, int]:
    """Write all tables as Parquet below a folder that all workers see; return their row counts.

    The rows are the same as those of `make_pieces`. Each table with rows has a folder. With
    `state_folder`, the reduced log is written there; its count has the name of that table.
    """

    def rows_of(frames: Mapping[str, pl.DataFrame]) -> Iterator[tuple[schema.Table, pl.DataFrame]]:
        yield from _tables(frames, work)
        log = frames.get(schema.OFFSETS_LOG.name)
        if state_folder is not None and log is not None:
            yield schema.OFFSETS_LOG, reduced(log.lazy(), work.since_ms).collect()

    def make(batches: ArrowBatches) -> Iterator[pa.RecordBatch]:
        for shard, frames in by_shard(batches):
            for table, rows in rows_of(frames):
                below = folder if state_folder is None or table in schema.TABLES else state_folder
                write_rows(table, rows, below / table.name, f"part-{shard:05}.parquet")
                yield pa.record_batch([[table.name], [len(rows)]], names=["name", "count"])

    counts = _by_group(store, work).mapInArrow(make, "name string, count bigint")
    return dict(counts.groupBy("name").agg(sql.sum("count")).collect())


def advance(store: Store, work: Work, folder: Path, state_folder: Path) -> dict[str, int]:
    """Write `offset_commits` and the reduced log of the rows of `work`, but no other table.

    Return the row counts as `make_files` does. A worker holds only the rows up to `work.until`.
    """

    def make(batches: ArrowBatches) -> Iterator[pa.RecordBatch]:
        for shard, frames in by_shard(batches):
            log = _bronze(frames)
            events = offset_commits.make(log, work.questions).filter(work.is_new)
            kept = reduced(log.offsets_log, work.since_ms)
            made = (
                (schema.OFFSET_COMMITS, folder, events),
                (schema.OFFSETS_LOG, state_folder, kept),
            )
            for table, below, lazy in made:
                rows = lazy.collect()
                write_rows(table, rows, below / table.name, f"part-{shard:05}.parquet")
                yield pa.record_batch([[table.name], [len(rows)]], names=["name", "count"])

    pieces = _cut_bronze(store, _BY_GROUP[0], work)
    counts = meet(pieces, work.shards).mapInArrow(make, "name string, count bigint")
    return dict(counts.groupBy("name").agg(sql.sum("count")).collect())


def _by_group(store: Store, work: Work) -> DataFrame:
    """Run the first pass; return its pieces and those of bronze, by shard of the second pass."""

    def make(batches: ArrowBatches) -> Iterator[pa.RecordBatch]:
        for _, frames in by_shard(batches):
            yield from _make_by_partition(frames, work.questions, work.shards)

    by_partition = [pieces for part in _BY_PARTITION for pieces in _cut_bronze(store, part, work)]
    facts = meet(by_partition, work.shards).mapInArrow(make, PIECES)
    by_group = [pieces for part in _BY_GROUP for pieces in _cut_bronze(store, part, work)]
    return meet([*by_group, facts], work.shards)


def _cut_bronze(store: Store, part: _Part, work: Work) -> list[DataFrame]:
    """Return the rows of a part in pieces; the rows' key determines the shard."""
    if part.table != schema.OFFSETS_LOG or (work.state is None and work.until is None):
        return [_cut_files(store.bronze_files(part.table), part, work)]
    new = store.files_in(store.new_files(work.state, work.until))
    pieces = [_cut_files(new, part.with_rows(work.is_new), work)]
    if work.state is not None:
        pieces.append(_cut_files(store.files_in([store.log_of(work.state)]), part, work))
    return pieces


def _cut_files(files: DataFrame, part: _Part, work: Work) -> DataFrame:
    """Cut the rows of Parquet files.

    Spark reads the files as bytes, because reading their rows would create an object per value.
    """
    groups, shards = work.groups, work.shards

    def cut_files(batches: ArrowBatches) -> Iterator[pa.RecordBatch]:
        contents = (content for batch in batches for content in batch.column("content"))
        read = (_read(content.as_py(), part, groups) for content in contents)
        for rows in gathered(read, ROWS_PER_PIECE):
            yield from cut(rows, part.table.name, part.key, shards)

    return files.mapInArrow(cut_files, PIECES)


def _read(content: bytes, part: _Part, groups: str | None) -> pl.DataFrame:
    """Return the rows of a file that the part needs."""
    stored = pl.read_parquet_schema(io.BytesIO(content))  # old bronze may lack newer columns
    names = part.columns or part.table.names
    columns = [name for name in names if name in stored]
    rows = pl.read_parquet(io.BytesIO(content), columns=columns, hive_partitioning=False)
    rows = completed(rows.lazy(), part.table, names).collect()
    if part.where is not None:
        rows = rows.filter(part.where)
    if groups is None or part.group is None:
        return rows
    of_row = rows.select(part.group).to_series()
    matching = [group for group in of_row.unique() if group is None or re.fullmatch(groups, group)]
    return rows.filter(of_row.is_in(matching, nulls_equal=True))


def _bronze(frames: Mapping[str, pl.DataFrame]) -> Bronze:
    """Return the bronze of a shard, of existing topics only; missing columns are null."""
    whole = merged({table.name: _whole(frames.get(table.name), table) for table in schema.BRONZE})
    whole[schema.TOPIC_RECORDS.name] = whole[schema.TOPIC_RECORDS.name].collect().lazy()
    return Bronze(**whole)


def _whole(frame: pl.DataFrame | None, table: schema.Table) -> pl.LazyFrame:
    if frame is None:
        return pl.LazyFrame(schema=polars_schema(table))
    return completed(frame.lazy(), table, table.names)


def _make_by_partition(
    frames: Mapping[str, pl.DataFrame], questions: Questions, shards: int
) -> Iterator[pa.RecordBatch]:
    bronze = _bronze(frames)
    for name, make in BY_PARTITION.items():
        rows = make(bronze, questions).collect()
        if "group" in rows.columns:
            yield from cut(rows, name, _GROUP, shards)
        else:
            for shard in range(shards):
                yield from pack(shard, name, rows)


def _tables(
    frames: Mapping[str, pl.DataFrame], work: Work
) -> Iterator[tuple[schema.Table, pl.DataFrame]]:
    questions = work.questions
    bronze, nothing = _bronze(frames), _bronze({})
    for name, make in BY_PARTITION.items():
        kept = frames[name] if name in frames else make(nothing, questions).collect()
        bronze.results[name, questions] = kept
    for table, make in _MAKERS:
        rows = make(bronze, questions)
        if table == schema.OFFSET_COMMITS:
            rows = rows.filter(work.is_new)
        yield table, rows.collect()
