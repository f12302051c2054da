"""The state of each group at the instant: members, subscriptions and assignments.

A classic group has all three in the record of its last generation. A KIP-848 group has separate
records per member. A group that never had members (standalone consumers) has no row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline.decode.kinds import ASSIGNMENT, CLASSIC, COMMIT, EPOCH, EXPRESSION, MEMBER
from pipeline.tables.columns import decoded_records, owned
from pipeline.tables.kept import by_partition, kept

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions

_TOPICS = pl.List(pl.String)
_PARTITIONS = pl.List(pl.Struct({"topic": pl.String, "partition": pl.Int32}))
_OF_TOPICS = pl.List(pl.Struct({"topicId": pl.String, "partitions": pl.List(pl.Int32)}))
_DETAILS = pl.Struct(
    {
        "key": pl.Struct({"regularExpression": pl.String}),
        "value": pl.Struct(
            {
                "subscribedTopicNames": _TOPICS,
                "topics": _TOPICS,
                "assignedPartitions": _OF_TOPICS,
            }
        ),
    }
)


@kept
def standing_groups(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return one row per group that exists at the instant.

    Columns: `group`, `is_modern` (KIP-848), `protocol_type`, `members` (their number),
    `state_timestamp_ms`, `subscribed` (array of topics; null: unknown), `assigned` (array of topic
    and partition), `unresolved` (number of assigned topic ids without a known name).
    """
    groups = pl.concat([_classic(bronze, questions), _modern(bronze, questions)])
    # A group that changed its type has records of both types; the newest record decides.
    newest = pl.col("log_offset") == pl.col("log_offset").max().over("group")
    return groups.filter(newest).drop("log_offset")


def assignments(groups: pl.LazyFrame) -> pl.LazyFrame:
    """Return `group`, `topic`, `partition`: a row for each partition assigned to a member.

    `groups` is a frame of `standing_groups`.
    """
    return (
        groups.select("group", "assigned").explode("assigned", keep_nulls=False).unnest("assigned")
    )


def subscriptions(groups: pl.LazyFrame) -> pl.LazyFrame:
    """Return `group`, `topic`, `is_subscribed` (true): a row per topic that a member subscribes to.

    `groups` is a frame of `standing_groups`.
    """
    return (
        groups.select("group", topic="subscribed")
        .explode("topic", keep_nulls=False)
        .unique()
        .with_columns(is_subscribed=True)
    )


