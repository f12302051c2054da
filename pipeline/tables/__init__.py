"""The tables, one module each: `make(bronze, questions) -> LazyFrame`, columns as in `schema`.

The `make` of one table may call the `make` of another.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from pipeline import schema

if TYPE_CHECKING:
    import polars as pl

    from pipeline.inputs import Bronze, Questions

Make = Callable[["Bronze", "Questions"], "pl.LazyFrame"]


def makers() -> list[tuple[schema.Table, Make]]:
    """Return each table of the schema, in order, with the `make` of the module of the same name."""
    return [
        (table, importlib.import_module(f"pipeline.tables.{table.name}").make)
        for table in schema.TABLES
    ]
