"""Parquet files that Spark's Python workers write themselves.

Writing through Spark takes ten times as long, because Spark converts every value to a row first.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import schema
from pipeline.pieces import gathered
from pipeline.schema.arrow import arrow_schema, polars_schema

ROWS_PER_FILE = 250_000
"""The maximum number of rows in a file of bronze, as workers read a file as a whole."""

_NULL = "__HIVE_DEFAULT_PARTITION__"
"""Spark's name for the partition folder of null values."""


def write_rows(table: schema.Table, rows: pl.DataFrame, folder: Path, name: str) -> None:
    """Write rows of a table as a Parquet file, or one per day for tables in day folders.

    Nothing is written if there are no rows. A complete file is renamed into place, and a repeated
    write replaces it with the same content.
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
    """Write a Parquet file with the columns of a table and no rows."""
    folder.mkdir(parents=True)
    empty = pl.DataFrame(schema=polars_schema(table)).drop(table.partitioned_by)
    _write(table, empty, folder, "part-00000.parquet")


def write_parts(
    table: schema.Table, frames: Iterable[pl.DataFrame], folder: Path, name: str
) -> None:
    """Write frames to `name-0.parquet`, `name-1.parquet` and so on; no file if all are empty."""
    for number, rows in enumerate(gathered(frames, ROWS_PER_FILE)):
        if len(rows):
            _write(table, rows, folder, f"{name}-{number}.parquet")


def _write(table: schema.Table, rows: pl.DataFrame, folder: Path, name: str) -> None:
    wanted = pa.schema([arrow_schema(table).field(column) for column in rows.columns])
    begun = folder / f".{name}.{uuid4().hex}"
    pq.write_table(rows.to_arrow().cast(wanted), begun)
    begun.replace(folder / name)


def completed(frame: pl.LazyFrame, table: schema.Table, names: Sequence[str]) -> pl.LazyFrame:
    """Return the columns `names` of a frame; a column that the frame lacks is null."""
    wanted, present = polars_schema(table), set(frame.collect_schema())
    missing = (pl.lit(None, wanted[name]).alias(name) for name in names if name not in present)
    return frame.with_columns(*missing).select(names)


def may_have_offsets(file: Path, start: Mapping[int, int], end: Mapping[int, int]) -> bool:
    """Return False if no row of a file of the offsets log lies from `start` to below `end`.

    Both have offsets by partition; without one, there is no bound. The footer of the file decides,
    which is of use only if the file has rows of a single partition.
    """
    footer = pq.read_metadata(file)
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    names = [footer.schema.column(number).path for number in range(len(footer.schema))]
    spans = []
    for name in ("log_partition", "log_offset"):
        columns = [group.column(names.index(name)).statistics for group in groups]
        if not columns or any(column is None or not column.has_min_max for column in columns):
            return True
        spans.append((min(column.min for column in columns), max(column.max for column in columns)))
    (number, last_number), (first, last) = spans
    if number != last_number:
        return True
    return bool(last >= start.get(number, 0) and (number not in end or first < end[number]))


def temporary_folder(prefix: str) -> Path:
    """Create a folder whose name begins with `prefix`; it is removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
