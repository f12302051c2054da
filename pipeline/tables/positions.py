"""The positions that readers took, one after the other: commits of groups, batches of Spark.

Structured Streaming never commits to Kafka (SPARK-27549), so its queries stand here as groups of
their own, `spark:<query id>`; everything about lag and rates is made from positions and holds for
both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sql

from pipeline.tables import offset_commits
from pipeline.tables.kept import kept

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pipeline.inputs import Bronze, Questions

READER = ("group", "topic", "partition", "source")
"""What names a reader of a partition in every frame made from positions."""

_KEY = ("group", "topic", "partition")
_KEPT = (
    *_KEY,
    "committed_offset",
    "leader_epoch",
    "metadata",
    "commit_timestamp_ms",
    "expire_timestamp_ms",
    "log_offset",
)

GROUP, CHECKPOINT = "group", "checkpoint"
SPARK_GROUP_PREFIX = "spark:"


@kept
def commits_that_live(bronze: Bronze, questions: Questions) -> DataFrame:
    """Commits of every key that holds, since it last came to be: no tombstone follows them.

    The columns of `_KEPT`, and `previous_offset`: committed by the one before, null for the first
    one of the key's life; `number` of it in that life; `is_last`. A group's records lie in one
    partition of the log, so that `log_offset` is the order of its events.

    Rows lie together by group, and in the order of the key and `log_offset`: whoever looks at them
    that way has nothing to sort.
    """
    key = Window.partitionBy(*_KEY)
    in_order = key.orderBy("log_offset")
    removed_at = sql.max(sql.when(sql.col("event") == "tombstone", sql.col("log_offset")))
    return (
        offset_commits.make(bronze, questions)
        .select(*_KEPT, "event")
        .repartition("group")
        .sortWithinPartitions(*_KEY, "log_offset")
        .withColumn("_removed_at", removed_at.over(key))
        .withColumn("_last_at", sql.max("log_offset").over(key))
        .where(sql.col("log_offset") > sql.coalesce("_removed_at", sql.lit(-1)))
        .withColumn("previous_offset", sql.lag("committed_offset").over(in_order))
        .withColumn("number", sql.row_number().over(in_order).cast("bigint"))
        .withColumn("is_last", sql.col("log_offset") == sql.col("_last_at"))
        .drop("_removed_at", "_last_at", "event")
    )


def positions(bronze: Bronze, questions: Questions) -> DataFrame:
    """Every position of readers that stand.

    Columns: `READER`, `sequence` (rises from one position to the next), `committed_offset`,
    `commit_timestamp_ms`, `previous_offset`, `is_last`.
    """
    columns = ("committed_offset", "commit_timestamp_ms", "previous_offset", "is_last")
    committed = commits_that_live(bronze, questions).select(
        "group",
        "topic",
        "partition",
        sql.lit(GROUP).alias("source"),
        sql.col("log_offset").alias("sequence"),
        *columns,
    )
    query = Window.partitionBy("query_id", "topic", "partition").orderBy("batch_id")
    planned = (
        _known_batches(bronze, questions)
        .withColumn("group", sql.concat(sql.lit(SPARK_GROUP_PREFIX), "query_id"))
        .withColumn("source", sql.lit(CHECKPOINT))
        .withColumn("previous_offset", sql.lag("end_offset").over(query))
        .withColumn("is_last", sql.lead("batch_id").over(query).isNull())
        .withColumn("sequence", sql.col("batch_id"))
        .withColumn("committed_offset", sql.col("end_offset"))
        .withColumn("commit_timestamp_ms", sql.col("timestamp_ms"))
        .select(*READER, "sequence", *columns)
    )
    return committed.unionByName(planned)


def _known_batches(bronze: Bronze, questions: Questions) -> DataFrame:
    batches = bronze.spark_progress
    return batches.where(sql.col("timestamp_ms") <= questions.at_ms) if questions.past else batches


def in_window(questions: Questions) -> Column:
    """Whether a position was taken within the window before the instant.

    What lies after the instant was left out before if it does not count.
    """
    return sql.col("commit_timestamp_ms") > questions.at_ms - questions.window_ms
