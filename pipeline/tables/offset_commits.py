"""Table `offset_commits`: commits and removals as events, in the words of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from pipeline import schema
from pipeline.decode.kinds import COMMIT
from pipeline.tables.known import decoded_records, utc_day

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.inputs import Bronze, Questions


def make(bronze: Bronze, questions: Questions) -> DataFrame:
    """Columns of `schema.OFFSET_COMMITS`; for a past instant, the events up to it."""
    records = decoded_records(bronze, questions).where(sql.col("kind") == COMMIT)
    event = sql.when(sql.col("tombstone"), "tombstone").otherwise("commit")
    return (
        records.withColumn("event", event)
        .withColumn("day", utc_day("log_timestamp_ms"))
        .select(*schema.OFFSET_COMMITS.names)
    )
