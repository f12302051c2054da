"""All tables from bronze, shard by shard: Spark brings together what belongs together.

Rows of the offsets log meet in two ways: with the records of a (topic, partition), and with the
other rows of their group. So there are two passes. In the first a shard holds some partitions, with
all records and commits of each, and what is `by_partition` is made; in the second it holds some
groups, with all that the log says of each and what the first pass found out about their readers.
Within a shard tables are made by Polars, in Spark's Python workers.

Bronze comes as files, and what goes from pass to pass goes in pieces: many rows of one frame in
Arrow's stream format. Spark moves both as they are.
"""

from __future__ import annotations

import io
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import polars as pl
import pyarrow as pa
from pyspark.sql import functions as sql

from pipeline import schema
from pipeline.decode.kinds import COMMIT
from pipeline.inputs import Bronze, Questions
from pipeline.schema.arrow import arrow_schema, polars_schema
from pipeline.tables import makers
from pipeline.tables.kept import BY_PARTITION
from pipeline.tables.positions import SPARK_GROUP_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipeline.store import Store

ROWS_PER_SHARD = 250_000
"""What a worker makes tables of at once, in some hundred MB; more is one group's or partition's."""

_MAKERS = makers()  # importing all tables fills BY_PARTITION
_ROWS_PER_PIECE = 50_000
_PIECES = "shard int, name string, count bigint, rows binary"
_PIECES_ARROW = pa.schema(
    [("shard", pa.int32()), ("name", pa.string()), ("count", pa.int64()), ("rows", pa.binary())]
)
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
)
"""What the first pass knows of a commit."""

_GROUP = pl.col("group")
_GROUP_OF_QUERY = SPARK_GROUP_PREFIX + pl.col("query_id")
_PARTITION = pl.concat_str("topic", "partition", separator="-")
_IS_COMMIT = (pl.col("kind") == COMMIT) & pl.col("problem").is_null()

Batches = Iterable[pa.RecordBatch]


class _Part(NamedTuple):
    """Rows of a bronze table that a pass wants: with a key that says where they meet."""

    table: schema.Table
    key: pl.Expr
    group: pl.Expr | None
    columns: Sequence[str] | None = None
    where: pl.Expr | None = None


_BY_PARTITION = (
    _Part(schema.OFFSETS_LOG, _PARTITION, _GROUP, _OF_COMMITS, _IS_COMMIT),
    _Part(schema.TOPIC_RECORDS, _PARTITION, None),
    _Part(schema.PARTITION_ENDS, _PARTITION, None),
    _Part(schema.SPARK_PROGRESS, _PARTITION, _GROUP_OF_QUERY),
)
_BY_GROUP = (
    _Part(schema.OFFSETS_LOG, _GROUP, _GROUP),
    _Part(schema.GROUP_EVENTS, _GROUP, _GROUP),
    _Part(schema.SPARK_PROGRESS, _GROUP_OF_QUERY, _GROUP_OF_QUERY),
)


def shards_for(spark: SparkSession, rows: int) -> int:
    """How many shards `rows` of bronze are made into tables in."""
    return max(spark.sparkContext.defaultParallelism, math.ceil(rows / ROWS_PER_SHARD))


def make_pieces(store: Store, questions: Questions, groups: str | None, shards: int) -> DataFrame:
    """All tables in pieces, see `table_of`, from the bronze that a store keeps.

    `groups` is a regular expression for whole names: others are left out.
    """

    def first_pass(batches: Batches) -> Iterator[pa.RecordBatch]:
        for found in _by_shard(batches):
            yield from _make_by_partition(found, questions, shards)

    def second_pass(batches: Batches) -> Iterator[pa.RecordBatch]:
        for found in _by_shard(batches):
            yield from _make_tables(found, questions)

    by_partition = [_cut_bronze(store, part, groups, shards) for part in _BY_PARTITION]
    facts = _meet(by_partition, shards).mapInArrow(first_pass, _PIECES)
    by_group = [_cut_bronze(store, part, groups, shards) for part in _BY_GROUP]
    return _meet([*by_group, facts], shards).mapInArrow(second_pass, _PIECES)


