"""Table `rates`: how fast partitions are written and read, and when readers will have caught up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from pipeline import schema
from pipeline.tables.kept import kept
from pipeline.tables.positions import READER, in_window, positions
from pipeline.tables.standings import PARTITION, standings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pipeline.inputs import Bronze, Questions

DEAD_BAND_PER_SECOND = 1.0
DEAD_BAND_SHARE = 0.01
"""Below one of these, the difference of two rates says nothing: velocity is 0."""


@kept
def make(bronze: Bronze, questions: Questions) -> DataFrame:
    """Columns of `schema.RATES`; one row a row of `lag`."""
    produced, consumed = sql.col("produced_per_second"), sql.col("consumed_per_second")
    difference = produced - consumed
    faster = sql.greatest(produced, consumed)
    band = sql.greatest(sql.lit(DEAD_BAND_PER_SECOND), faster * DEAD_BAND_SHARE)
    steady = sql.abs(difference) <= band
    velocity = sql.col("velocity")
    # A difference of null is neither steady nor anything else.
    never_written = sql.when(sql.col("log_end") == 0, 0.0)
    return (
        standings(bronze, questions)
        .join(_consumed(bronze, questions), list(READER), "left")
        .join(_produced(bronze, questions), list(PARTITION), "left")
        .withColumn("produced_per_second", sql.coalesce(produced, never_written))
        .withColumn("window_ms", sql.lit(questions.window_ms).cast("bigint"))
        .withColumn("velocity", sql.when(steady, 0.0).otherwise(difference))
        .withColumn(
            "catch_up_seconds",
            sql.when(sql.col("lag") == 0, 0.0).when(velocity < 0, sql.col("lag") / -velocity),
        )
        .withColumn("trend", _trend())
        .select(*schema.RATES.names)
    )


def _trend() -> Column:
    velocity = sql.col("velocity")
    still = sql.coalesce(sql.col("consumed_per_second"), sql.lit(0.0)) == 0
    return (
        sql.when((sql.col("produced_per_second") == 0) & still, "idle")
        .when(velocity.isNull(), "unknown")
        .when(velocity > 0, "growing")
        .when(velocity < 0, "shrinking")
        .otherwise("steady")
    )


def _consumed(bronze: Bronze, questions: Questions) -> DataFrame:
    """Rise of the position from the first to the last commit in the window, by the second."""
    # Numbers only: an aggregate of structs would be done by sorting all positions.
    return (
        positions(bronze, questions)
        .where(in_window(questions))
        .groupBy(*READER)
        .agg(_change("committed_offset").alias("rise"), _change("commit_timestamp_ms").alias("ms"))
        .where("ms > 0")
        .select(*READER, (sql.col("rise") * 1000 / sql.col("ms")).alias("consumed_per_second"))
    )


def _change(name: str) -> Column:
    return sql.max_by(name, "sequence") - sql.min_by(name, "sequence")


def _produced(bronze: Bronze, questions: Questions) -> DataFrame:
    """Rise of the log end over the window, by the second.

    Both ends are replayed from the records, so that a control record at the end counts for
    neither. If the first known record came within the window and more may have been before it, the
    rise is taken from there.
    """
    begin_ms = questions.at_ms - questions.window_ms
    at_ms, offset = sql.col("timestamp_ms"), sql.col("offset")
    counted = at_ms <= questions.at_ms if questions.past else at_ms.isNotNull()
    before = sql.col("end_before").isNotNull()
    first = sql.col("first_offset")
    start_offset = sql.when(before, sql.col("end_before")).otherwise(first)
    start_ms = sql.when(before | (first == 0), sql.lit(begin_ms)).otherwise(sql.col("first_ms"))
    elapsed_ms = sql.lit(questions.at_ms) - start_ms
    return (
        bronze.topic_records.where(counted)
        .groupBy(*PARTITION)
        .agg(
            (sql.max(offset) + 1).alias("end"),
            (sql.max(sql.when(at_ms <= begin_ms, offset)) + 1).alias("end_before"),
            sql.min(offset).alias("first_offset"),
            sql.min_by(at_ms, offset).alias("first_ms"),
        )
        .where(elapsed_ms > 0)
        .select(
            *PARTITION,
            ((sql.col("end") - start_offset) * 1000 / elapsed_ms).alias("produced_per_second"),
        )
    )
