"""The third kind of lag in time: from a record's timestamp to the commit that covered it.

Nobody publishes it, since commit timestamps are in no API. Every record counts while there are not
too many of them; then every n-th offset of a reader's partition does, with n fixed by how much it
read, so that the cost is bounded however many groups read a topic and a run repeated gives the
same numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sql

from pipeline.tables.positions import READER, in_window, positions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pipeline.inputs import Bronze, Questions

RECORDS_MOST = 1_000_000
"""How many pairs of reader and record are looked at in one run."""


def commit_delays(
    bronze: Bronze, questions: Questions, records_most: int = RECORDS_MOST
) -> DataFrame:
    """Columns: `READER`, `commit_delay_p50_ms`, `commit_delay_p99_ms`, `commit_delay_records`.

    Of the records in [previous position, position) of every position taken within the window; a
    reader without such records has no row. Records read again after a rewind count again.
    Percentiles are values that occur: the least one with that part of all at or below it.
    """
    sampled = _covered_offsets(bronze, questions, records_most)
    timed = bronze.topic_records.where(sql.col("timestamp_ms").isNotNull()).select(
        "topic", "partition", "offset", "timestamp_ms"
    )
    delay = sql.greatest(
        sql.col("commit_timestamp_ms") - sql.col("timestamp_ms"), sql.lit(0).cast("bigint")
    )
    return (
        sampled.join(timed, ["topic", "partition", "offset"])
        .groupBy(*READER)
        .agg(sql.sort_array(sql.collect_list(delay)).alias("delays_ms"))
        .select(
            *READER,
            _percentile(50).alias("commit_delay_p50_ms"),
            _percentile(99).alias("commit_delay_p99_ms"),
            sql.size("delays_ms").cast("bigint").alias("commit_delay_records"),
        )
    )


def _percentile(percent: int) -> Column:
    """The least delay with at least that part of all at or below it; in whole numbers."""
    place = f"cast((size(delays_ms) * {percent}L + 99) div 100 as int)"
    return sql.expr(f"element_at(delays_ms, {place})")


def _covered_offsets(bronze: Bronze, questions: Questions, records_most: int) -> DataFrame:
    """`READER`, `commit_timestamp_ms`, `offset`: what was covered, or every n-th of it."""
    span = bronze.topic_records.groupBy("topic", "partition").agg(
        sql.min("offset").alias("least"), sql.max("offset").alias("most")
    )
    taken = positions(bronze, questions)
    covered = (
        taken.where(in_window(questions) & sql.col("previous_offset").isNotNull())
        .join(sql.broadcast(span), ["topic", "partition"])
        .select(
            *READER,
            "commit_timestamp_ms",
            sql.greatest("previous_offset", "least").alias("start"),
            sql.least("committed_offset", sql.col("most") + 1).alias("stop"),
        )
        .where(sql.col("start") < sql.col("stop"))
    )
    share = (
        taken.where("is_last")
        .agg(sql.greatest(sql.lit(1), sql.count("*")).alias("readers"))
        .select(sql.expr(f"greatest(1L, {records_most} div readers)").alias("share"))
    )
    of_reader = Window.partitionBy(*READER)
    records = sql.sum(sql.col("stop") - sql.col("start")).over(of_reader)
    return (
        covered.withColumn("records", records)
        .crossJoin(sql.broadcast(share))
        .withColumn("stride", sql.ceil(sql.col("records") / sql.col("share")))
        .withColumn("first", sql.ceil(sql.col("start") / sql.col("stride")) * sql.col("stride"))
        .where(sql.col("first") < sql.col("stop"))
        .select(
            *READER,
            "commit_timestamp_ms",
            sql.explode(sql.expr("sequence(first, stop - 1, stride)")).alias("offset"),
        )
    )
