"""Table `replay_plan`: what resetting each group to an instant would mean, without doing it.

Targets are those of ListOffsets by timestamp: the first record with a timestamp at or after the
instant. Like kafka-consumer-groups, it refuses for groups with members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from pipeline import schema
from pipeline.tables.positions import GROUP
from pipeline.tables.readers import standing_groups
from pipeline.tables.standings import PARTITION, partition_facts, standings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.inputs import Bronze, Questions


def make(bronze: Bronze, questions: Questions) -> DataFrame:
    """Columns of `schema.REPLAY_PLAN`; no rows if no instant is asked for (`replay_from_ms`)."""
    members = sql.coalesce("members", sql.lit(0))
    refusal = (
        sql.when(members > 0, sql.concat(sql.lit("the group is not empty: members "), members))
        .when(sql.col("log_end").isNull(), "the topic is not known")
        .when(sql.col("target_offset").isNull(), "the topic's records are not known")
    )
    asked = sql.lit(questions.replay_from_ms).cast("bigint")
    return (
        standings(bronze, questions)
        .where((sql.col("source") == GROUP) & asked.isNotNull())
        .join(standing_groups(bronze, questions).select("group", "members"), "group", "left")
        .join(_targets(bronze, questions), list(PARTITION), "left")
        .withColumn("replay_from_ms", asked)
        .withColumn("change", sql.col("target_offset") - sql.col("committed_offset"))
        .withColumn("records_to_read", sql.col("log_end") - sql.col("target_offset"))
        .withColumn("refusal", refusal)
        .withColumn("allowed", refusal.isNull())
        .select(*schema.REPLAY_PLAN.names)
    )


def _targets(bronze: Bronze, questions: Questions) -> DataFrame:
    """`PARTITION`, target_offset, bytes_to_read.

    A log with offsets but without known records has no target: its end would skip what is there.
    """
    facts = partition_facts(bronze, questions).select(
        *PARTITION, "log_start", "log_end", "first_offset"
    )
    # Records below the log start may be known still; nobody can read them again.
    there = bronze.topic_records.join(sql.broadcast(facts), list(PARTITION)).where(
        (sql.col("offset") < sql.col("log_end"))
        & (sql.col("offset") >= sql.coalesce("log_start", sql.lit(0)))
    )
    wanted = there.where(sql.col("timestamp_ms") >= sql.lit(questions.replay_from_ms))
    first = wanted.groupBy(*PARTITION).agg(sql.min("offset").alias("first_wanted"))
    known = sql.col("first_offset").isNotNull() | (sql.col("log_start") == sql.col("log_end"))
    targets = facts.join(first, list(PARTITION), "left").select(
        *PARTITION,
        sql.coalesce("first_wanted", sql.when(known, sql.col("log_end"))).alias("target_offset"),
    )
    size = sql.when(sql.col("offset") >= sql.col("target_offset"), sql.col("record_bytes"))
    read = (
        there.join(sql.broadcast(targets), list(PARTITION))
        .groupBy(*PARTITION)
        .agg(sql.sum(size).alias("bytes"))
    )
    return targets.join(read, list(PARTITION), "left").select(
        *PARTITION,
        "target_offset",
        sql.when(sql.col("target_offset").isNotNull(), sql.coalesce("bytes", sql.lit(0)))
        .cast("bigint")
        .alias("bytes_to_read"),
    )
