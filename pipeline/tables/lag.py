"""Table `lag`: how far behind each reader is, in records and in three kinds of time.

The same code serves a past instant: with `Questions(past=True)`, log ends are replayed from the
records, and later events are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline import schema
from pipeline.tables import group_generations
from pipeline.tables.columns import READER
from pipeline.tables.commit_delay import delays_of_readers
from pipeline.tables.positions import GROUP
from pipeline.tables.unread import standings_with_ages

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions


def make(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the table `lag`."""
    return (
        standings_with_ages(bronze, questions)
        .join(delays_of_readers(bronze, questions), on=READER, how="left")
        .join(_group_types(bronze, questions), on="group", how="left")
        .with_columns(
            pl.lit(questions.at_ms, pl.Int64).alias("at_ms"),
            pl.col("commit_delay_records").fill_null(0),
            pl.when(pl.col("source") == GROUP)
            .then(pl.col("group_type").fill_null("simple"))
            .otherwise("source")
            .alias("kind"),
        )
        .select(schema.LAG.names)
    )


def _group_types(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return `group`, `group_type` of every group that has or had members."""
    last = group_generations.last_of_group(group_generations.make(bronze, questions))
    return last.select("group", "group_type")
