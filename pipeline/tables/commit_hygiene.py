"""How groups commit: how often, how much of it for nothing, and for partitions of others.

The window is `(at_ms - window_ms, at_ms]` by the commit timestamp, for removals by the record's
own. What a commit is compared with may lie before the window. Only groups with a commit or a
removal in the window have a row.

`stale_commits` compares with the generation whose record precedes the commit in the log: that is
the order in which the coordinator took them. Generations without members, with an assignment that
cannot be read, and commits before the first known generation cannot tell and count as fine. For
KIP-848 groups it is null: members move from epoch to epoch one by one, and the broker itself
refuses a commit with an old epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, Window
from pyspark.sql import functions as sql

from pipeline import schema
from pipeline.decode.kinds import CLASSIC, COMMIT, EPOCH
from pipeline.tables.known import decoded_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.inputs import Bronze, Questions


def make(bronze: Bronze, questions: Questions) -> DataFrame:
    """The table `commit_hygiene`."""
    records = decoded_records(bronze, questions).where(sql.col("group").isNotNull())
    commits = _windowed(_with_generation(records), questions)
    owned = _owned(records)
    key = ["group", "generation_at", "topic", "partition"]
    judged = commits.join(owned, key, "left").withColumn(
        "stale", sql.col("readable") & sql.col("owner").isNull()
    )
    commit = ~sql.col("tombstone")
    keys = _how_many(sql.col("last") & commit)
    return (
        judged.groupBy("group")
        .agg(
            _how_many(commit).alias("commits"),
            _how_many(commit & (sql.col("committed_offset") == sql.col("before"))).alias(
                "noop_commits"
            ),
            _how_many(commit & (sql.col("committed_offset") < sql.col("before"))).alias("rewinds"),
            _how_many(sql.col("tombstone")).alias("tombstones"),
            sql.sum(sql.col("record_bytes").cast("bigint")).alias("log_bytes"),
            keys.alias("keys"),
            sql.when(sql.max("modern").isNull(), _how_many(commit & sql.col("stale"))).alias(
                "stale_commits"
            ),
            sql.max(sql.octet_length("metadata")).alias("max_metadata_bytes"),
        )
        .withColumn("commits_per_second", sql.col("commits") / (questions.window_ms / 1000))
        .withColumn("write_amplification", sql.try_divide("commits", "keys"))
        .select(*schema.COMMIT_HYGIENE.names)
    )


def _with_generation(records: DataFrame) -> DataFrame:
    """Commits and removals, each with the place of the generation before it in the log."""
    kinds = (COMMIT, CLASSIC, EPOCH)
    readable = sql.forall("members", lambda member: member["assigned"].isNotNull())
    before = Window.partitionBy("group").orderBy("log_offset", "log_partition")
    classic = sql.col("kind") == CLASSIC
    return (
        records.where(sql.col("kind").isin(*kinds))
        .withColumn(
            "of_generation",
            sql.when(
                classic,
                sql.struct(
                    sql.col("log_offset").alias("generation_at"),
                    sql.coalesce(
                        ~sql.col("tombstone") & (sql.size("members") > 0) & readable, sql.lit(False)
                    ).alias("readable"),
                    sql.lit(None).cast("boolean").alias("modern"),
                ),
            ).when(
                sql.col("kind") == EPOCH,
                sql.struct(
                    sql.col("log_offset").alias("generation_at"),
                    sql.lit(False).alias("readable"),
                    sql.when(~sql.col("tombstone"), True).alias("modern"),
                ),
            ),
        )
        .select(
            "group", "kind", "topic", "partition", "log_partition", "log_offset", "tombstone",
            "committed_offset", "commit_timestamp_ms", "log_timestamp_ms", "metadata",
            "record_bytes", sql.last("of_generation", ignorenulls=True).over(before).alias("now"),
        )
        .where(sql.col("kind") == COMMIT)
        .select("*", "now.*")
    )  # fmt: skip


def _windowed(commits: DataFrame, questions: Questions) -> DataFrame:
    """Those of the window, each with the offset committed before and whether it is the last."""
    of_key = Window.partitionBy("group", "topic", "partition").orderBy("log_offset")
    at_ms = sql.coalesce("commit_timestamp_ms", "log_timestamp_ms")
    return (
        commits.withColumn("before", sql.lag("committed_offset").over(of_key))
        .withColumn("last", sql.lead("log_offset").over(of_key).isNull())
        .where(at_ms > questions.at_ms - questions.window_ms)
    )


def _owned(records: DataFrame) -> DataFrame:
    """(group, generation_at, topic, partition) that had an owner in that generation."""
    return (
        records.where(sql.col("kind") == CLASSIC)
        .select(
            "group", sql.col("log_offset").alias("generation_at"), sql.explode("members").alias("m")
        )
        .select("group", "generation_at", sql.explode("m.assigned").alias("one"))
        .select(
            "group",
            "generation_at",
            sql.col("one.topic").alias("topic"),
            sql.explode("one.partitions").alias("partition"),
        )
        .distinct()
        .withColumn("owner", sql.lit(True))
    )


def _how_many(condition: Column) -> Column:
    return sql.count(sql.when(condition, 1))