@by_partition
def topic_names(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return `topic_id`, `topic`, `partition`: names of topics from commits and `partition_ends`.

    Commits of Apache Kafka have a topic id since OffsetCommit version 10 only; `partition_ends` has
    the ids of existing topics. An id has a row for each partition and each name; callers take its
    greatest name.
    """
    names = ("topic_id", "topic", "partition")
    committed = decoded_records(bronze, questions).filter(pl.col("kind") == COMMIT).select(names)
    return (
        pl.concat([committed, bronze.partition_ends.select(names)])
        .drop_nulls(("topic_id", "topic"))
        .unique()
    )


def _standing(records: pl.LazyFrame, *name: str) -> pl.LazyFrame:
    """Return the last record of each `name`, unless this record is a tombstone."""
    last = pl.col("log_offset") == pl.col("log_offset").max().over(name)
    return records.filter(last & ~pl.col("tombstone"))


def _classic(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the columns of `standing_groups`, and `log_offset`, for classic groups."""
    records = decoded_records(bronze, questions).filter(pl.col("kind") == CLASSIC)
    last = _standing(records, "group")
    protocol_type = pl.col("protocol_type")
    of_members = pl.col("members").list
    topics = pl.element().struct.field("subscribed_topics")
    # If one member's subscription is unreadable, the subscription of the whole group is unknown.
    readable = ~of_members.eval(topics.is_null()).list.any()
    subscribed = of_members.eval(topics.explode(keep_nulls=False))
    members = last.select("group", "members").explode("members", keep_nulls=False).unnest("members")
    return last.join(_by_group(owned(members, "group")), on="group", how="left").select(
        "group",
        "log_offset",
        pl.lit(False).alias("is_modern"),
        pl.when(protocol_type != "").then(protocol_type).alias("protocol_type"),
        of_members.len().cast(pl.Int32).fill_null(0).alias("members"),
        "state_timestamp_ms",
        pl.when(readable).then(subscribed).alias("subscribed"),
        pl.when(pl.col("members").is_not_null()).then(_given()).alias("assigned"),
        pl.lit(0, pl.Int64).alias("unresolved"),
    )


def _modern(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the columns of `standing_groups`, and `log_offset`, for KIP-848 groups."""
    records = decoded_records(bronze, questions)
    parts = _modern_records(records)
    last = _standing(records.filter(pl.col("kind") == EPOCH), "group").select("group", "log_offset")
    return (
        last.join(_modern_members(parts), on="group", how="left")
        .join(_modern_partitions(parts, topic_names(bronze, questions)), on="group", how="left")
        .select(
            "group",
            "log_offset",
            pl.lit(True).alias("is_modern"),
            pl.lit("consumer").alias("protocol_type"),
            pl.col("members").fill_null(0),
            pl.lit(None, pl.Int64).alias("state_timestamp_ms"),
            pl.coalesce("subscribed", pl.lit([], _TOPICS)),
            _given().alias("assigned"),
            pl.col("unresolved").fill_null(0),
        )
    )


def _modern_records(records: pl.LazyFrame) -> pl.LazyFrame:
    """Return `group`, `kind`, `value` of each current member, assignment and regular expression."""
    details = pl.col("details").str.json_decode(_DETAILS)
    expression = details.struct.field("key").struct.field("regularExpression")
    parts = records.filter(pl.col("kind").is_in((MEMBER, ASSIGNMENT, EXPRESSION))).select(
        "group",
        "kind",
        "log_offset",
        "tombstone",
        pl.coalesce("member_id", expression).alias("name"),
        details.struct.field("value"),
    )
    return _standing(parts, "group", "kind", "name").select("group", "kind", "value")


def _modern_members(parts: pl.LazyFrame) -> pl.LazyFrame:
    """Return `group`, `members`, `subscribed`: topics by name and topics matched by expressions."""
    value = pl.col("value").struct
    topics = pl.coalesce(value.field("subscribedTopicNames"), value.field("topics"))
    return (
        parts.filter(pl.col("kind").is_in((MEMBER, EXPRESSION)))
        .group_by("group")
        .agg(
            (pl.col("kind") == MEMBER).sum().cast(pl.Int32).alias("members"),
            topics.explode(keep_nulls=False).unique(maintain_order=True).alias("subscribed"),
        )
    )


def _modern_partitions(parts: pl.LazyFrame, names: pl.LazyFrame) -> pl.LazyFrame:
    """Return `group`, `assigned`, `unresolved`; `names` maps topic ids of records to names."""
    name = names.group_by("topic_id").agg(pl.max("topic"))
    partitions = (
        parts.filter(pl.col("kind") == ASSIGNMENT)
        .select("group", of_topic=pl.col("value").struct.field("assignedPartitions"))
        .explode("of_topic", keep_nulls=False)
        .unnest("of_topic")
        .explode("partitions", keep_nulls=False)
        .join(name, left_on="topicId", right_on="topic_id", how="left")
        .select("group", "topic", "topicId", partition="partitions")
    )
    named = pl.col("topic").is_not_null()
    return partitions.group_by("group").agg(
        pl.struct("topic", "partition").filter(named).alias("assigned"),
        pl.col("topicId").filter(~named).n_unique().cast(pl.Int64).alias("unresolved"),
    )


def _by_group(partitions: pl.LazyFrame) -> pl.LazyFrame:
    """Collect rows of group, topic, partition into one row of `group`, `assigned` per group."""
    return partitions.group_by("group").agg(pl.struct("topic", "partition").alias("assigned"))


def _given() -> pl.Expr:
    """Return `assigned`, with null replaced by an empty list."""
    return pl.coalesce("assigned", pl.lit([], _PARTITIONS))
