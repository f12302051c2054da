"""Every generation of every group: classic ones from key type 2, epochs of KIP-848 groups.

One record is one row: a classic group also writes a record when a static member comes back within
a generation, so a generation may have several rows. Share and streams groups are known by key
only: their rows tell that there was an epoch, not which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, Window
from pyspark.sql import functions as sql

from pipeline import schema
from pipeline.decode.kinds import CLASSIC, EPOCH
from pipeline.tables import kip848
from pipeline.tables.kept import kept
from pipeline.tables.known import decoded_records, utc_day

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.inputs import Bronze, Questions

_KINDS = (CLASSIC, EPOCH, "share_group_metadata", "streams_group_metadata")


@kept
def make(bronze: Bronze, questions: Questions) -> DataFrame:
    """The table `group_generations`."""
    records = decoded_records(bronze, questions)
    counts = kip848.member_counts(records).withColumnRenamed("members", "counted")
    sizes = (
        kip848.members(records)
        .groupBy("group", "log_partition", "log_offset")
        .agg(_sum_or_null("assigned_count").cast("int").alias("owned"))
    )
    place = ["group", "log_partition", "log_offset"]
    events = records.where(sql.col("kind").isin(*_KINDS) & sql.col("group").isNotNull())
    joined = events.join(counts, place, "left").join(sizes, place, "left")
    classic = sql.col("kind") == CLASSIC
    # Only KIP-848 groups without members have no row in `sizes`.
    owned = sql.when(sql.col("counted") == 0, 0).otherwise(sql.col("owned"))
    return (
        joined.withColumn("group_type", sql.when(classic, "classic").otherwise(_prefix()))
        .withColumn("partitions", sql.when(classic, _classic_partitions()).otherwise(owned))
        .withColumn("members", sql.when(classic, sql.size("members")).otherwise(sql.col("counted")))
        .withColumn("event", _event())
        .withColumn("members", _unless_tombstone("members"))
        .withColumn("partitions", _unless_tombstone("partitions"))
        .withColumn("generation", _unless_tombstone("generation"))
        .withColumn("day", utc_day("log_timestamp_ms"))
        .select(*schema.GROUP_GENERATIONS.names)
    )


def last_of_group(generations: DataFrame) -> DataFrame:
    """The last row of each group: how it stands at the instant. A removed group's is `tombstone`.

    `generations` has the columns of `group_generations`.
    """
    latest = Window.partitionBy("group").orderBy(sql.desc("log_offset"), sql.desc("log_partition"))
    return (
        generations.withColumn("rank", sql.row_number().over(latest))
        .where(sql.col("rank") == 1)
        .drop("rank")
    )


def _prefix() -> Column:
    return sql.substring_index("kind", "_", 1)


def _classic_partitions() -> Column:
    """Partitions over all members; null as soon as one member's cannot be read."""
    sizes = sql.transform(
        "members",
        lambda member: sql.aggregate(
            member["assigned"], sql.lit(0), lambda total, one: total + sql.size(one["partitions"])
        ),
    )
    return sql.aggregate(sizes, sql.lit(0), lambda total, one: total + one)


def _event() -> Column:
    return (
        sql.when(sql.col("tombstone"), "tombstone")
        .when(sql.col("members") == 0, "empty")
        .otherwise("generation")
    )


def _unless_tombstone(name: str) -> Column:
    return sql.when(~sql.col("tombstone"), sql.col(name))


def _sum_or_null(name: str) -> Column:
    """The sum, null if any is null."""
    return sql.when(sql.count(name) == sql.count("*"), sql.sum(name))
