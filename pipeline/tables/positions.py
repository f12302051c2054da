"""The successive positions of readers: commits, start offsets of share groups, batches of Spark.

Structured Streaming never commits to Kafka (SPARK-27549), so each of its queries is treated as a
group of its own, `spark:<query id>`. The start offset of a share partition is the first offset
whose delivery is not complete. Lag and rates are computed from positions, for all kinds of readers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline.decode.kinds import COMMIT
from pipeline.tables.columns import KEY, PARTITION, READER, decoded_records
from pipeline.tables.kept import by_partition, kept

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions

_KEPT = (
    *KEY,
    "committed_offset",
    "leader_epoch",
    "metadata",
    "commit_timestamp_ms",
    "expire_timestamp_ms",
    "log_offset",
)
_OF_LOG = (*_KEPT, "tombstone", "topic_id", "earlier_commits")

GROUP, SHARE, CHECKPOINT = "group", "share", "checkpoint"
SPARK_GROUP_PREFIX = "spark:"


@by_partition
def topic_ids(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return `PARTITION`, `current_id`: the topic id of each existing partition that has one."""
    ids = bronze.partition_ends.select(*PARTITION, current_id="topic_id")
    return ids.filter(pl.col("current_id").is_not_null())


@kept
def commits_that_live(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the commits of every existing key since the key's last removal.

    A commit with another topic id than the topic has now is of a deleted topic of the same name. It
    does not count, as in Kafka (OffsetMetadataManager.isMismatchedTopicId).

    Columns: those of `_KEPT`, `previous_offset` (of the commit before; null for the first commit),
    `number` (counted from 1 since the removal; a row of a state stands for several commits, see
    `pipeline.reduction`) and `is_last`. All records of a group lie in one
    partition of the log, so `log_offset` gives their order. The rows are sorted by the key and
    `log_offset`.
    """
    at = pl.col("log_offset")
    is_other = (pl.col("topic_id") != pl.col("current_id")).fill_null(value=False)
    removed_at = at.filter("tombstone").max().over(KEY)
    counted = 1 + pl.col("earlier_commits").fill_null(0)
    return (
        decoded_records(bronze, questions)
        .filter(pl.col("kind") == COMMIT)
        .select(_OF_LOG)
        .join(topic_ids(bronze, questions), on=PARTITION, how="left")
        .filter(~is_other)
        .drop("topic_id", "current_id")
        .filter(at > removed_at.fill_null(-1))
        .sort(*KEY, "log_offset")
        .with_columns(
            pl.col("committed_offset").shift().over(KEY).alias("previous_offset"),
            counted.cum_sum().over(KEY).alias("number"),
            (at == at.max().over(KEY)).alias("is_last"),
        )
        .drop("tombstone", "earlier_commits")
    )


def positions(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return every position of the existing readers.

    Columns: `READER`, `sequence` (rises from one position to the next), `committed_offset`,
    `commit_timestamp_ms`, `previous_offset`, `is_last`, `delivered` (of share groups, see
    `schema.SHARE_STATE`). The rows of a reader are in order and next to each other.
    """
    columns = ("committed_offset", "commit_timestamp_ms", "previous_offset", "is_last")
    delivered = pl.lit(None, pl.Int32).alias("delivered")
    committed = commits_that_live(bronze, questions).select(
        *KEY,
        pl.lit(GROUP).alias("source"),
        pl.col("log_offset").alias("sequence"),
        *columns,
        delivered,
    )
    query = ("query_id", "topic", "partition")
    before = pl.col("end_offset").shift().over(query, order_by="batch_id")
    planned = (
        _known_batches(bronze, questions)
        .with_columns(
            group=pl.lit(SPARK_GROUP_PREFIX) + pl.col("query_id"),
            source=pl.lit(CHECKPOINT),
            sequence="batch_id",
            committed_offset="end_offset",
            commit_timestamp_ms="timestamp_ms",
            previous_offset=before,
            is_last=pl.col("batch_id") == pl.col("batch_id").max().over(query),
        )
        .select(*READER, "sequence", *columns, delivered)
        .sort(*READER, "sequence")
    )
    shared = _share_starts(bronze, questions).select(*READER, "sequence", *columns, "delivered")
    return pl.concat([committed, shared, planned])


def _share_starts(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the start offsets of share partitions since their last removal."""
    at, until_ms = pl.col("log_offset"), questions.until_ms
    states = bronze.share_state
    if until_ms is not None:
        states = states.filter(pl.col("log_timestamp_ms") <= until_ms)
    is_other = (pl.col("topic_id") != pl.col("current_id")).fill_null(value=False)
    removed_at = at.filter(pl.col("tombstone")).max().over(KEY)
    start = pl.col("start_offset").forward_fill().over(KEY)
    return (
        states.filter(at > removed_at.fill_null(-1))
        .join(topic_ids(bronze, questions), on=PARTITION, how="left")
        .filter(~is_other)
        .sort(*KEY, "log_offset")
        .with_columns(committed_offset=start)
        .filter(pl.col("committed_offset").is_not_null())
        .with_columns(
            source=pl.lit(SHARE),
            sequence="log_offset",
            commit_timestamp_ms="log_timestamp_ms",
            previous_offset=pl.col("committed_offset").shift().over(KEY),
            is_last=at == at.max().over(KEY),
        )
    )


def _known_batches(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    batches, until_ms = bronze.spark_progress, questions.until_ms
    return batches if until_ms is None else batches.filter(pl.col("timestamp_ms") <= until_ms)


def in_window(questions: Questions) -> pl.Expr:
    """Return whether a position was taken within the window before the instant.

    There is no upper bound: for a past instant, later positions have been filtered out already.
    """
    return pl.col("commit_timestamp_ms") > questions.at_ms - questions.window_ms
