"""The tables, one module each: `make(bronze, questions) -> LazyFrame`, columns as in `schema`.

A table may be made from other tables; it calls their `make`.
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
    """What makes each table, in the order of the schema: a module of its name."""
    return [
        (table, importlib.import_module(f"pipeline.tables.{table.name}").make)
        for table in schema.TABLES
    ]
