"""A table's columns as Arrow's: for what is made outside of Spark's own operators."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from pipeline.schema.table import Table

if TYPE_CHECKING:
    import polars as pl

_PLAIN = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
}
_TOKENS = re.compile(r"[a-z_]+|[<>,:]")


@cache
def arrow_schema(table: Table) -> pa.Schema:
    """The schema; all columns may be null."""
    return pa.schema([(column.name, arrow_type(column.type)) for column in table.columns])


@cache
def polars_schema(table: Table) -> pl.Schema:
    """The same as Polars has it."""
    import polars as pl

    empty = pl.from_arrow(arrow_schema(table).empty_table())
    assert isinstance(empty, pl.DataFrame)
    return empty.schema


def arrow_type(ddl: str) -> pa.DataType:
    """A column's type as Spark's DDL -> Arrow; ValueError for one that no column has."""
    tokens = _TOKENS.findall(ddl)
    kind = _read(tokens)
    if tokens:
        raise ValueError(f"{ddl!r} goes on after its type")
    return kind


def _read(tokens: list[str]) -> pa.DataType:
    """One type from the front of `tokens`, which it takes away."""
    word = tokens.pop(0)
    if word == "array":
        tokens.pop(0)
        element = _read(tokens)
        tokens.pop(0)
        # Spark names an array's element so; the names must agree for frames to be the same.
        return pa.list_(pa.field("element", element))
    if word == "struct":
        fields = []
        while tokens.pop(0) != ">":
            name = tokens.pop(0)
            tokens.pop(0)
            fields.append(pa.field(name, _read(tokens)))
        return pa.struct(fields)
    if word not in _PLAIN:
        raise ValueError(f"no column is of type {word!r}")
    return _PLAIN[word]
