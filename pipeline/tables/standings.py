"""Where every reader stands at the instant: its position against the ends of the partition.

What `lag`, `rates`, the forecasts and the replay plan have in common, without the costly parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from pipeline.tables.kept import kept
from pipeline.tables.positions import GROUP, READER, positions
from pipeline.tables.readers import standing_groups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.inputs import Bronze, Questions

PARTITION = ("topic", "partition")


@kept
def standings(bronze: Bronze, questions: Questions) -> DataFrame:
    """One row for each reader's position, and for each partition assigned without one.

    Columns: `READER`, `committed_offset`, `commit_timestamp_ms`, those of `partition_facts`,
    `lag`, `lost`, `state` (see `schema.LAG`).
    """
    last = (
        positions(bronze, questions)
        .where("is_last")
        .select(*READER, "committed_offset", "commit_timestamp_ms")
    )
    assigned = (
        standing_groups(bronze, questions)
        .select("group", sql.explode("assigned").alias("one"))
        .select("group", "one.topic", "one.partition", sql.lit(GROUP).alias("source"))
    )
    # One row a reader, whether it has a position, an assignment or both.
    readers = (
        last.unionByName(assigned, allowMissingColumns=True)
        .groupBy(*READER)
        .agg(
            sql.max("committed_offset").alias("committed_offset"),
            sql.max("commit_timestamp_ms").alias("commit_timestamp_ms"),
        )
    )
    joined = readers.join(partition_facts(bronze, questions), list(PARTITION), "left")
    return _judged(joined, questions)


def _judged(joined: DataFrame, questions: Questions) -> DataFrame:
    position, log_end = sql.col("committed_offset"), sql.col("log_end")
    if questions.past:
        # Between the last record of then and the next one lie offsets that nobody reads, of
        # control records for instance. Who committed one of those has read everything.
        between = (position > log_end) & (position <= sql.col("end_at_most"))
        joined = joined.withColumn("log_end", sql.when(between, position).otherwise(log_end))
    missing = position < sql.col("log_start")
    lost = sql.when(missing, sql.col("log_start") - position).otherwise(0)
    if questions.past:  # the log start of then is not known, only that it was not above today's
        lost = sql.when(~missing, sql.lit(0))
        missing = sql.lit(False)
    state = (
        sql.when(position.isNull(), "NO_COMMIT")
        .when(log_end.isNull(), "NO_TOPIC")
        .when(missing, "LOSS")
        .when(position > log_end, "AHEAD")
        .otherwise("OK")
    )
    known = position.isNotNull() & log_end.isNotNull()
    unread = sql.greatest(log_end - position, sql.lit(0).cast("bigint"))
    return (
        joined.withColumn("lag", sql.when(known, unread))
        .withColumn("lost", sql.when(known, lost.cast("bigint")))
        .withColumn("state", state)
    )


@kept
def partition_facts(bronze: Bronze, questions: Questions) -> DataFrame:
    """What is known of each partition at the instant.

    Columns: `topic`, `partition`, `log_start`, `log_end`, `retention_ms`, `first_offset` (of the
    records known), `last_offset` and `last_timestamp_ms` (of the last one then), and for a past
    instant `end_at_most`: the log end was somewhere from `log_end` to there.
    """
    counted = sql.col("timestamp_ms") <= questions.at_ms if questions.past else sql.lit(True)
    then = sql.when(counted, sql.col("offset"))
    # Numbers only: an aggregate of structs would be done by sorting all records.
    of_records = bronze.topic_records.groupBy(*PARTITION).agg(
        sql.min("offset").alias("first_offset"),
        sql.max(then).alias("last_offset"),
        sql.max_by("timestamp_ms", then).alias("last_timestamp_ms"),
        sql.min(sql.when(sql.col("timestamp_ms").isNotNull() & (sql.col("offset") == 0), 0)).alias(
            "began"
        ),
    )
    ends = bronze.partition_ends.select(*PARTITION, "log_start", "log_end", "retention_ms")
    if not questions.past:
        return ends.join(of_records, list(PARTITION), "left").drop("began")
    never_written = sql.when(sql.col("log_end") == 0, 0)
    replayed = sql.coalesce(sql.col("last_offset") + 1, "began", never_written)
    following = (
        bronze.topic_records.join(
            sql.broadcast(of_records.select(*PARTITION, "last_offset")), list(PARTITION)
        )
        .where(sql.col("offset") > sql.col("last_offset"))
        .groupBy(*PARTITION)
        .agg(sql.min("offset").alias("next_offset"))
    )
    return (
        ends.join(of_records, list(PARTITION), "full")
        .join(following, list(PARTITION), "left")
        .withColumn("end_at_most", sql.coalesce("next_offset", "log_end"))
        .withColumn("log_end", replayed.cast("bigint"))
        .drop("began", "next_offset")
    )
