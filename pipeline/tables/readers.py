"""The groups as the log last had them: who is there, what they subscribe to and were given.

Classic groups have it all in their last generation's record; a KIP-848 group has a record per
member for each. A group that never had members (standalone consumers) has no row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from pipeline.decode.kinds import ASSIGNMENT, CLASSIC, EPOCH, EXPRESSION, MEMBER
from pipeline.tables.kept import kept
from pipeline.tables.known import decoded_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.inputs import Bronze, Questions

_PARTITIONS = "array<struct<topic: string, partition: int>>"
_DETAILS = (
    "key struct<regularExpression: string>, value struct<subscribedTopicNames: array<string>, "
    "topics: array<string>, "
    "assignedPartitions: array<struct<topicId: string, partitions: array<int>>>>"
)


@kept
def standing_groups(bronze: Bronze, questions: Questions) -> DataFrame:
    """One row a group that stands at the instant.

    Columns: `group`, `is_modern` (KIP-848), `protocol_type`, `members` (how many),
    `state_timestamp_ms`, `subscribed` (array of topics; null: cannot be told), `assigned` (array
    of topic and partition).
    """
    records = decoded_records(bronze, questions)
    last = (
        records.where(sql.col("kind").isin(CLASSIC, EPOCH))
        .groupBy("group", "kind")
        .agg(
            sql.max_by(
                sql.struct("tombstone", "protocol_type", "state_timestamp_ms", "members"),
                "log_offset",
            ).alias("last"),
            sql.max("log_offset").alias("log_offset"),
        )
        .where(~sql.col("last.tombstone"))
    )
    classic = last.where(sql.col("kind") == CLASSIC).select(
        "group",
        "log_offset",
        sql.lit(False).alias("is_modern"),
        sql.expr("nullif(last.protocol_type, '')").alias("protocol_type"),
        sql.expr("coalesce(size(last.members), 0)").alias("members"),
        "last.state_timestamp_ms",
        # flatten() is null if one of the lists is: one member that cannot be read hides all.
        sql.expr("flatten(transform(last.members, m -> m.subscribed_topics))").alias("subscribed"),
        sql.expr(
            "flatten(transform(last.members, m -> flatten(transform(coalesce(m.assigned, array()),"
            " t -> transform(t.partitions, p -> struct(t.topic as topic, p as partition))))))"
        )
        .cast(_PARTITIONS)
        .alias("assigned"),
    )
    modern = (
        last.where(sql.col("kind") == EPOCH)
        .select("group", "log_offset")
        .join(_modern_members(records), "group", "left")
        .join(_modern_partitions(records), "group", "left")
        .select(
            "group",
            "log_offset",
            sql.lit(True).alias("is_modern"),
            sql.lit("consumer").alias("protocol_type"),
            sql.expr("coalesce(members, 0)").alias("members"),
            sql.lit(None).cast("bigint").alias("state_timestamp_ms"),
            sql.expr("coalesce(subscribed, array())").alias("subscribed"),
            sql.expr(f"cast(coalesce(assigned, array()) as {_PARTITIONS})").alias("assigned"),
        )
    )
    # A group that changed its kind has records of both; the newer one tells what it is.
    return (
        classic.unionByName(modern)
        .groupBy("group")
        .agg(sql.max_by(sql.struct("*"), "log_offset").alias("newest"))
        .select("newest.*")
        .drop("log_offset")
    )


def _modern_records(records: DataFrame) -> DataFrame:
    """The record of each member, assignment and expression that stands."""
    name = sql.coalesce("member_id", "details.key.regularExpression")
    return (
        records.where(sql.col("kind").isin(MEMBER, ASSIGNMENT, EXPRESSION))
        .withColumn("details", sql.from_json("details", _DETAILS))
        .groupBy("group", "kind", name.alias("name"))
        .agg(sql.max_by(sql.struct("tombstone", "details.value"), "log_offset").alias("last"))
        .where(~sql.col("last.tombstone"))
        .select("group", "kind", "last.value")
    )


def _modern_members(records: DataFrame) -> DataFrame:
    """group, members, subscribed: names and what expressions were resolved to."""
    topics = sql.coalesce("value.subscribedTopicNames", "value.topics", sql.array())
    return (
        _modern_records(records)
        .where(sql.col("kind").isin(MEMBER, EXPRESSION))
        .groupBy("group")
        .agg(
            sql.sum((sql.col("kind") == MEMBER).cast("int")).cast("int").alias("members"),
            sql.array_distinct(sql.flatten(sql.collect_list(topics))).alias("subscribed"),
        )
    )


def _modern_partitions(records: DataFrame) -> DataFrame:
    """group, assigned. Topics are known by id there; commits tell the names of ids."""
    names = (
        records.where(sql.col("topic_id").isNotNull() & sql.col("topic").isNotNull())
        .groupBy("topic_id")
        .agg(sql.max("topic").alias("topic"))
    )
    return (
        _modern_records(records)
        .where(sql.col("kind") == ASSIGNMENT)
        .select("group", sql.explode("value.assignedPartitions").alias("of_topic"))
        .select("group", "of_topic.topicId", sql.explode("of_topic.partitions").alias("partition"))
        .join(sql.broadcast(names), sql.col("topicId") == sql.col("topic_id"))
        .groupBy("group")
        .agg(sql.collect_list(sql.struct("topic", "partition")).alias("assigned"))
    )
