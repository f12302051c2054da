"""Table `current_offsets`: the committed offset of every key that has not been removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline import schema
from pipeline.tables.positions import commits_that_live

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions


def make(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the table `current_offsets`."""
    return (
        commits_that_live(bronze, questions)
        .filter(pl.col("is_last"))
        .rename({"number": "commits"})
        .select(schema.CURRENT_OFFSETS.names)
    )
