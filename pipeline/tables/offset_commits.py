"""Table `offset_commits`: commits and removals as events, with the values of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline import schema
from pipeline.decode.kinds import COMMIT
from pipeline.tables.columns import decoded_records, utc_day

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions


def make(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the table `offset_commits`; for a past instant, the events up to it."""
    records = decoded_records(bronze, questions).filter(pl.col("kind") == COMMIT)
    event = pl.when("tombstone").then(pl.lit("tombstone")).otherwise(pl.lit("commit"))
    return records.with_columns(event=event, day=utc_day("log_timestamp_ms")).select(
        schema.OFFSET_COMMITS.names
    )
