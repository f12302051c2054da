"""Arrow and Polars schemas of the tables, for rows that are built outside of Spark's operators."""

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
    """Return the table's Arrow schema; all columns are nullable."""
    return pa.schema([(column.name, arrow_type(column.type)) for column in table.columns])


@cache
def polars_schema(table: Table) -> pl.Schema:
    """Return the table's Polars schema."""
    import polars as pl

    empty = pl.from_arrow(arrow_schema(table).empty_table())
    assert isinstance(empty, pl.DataFrame)
    return empty.schema


def arrow_type(ddl: str) -> pa.DataType:
    """Convert a type in Spark's DDL to Arrow. Raises ValueError for a type no column has."""
    tokens = _TOKENS.findall(ddl)
    kind = _read(tokens)
    if tokens:
        raise ValueError(f"{ddl!r} goes on after its type")
    return kind


def _read(tokens: list[str]) -> pa.DataType:
    """Remove one type from the front of `tokens` and return it."""
    word = tokens.pop(0)
    if word == "array":
        tokens.pop(0)
        element = _read(tokens)
        tokens.pop(0)
        # Spark names list items "element"; schemas compare equal only with the same name.
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
