"""Table `current_offsets`: the committed offset of every key that no tombstone has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline import schema
from pipeline.tables.positions import commits_that_live

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions


def make(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Columns of `schema.CURRENT_OFFSETS`."""
    return (
        commits_that_live(bronze, questions)
        .filter(pl.col("is_last"))
        .rename({"number": "commits"})
        .select(schema.CURRENT_OFFSETS.names)
    )
