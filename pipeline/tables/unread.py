"""Lag in time of two kinds: age of the oldest unread record, and interpolated.

Both come from the records on either side of the position. Compaction and control records leave
gaps, so the oldest unread record is the first one at or above the position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sql

from pipeline.tables.kept import kept
from pipeline.tables.standings import standings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pipeline.inputs import Bronze, Questions


@kept
def standings_with_ages(bronze: Bronze, questions: Questions) -> DataFrame:
    """`standings` with `oldest_unread_age_ms`, `interpolated_age_ms` and `interpolation`.

    Also `oldest_unread_ms`, the timestamp of that record; null if there is none or it is unknown.
    Ages are never negative: a record whose producer's clock is ahead has the age 0.
    """
    located = _neighbours(bronze, standings(bronze, questions))
    position, first = sql.col("committed_offset"), sql.col("_next")
    lag = sql.col("lag")
    gone = position < sql.col("log_start")
    if questions.past:  # a record removed since then may still be known
        gone &= position < sql.col("first_offset")
    gone = sql.coalesce(gone, sql.lit(False))  # no log start is known
    nothing_there = first.isNull() | (first["offset"] >= sql.col("log_end"))
    # Nothing but control records is left; without any record of the partition, who knows.
    all_read = (lag == 0) | (nothing_there & sql.col("first_offset").isNotNull() & ~gone)
    all_read = sql.coalesce(all_read, sql.lit(False))
    unknown = lag.isNull() | nothing_there
    oldest_ms = sql.when(~(all_read | unknown | gone), first["timestamp_ms"])
    kind = sql.when(all_read, "exact").when(~unknown, _kind())
    between = sql.when(all_read, 0).otherwise(_age(questions, _left_at_ms()))
    return (
        located.withColumn("oldest_unread_ms", oldest_ms)
        .withColumn(
            "oldest_unread_age_ms",
            sql.when(all_read, 0).otherwise(_age(questions, sql.col("oldest_unread_ms"))),
        )
        .withColumn("interpolation", kind)
        .withColumn("interpolated_age_ms", between)
        .drop("_next", "_before", "_passed_ms")
    )


def _age(questions: Questions, since_ms: Column) -> Column:
    age = sql.lit(questions.at_ms) - sql.round(since_ms).cast("bigint")
    return sql.when(since_ms.isNotNull(), sql.greatest(age, sql.lit(0).cast("bigint")))


def _neighbours(bronze: Bronze, standing: DataFrame) -> DataFrame:
    """`standing` with the records around each position.

    `_next`: offset and timestamp_ms of the first record at or above the position. `_passed_ms`:
    when the log end rose above the position, the least timestamp from there on. `_before`: offset
    and timestamp_ms of the last record below it.
    """
    names = [name for name in standing.columns if name not in ("topic", "partition")]
    asked = standing.select(
        "topic",
        "partition",
        sql.col("committed_offset").alias("_offset"),
        sql.struct(*names).alias("_row"),
        sql.lit(True).alias("_asks"),
    )
    records = bronze.topic_records.select(
        "topic",
        "partition",
        sql.col("offset").alias("_offset"),
        sql.lit(None).cast(asked.schema["_row"].dataType).alias("_row"),
        sql.struct("offset", "timestamp_ms").alias("_record"),
        sql.lit(False).alias("_asks"),
    )
    # From the end downwards; the record at the position itself comes before the question. By plain
    # columns: an expression would be sorted by anew for each of the three.
    downwards = Window.partitionBy("topic", "partition").orderBy(
        sql.col("_offset").desc(), sql.col("_asks")
    )
    above = downwards.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        records.unionByName(asked, allowMissingColumns=True)
        .withColumn("_next", sql.last("_record", ignorenulls=True).over(above))
        .withColumn("_passed_ms", sql.min("_record.timestamp_ms").over(above))
        .withColumn("_before", sql.expr("lead(_record) ignore nulls").over(downwards))
        .where("_asks")
        .select("topic", "partition", "_row.*", "_next", "_passed_ms", "_before")
    )


def _kind() -> Column:
    """How the time at which the log end was at the position is known; null if it is not.

    Where a record lies at the position, the log end stood there until that record came. Else the
    position lies in a gap, and the time lies between the records on its sides; below the first
    known record it is taken from the pace of all known ones.
    """
    following, before = sql.col("_next"), sql.col("_before")
    at_position = following["offset"] == sql.col("committed_offset")
    rises = (sql.col("last_offset") > following["offset"]) & (
        sql.col("last_timestamp_ms") > sql.col("_passed_ms")
    )
    return (
        sql.when(following["timestamp_ms"].isNull(), None)
        .when(at_position, "exact")
        .when(before.isNull() & rises, "extrapolated")
        .when(before["timestamp_ms"].isNotNull(), "interpolated")
    )


def _left_at_ms() -> Column:
    """The time at which the log end was at the position.

    Known points of the log end: it stood at a record's offset until the record came (right edge
    of a plateau), and right after it from then on (left edge of the next one).
    """
    following, before = sql.col("_next"), sql.col("_before")
    passed_ms, position = sql.col("_passed_ms"), sql.col("committed_offset")
    missing = (following["offset"] - position).cast("double")
    reached_ms = sql.least(before["timestamp_ms"], passed_ms)
    between = missing / (following["offset"] - before["offset"] - 1) * (passed_ms - reached_ms)
    pace = (sql.col("last_timestamp_ms") - passed_ms) / (
        sql.col("last_offset") - following["offset"]
    )
    kind = sql.col("interpolation")
    return (
        sql.when(kind == "exact", passed_ms.cast("double"))
        .when(kind == "interpolated", passed_ms - between)
        .when(kind == "extrapolated", passed_ms - missing * pace)
    )
