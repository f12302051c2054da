"""Packed rows: many rows of a frame as one value, which Spark moves without unpacking it.

Packed rows are rows of one frame in Arrow's stream format. Spark sees one row with a binary column
`rows`: it creates no object per value, and sorts and copies bytes. A piece is packed rows with the
name of their frame, their count and the number of their shard.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING
from zlib import crc32

import polars as pl
import pyarrow as pa

from pipeline.schema.arrow import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.schema import Table

ROWS_PER_PIECE = 50_000
PACKED = "rows binary"
PIECES = "shard int, name string, count bigint, rows binary"
_PIECES_ARROW = pa.schema(
    [("shard", pa.int32()), ("name", pa.string()), ("count", pa.int64()), ("rows", pa.binary())]
)

ArrowBatches = Iterable[pa.RecordBatch]


def cut(frame: pl.DataFrame, name: str, key: pl.Expr, shards: int) -> Iterator[pa.RecordBatch]:
    """Split a frame into pieces; the rows' `key`, a string, determines their shard."""
    keyed = frame.with_columns(key.alias("_key"))
    keys = keyed.get_column("_key").unique()
    homes = pl.DataFrame(
        {"_key": keys, "_shard": [crc32((key or "").encode()) % shards for key in keys]},
        schema_overrides={"_shard": pl.Int32},
    )
    homed = keyed.join(homes, on="_key", how="left", nulls_equal=True).drop("_key")
    for (shard,), rows in homed.partition_by("_shard", as_dict=True, include_key=False).items():
        yield from pack(shard, name, rows)


def pack(shard: int, name: str, frame: pl.DataFrame) -> Iterator[pa.RecordBatch]:
    """Yield a frame as pieces, one batch per piece as they are large; at least one piece."""
    for some in frame.iter_slices(ROWS_PER_PIECE) if len(frame) else [frame]:
        packed = io.BytesIO()
        some.write_ipc_stream(packed, compression="lz4")
        columns = [[shard], [name], [len(some)], [packed.getvalue()]]
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(column, field.type)
                for column, field in zip(columns, _PIECES_ARROW, strict=True)
            ],
            schema=_PIECES_ARROW,
        )


def pack_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a batch as packed rows."""
    packed = io.BytesIO()
    with pa.ipc.new_stream(packed, batch.schema) as stream:
        stream.write_batch(batch)
    return pa.record_batch([pa.array([packed.getvalue()], pa.binary())], names=["rows"])


def unpack(rows: pa.BinaryScalar) -> pl.DataFrame:
    """Return the rows of a piece."""
    return pl.read_ipc_stream(io.BytesIO(rows.as_py()))


def gathered(frames: Iterable[pl.DataFrame], rows_least: int) -> Iterator[pl.DataFrame]:
    """Concatenate frames so that each result, except the last, has at least `rows_least` rows."""
    waiting: list[pl.DataFrame] = []
    for frame in frames:
        waiting.append(frame)
        if sum(map(len, waiting)) >= rows_least:
            yield pl.concat(waiting)
            waiting.clear()
    if waiting:
        yield pl.concat(waiting)


def unpack_all(batches: ArrowBatches, where: pl.Expr | None = None) -> Iterator[pl.DataFrame]:
    """Yield a frame for each value of packed rows, filtered by `where`."""
    for batch in batches:
        for rows in batch.column("rows"):
            frame = unpack(rows)
            yield frame if where is None else frame.filter(where)


def unpacked(packed: DataFrame, table: Table, where: pl.Expr | None = None) -> DataFrame:
    """Return packed rows of a table as a Spark frame with the table's columns."""
    wanted = arrow_schema(table)

    def take_apart(batches: ArrowBatches) -> Iterator[pa.RecordBatch]:
        for rows in unpack_all(batches, where):
            yield from rows.to_arrow().cast(wanted).to_batches()

    return packed.mapInArrow(take_apart, table.ddl)


def meet(pieces: Sequence[DataFrame], shards: int) -> DataFrame:
    """Return all pieces, repartitioned so that those of a shard are in the same place."""
    return reduce(lambda piece, other: piece.unionAll(other), pieces).repartitionById(
        shards, "shard"
    )


def by_shard(batches: ArrowBatches) -> Iterator[tuple[int, dict[str, pl.DataFrame]]]:
    """Yield each shard of this worker's batches with its complete frames by name."""
    shards: defaultdict[int, defaultdict[str, list[pl.DataFrame]]]
    shards = defaultdict(lambda: defaultdict(list))
    for batch in batches:
        for shard, name, rows in zip(*(batch.column(column) for column in (0, 1, 3)), strict=True):
            shards[shard.as_py()][name.as_py()].append(unpack(rows))
    while shards:
        shard, frames_by_name = shards.popitem()
        yield (
            shard,
            {name: pl.concat(frames, rechunk=True) for name, frames in frames_by_name.items()},
        )
