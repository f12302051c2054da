"""Table `lag`: how far behind each reader is, in records and in three kinds of time.

For a past instant it is the same code: `Questions(past=True)` makes log ends come from the records
and leaves out what happened after it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from pipeline import schema
from pipeline.tables.commit_delay import commit_delays
from pipeline.tables.positions import READER
from pipeline.tables.unread import standings_with_ages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.inputs import Bronze, Questions


def make(bronze: Bronze, questions: Questions) -> DataFrame:
    """Columns of `schema.LAG`."""
    delays = commit_delays(bronze, questions)
    return (
        standings_with_ages(bronze, questions)
        .join(delays, list(READER), "left")
        .withColumn("at_ms", sql.lit(questions.at_ms).cast("bigint"))
        .fillna(0, ["commit_delay_records"])
        .select(*schema.LAG.names)
    )


def lag_at(bronze: Bronze, questions: Questions, at_ms: int) -> DataFrame:
    """The same table for the past instant `at_ms`."""
    return make(bronze, replace(questions, at_ms=at_ms, past=True))
