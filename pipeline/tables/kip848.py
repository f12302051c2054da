"""KIP-848 groups, replayed from their records: epochs, and the members of every epoch.

Such a group has no record with all its members. It has one per epoch (type 3), one per member
(type 5) and one per member's current assignment (type 8), each of them last-writer-wins. A member
counts for an epoch if its record stands when the epoch's record is written; a heartbeat that
brings a member writes the member first, and one that removes a member removes it first. Members
move to an epoch one after the other, so what a member was given in an epoch is the last that it
reported before the next epoch began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, Window
from pyspark.sql import functions as sql

from pipeline import schema
from pipeline.decode.kinds import ASSIGNMENT, EPOCH, MEMBER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_END = 2**63 - 1
_ASSIGNED = "value.assignedPartitions"
_DETAILS = {
    MEMBER: (
        "value struct<instanceId: string, clientId: string, clientHost: string, "
        "subscribedTopicNames: array<string>, rebalanceTimeoutMs: int, "
        "classicMemberMetadata: struct<sessionTimeoutMs: int>>"
    ),
    ASSIGNMENT: (
        "value struct<assignedPartitions: array<struct<topicId: string, partitions: array<int>>>>"
    ),
}


def member_counts(records: DataFrame) -> DataFrame:
    """(group, log_partition, log_offset, members) of every epoch's record.

    `records` are decoded ones. A member's record counts one up if there was none of it before or
    it had been removed, a removal one down.
    """
    events = records.where(sql.col("kind").isin(EPOCH, MEMBER) & sql.col("group").isNotNull())
    of_member = Window.partitionBy("group", "kind", "member_id").orderBy("log_offset")
    gone_before = sql.coalesce(sql.lag("tombstone").over(of_member), sql.lit(True))
    change = (
        sql.when(sql.col("kind") == EPOCH, 0)
        .when(~sql.col("tombstone") & gone_before, 1)
        .when(sql.col("tombstone") & ~gone_before, -1)
        .otherwise(0)
    )
    of_group = Window.partitionBy("group").orderBy("log_offset", "log_partition")
    return (
        events.withColumn("change", change)
        .withColumn("members", sql.sum("change").over(of_group).cast("int"))
        .where(sql.col("kind") == EPOCH)
        .select("group", "log_partition", "log_offset", "members")
    )


def members(records: DataFrame) -> DataFrame:
    """Every member of every epoch, with the columns of `group_members`."""
    epochs = _epochs(records)
    stood = _stood(records)
    of_epoch = epochs.join(stood, "group").where(
        (sql.col("since_offset") < sql.col("log_offset"))
        & (sql.col("log_offset") < sql.col("until_offset"))
    )
    return _with_assignments(of_epoch, _assignments(records)).select(*schema.GROUP_MEMBERS.names)


def _epochs(records: DataFrame) -> DataFrame:
    """Every epoch, with the offset at which the next one (or the end of the group) lies."""
    of_group = Window.partitionBy("group").orderBy("log_offset", "log_partition")
    return (
        records.where(sql.col("kind") == EPOCH)
        .withColumn("next_offset", sql.lead("log_offset", 1, _END).over(of_group))
        .where(~sql.col("tombstone"))
        .select("group", "generation", "log_partition", "log_offset", "next_offset")
    )


def _stood(records: DataFrame) -> DataFrame:
    """What members said of themselves, with the offsets between which it stood."""
    of_member = Window.partitionBy("group", "member_id").orderBy("log_offset")
    value = sql.from_json("details", _DETAILS[MEMBER])["value"]
    return (
        records.where(sql.col("kind") == MEMBER)
        .withColumn("since_offset", sql.col("log_offset"))
        .withColumn("until_offset", sql.lead("log_offset", 1, _END).over(of_member))
        .where(~sql.col("tombstone"))
        .withColumn("value", value)
        .select(
            "group",
            "member_id",
            "since_offset",
            "until_offset",
            sql.col("value.instanceId").alias("group_instance_id"),
            sql.col("value.clientId").alias("client_id"),
            sql.col("value.clientHost").alias("client_host"),
            sql.lit(False).alias("is_leader"),
            sql.col("value.classicMemberMetadata.sessionTimeoutMs").alias("session_timeout_ms"),
            sql.col("value.rebalanceTimeoutMs").alias("rebalance_timeout_ms"),
            sql.col("value.subscribedTopicNames").alias("subscribed_topics"),
            sql.lit(None).cast("string").alias("problem"),
        )
    )


def _assignments(records: DataFrame) -> DataFrame:
    """What members reported that they own, with names of topics instead of ids.

    An id that no commit tells the name of stays as the id: the partitions still count.
    """
    names = (
        records.where(sql.col("topic_id").isNotNull() & sql.col("topic").isNotNull())
        .groupBy("topic_id")
        .agg(sql.max("topic").alias("topic"))
        .agg(sql.map_from_entries(sql.collect_list(sql.struct("topic_id", "topic"))).alias("names"))
    )
    assigned = sql.transform(_ASSIGNED, lambda one: _named(one))
    return (
        records.where((sql.col("kind") == ASSIGNMENT) & ~sql.col("tombstone"))
        .withColumn("value", sql.from_json("details", _DETAILS[ASSIGNMENT])["value"])
        .crossJoin(sql.broadcast(names))
        .select("group", "member_id", sql.col("log_offset").alias("at"), assigned.alias("assigned"))
    )


def _named(one: Column) -> Column:
    return sql.struct(
        sql.coalesce(sql.try_element_at("names", one["topicId"]), one["topicId"]).alias("topic"),
        one["partitions"].alias("partitions"),
    )


def _with_assignments(of_epoch: DataFrame, assignments: DataFrame) -> DataFrame:
    """`of_epoch` with the last assignment that each member reported before `next_offset`."""
    both = of_epoch.withColumn("at", sql.col("next_offset")).unionByName(
        assignments, allowMissingColumns=True
    )
    before = (
        Window.partitionBy("group", "member_id")
        .orderBy("at", sql.col("log_offset").asc_nulls_last())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    # The assignment that lies at `next_offset` itself cannot be: an epoch lies there.
    return (
        both.withColumn("assigned", sql.last("assigned", ignorenulls=True).over(before))
        .where(sql.col("log_offset").isNotNull())
        .withColumn("assigned_count", assigned_count())
    )


def assigned_count() -> Column:
    """How many partitions the column `assigned` holds; null if that is null."""
    return sql.aggregate(
        "assigned", sql.lit(0), lambda total, one: total + sql.size(one["partitions"])
    )
