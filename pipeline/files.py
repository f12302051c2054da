"""Parquet files, written by Spark's workers themselves.

Spark would take ten times as long: it makes a row of each value first, and a value of each row.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import schema
from pipeline.pieces import gathered
from pipeline.schema.arrow import arrow_schema, polars_schema

ROWS_PER_FILE = 250_000
"""Of bronze, of which files are read as a whole."""

_NULL = "__HIVE_DEFAULT_PARTITION__"
"""How Spark names the folder of no value."""


def write_rows(table: schema.Table, rows: pl.DataFrame, folder: Path, name: str) -> None:
    """Write rows of a table as a Parquet file, or as one in the folder of each day; none if empty.

    A file is there whole or not at all, and writing it a second time changes nothing.
    """
    by = table.partitioned_by
    parts: dict[tuple[object, ...], pl.DataFrame] = {(): rows} if len(rows) else {}
    if by:
        parts = rows.partition_by(by, as_dict=True, include_key=False)
    for values, part in parts.items():
        named = zip(by, values, strict=True)
        place = folder.joinpath(*(f"{name}={_NULL if is_ is None else is_}" for name, is_ in named))
        place.mkdir(parents=True, exist_ok=True)
        _write(table, part, place, name)


def write_no_rows(table: schema.Table, folder: Path) -> None:
    """Write a file that says nothing but the columns, for a table without rows."""
    folder.mkdir(parents=True)
    empty = pl.DataFrame(schema=polars_schema(table)).drop(table.partitioned_by)
    _write(table, empty, folder, "part-00000.parquet")


def write_parts(
    table: schema.Table, frames: Iterable[pl.DataFrame], folder: Path, name: str
) -> None:
    """Write rows that come bit by bit as `name-0.parquet` and so on; no file if none come."""
    for number, rows in enumerate(gathered(frames, ROWS_PER_FILE)):
        if len(rows):
            _write(table, rows, folder, f"{name}-{number}.parquet")


def _write(table: schema.Table, rows: pl.DataFrame, folder: Path, name: str) -> None:
    wanted = pa.schema([arrow_schema(table).field(column) for column in rows.columns])
    begun = folder / f".{name}.{uuid4().hex}"
    pq.write_table(rows.to_arrow().cast(wanted), begun)
    begun.replace(folder / name)
