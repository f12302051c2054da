"""Table `dead_letters`: records that could not be decoded. They never stop a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline import schema
from pipeline.tables.columns import known_records

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions


def make(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the table `dead_letters`."""
    return (
        known_records(bronze, questions)
        .filter(pl.col("problem").is_not_null())
        .with_columns(reason="problem")
        .select(schema.DEAD_LETTERS.names)
    )