def table_of(pieces: DataFrame, table: schema.Table) -> DataFrame:
    """The rows of one table out of what `make_pieces` gave."""
    wanted = arrow_schema(table)

    def unpack(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for rows in batch.column("rows"):
                yield from _unpacked(rows).to_arrow().cast(wanted).to_batches()

    of_table = pieces.where(sql.col("name") == table.name).select("rows")
    return of_table.mapInArrow(unpack, table.ddl)


def _cut_bronze(store: Store, part: _Part, groups: str | None, shards: int) -> DataFrame:
    """The rows of a part in pieces, each for the shard that its rows' key belongs to.

    Spark brings the files as they are: it would make each value an object of its own first.
    """

    def cut(batches: Batches) -> Iterator[pa.RecordBatch]:
        waiting: list[pl.DataFrame] = []
        for batch in batches:
            for content in batch.column("content"):
                waiting.append(_read(content.as_py(), part, groups))
                if sum(map(len, waiting)) >= _ROWS_PER_PIECE:
                    yield from _cut(pl.concat(waiting), part.table.name, part.key, shards)
                    waiting.clear()
        if waiting:
            yield from _cut(pl.concat(waiting), part.table.name, part.key, shards)

    return store.bronze_files(part.table).mapInArrow(cut, _PIECES)


def _read(content: bytes, part: _Part, groups: str | None) -> pl.DataFrame:
    """The rows of a file that a part wants."""
    columns = part.columns or part.table.names
    found = pl.read_parquet(io.BytesIO(content), columns=list(columns), hive_partitioning=False)
    if part.where is not None:
        found = found.filter(part.where)
    if groups is None or part.group is None:
        return found
    of_row = found.select(part.group).to_series()
    wanted = [one for one in of_row.unique() if one is None or re.fullmatch(groups, one)]
    return found.filter(of_row.is_in(wanted, nulls_equal=True))


def _cut(frame: pl.DataFrame, name: str, key: pl.Expr, shards: int) -> Iterator[pa.RecordBatch]:
    keyed = frame.with_columns(key.alias("_key"))
    keys = keyed.get_column("_key").unique()
    homes = pl.DataFrame(
        {"_key": keys, "_shard": [crc32((one or "").encode()) % shards for one in keys]},
        schema_overrides={"_shard": pl.Int32},
    )
    homed = keyed.join(homes, on="_key", how="left", nulls_equal=True).drop("_key")
    for (shard,), rows in homed.partition_by("_shard", as_dict=True, include_key=False).items():
        yield from _packed(shard, name, rows)


def _packed(shard: int, name: str, frame: pl.DataFrame) -> Iterator[pa.RecordBatch]:
    """Pieces of a frame, one even if it has no rows; a batch each, for they are large."""
    for some in frame.iter_slices(_ROWS_PER_PIECE) if len(frame) else [frame]:
        packed = io.BytesIO()
        some.write_ipc_stream(packed, compression="lz4")
        columns = [[shard], [name], [len(some)], [packed.getvalue()]]
        yield pa.RecordBatch.from_arrays(
            [pa.array(one, field.type) for one, field in zip(columns, _PIECES_ARROW, strict=True)],
            schema=_PIECES_ARROW,
        )


def _unpacked(rows: pa.BinaryScalar) -> pl.DataFrame:
    return pl.read_ipc_stream(io.BytesIO(rows.as_py()))


def _meet(pieces: list[DataFrame], shards: int) -> DataFrame:
    """The pieces of all frames, those of a shard in one place."""
    return reduce(lambda one, other: one.unionAll(other), pieces).repartitionById(shards, "shard")


def _by_shard(batches: Batches) -> Iterator[dict[str, pl.DataFrame]]:
    """The whole frames of each shard that came here, by name."""
    shards: defaultdict[int, defaultdict[str, list[pl.DataFrame]]]
    shards = defaultdict(lambda: defaultdict(list))
    for batch in batches:
        for shard, name, rows in zip(*(batch.column(one) for one in (0, 1, 3)), strict=True):
            shards[shard.as_py()][name.as_py()].append(_unpacked(rows))
    while shards:
        _, found = shards.popitem()
        yield {name: pl.concat(frames, rechunk=True) for name, frames in found.items()}


def _bronze(found: Mapping[str, pl.DataFrame]) -> Bronze:
    """The bronze of a shard; columns that did not come are null."""
    return Bronze(**{table.name: _whole(found.get(table.name), table) for table in schema.BRONZE})


def _whole(frame: pl.DataFrame | None, table: schema.Table) -> pl.LazyFrame:
    wanted = polars_schema(table)
    if frame is None:
        return pl.LazyFrame(schema=wanted)
    missing = [pl.lit(None, wanted[name]).alias(name) for name in set(wanted) - set(frame.columns)]
    return frame.lazy().with_columns(*missing).select(table.names)


def _make_by_partition(
    found: Mapping[str, pl.DataFrame], questions: Questions, shards: int
) -> Iterator[pa.RecordBatch]:
    bronze = _bronze(found)
    for name, make in BY_PARTITION.items():
        made = make(bronze, questions).collect()
        if "group" in made.columns:
            yield from _cut(made, name, _GROUP, shards)
        else:
            for shard in range(shards):
                yield from _packed(shard, name, made)


def _make_tables(
    found: Mapping[str, pl.DataFrame], questions: Questions
) -> Iterator[pa.RecordBatch]:
    bronze, nothing = _bronze(found), _bronze({})
    for name, make in BY_PARTITION.items():
        if name in found:
            kept = found[name]
        else:
            kept = make(nothing, questions).collect()
        bronze.made[name, questions] = kept
    for table, make in _MAKERS:
        yield from _packed(0, table.name, make(bronze, questions).collect())
