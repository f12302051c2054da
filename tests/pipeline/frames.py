"""Convert plain rows to bronze frames, and tables to plain rows, for tests of single tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from pipeline import schema
from pipeline.inputs import Bronze, merged
from pipeline.schema.arrow import polars_schema

Row = Mapping[str, Any]

EXACT_PART = 1e-12
"""The relative tolerance of doubles, as the last bits of a sum depend on the order of the rows."""


class Double(float):
    """A double of a table that equals other doubles up to the last bits."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and math.isclose(
            self, other, rel_tol=EXACT_PART, abs_tol=1e-15
        )

    __hash__ = float.__hash__


def frame(table: schema.Table, rows: Sequence[Row] = ()) -> pl.LazyFrame:
    """Return a frame of the table; missing columns are null, unknown ones fail."""
    for row in rows:
        assert set(row) <= set(table.names), f"{table.name} has no {set(row) - set(table.names)}"
    return pl.LazyFrame([dict(row) for row in rows], schema=polars_schema(table))


def bronze(**rows: Sequence[Row]) -> Bronze:
    """Return all bronze frames, with `rows` by table name; other frames are empty."""
    frames = {table.name: frame(table, rows.pop(table.name, ())) for table in schema.BRONZE}
    assert not rows, f"there is no bronze table {list(rows)}"
    return Bronze(**merged(frames))


def rows_of(made: pl.LazyFrame, table: schema.Table, *names: str) -> list[tuple[Any, ...]]:
    """Return a table's rows in key order, with all or only the named columns.

    Fails if the columns are not those of the table, or its key is not unique.
    """
    found = made.collect()
    assert found.schema == polars_schema(table), f"{found.schema} instead of {table.ddl}"
    rows = found.to_dicts()
    rows.sort(key=lambda row: tuple((row[name] is not None, row[name]) for name in table.key))
    keys = [tuple(row[name] for name in table.key) for row in rows]
    assert len(set(keys)) == len(keys), f"{table.key} is not unique: {keys}"
    return [tuple(_plain(row[name]) for name in names or table.names) for row in rows]


def _plain(value: Any) -> Any:
    return Double(value) if isinstance(value, float) else value
