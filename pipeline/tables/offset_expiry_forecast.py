"""Table `offset_expiry_forecast`: which committed offsets the broker will remove, and when.

The rules are those of Kafka 4.1: ClassicGroup.offsetExpirationCondition, ConsumerGroup's for
KIP-848 groups, and OffsetMetadataManager.cleanupExpiredOffsets; KIP-211 says why. Offsets that a
transaction still holds back cannot be told from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from pipeline import schema
from pipeline.tables import current_offsets
from pipeline.tables.readers import standing_groups
from pipeline.tables.standings import PARTITION, partition_facts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pipeline.inputs import Bronze, Questions

CONSUMER_PROTOCOL_TYPE = "consumer"


def make(bronze: Bronze, questions: Questions) -> DataFrame:
    """Columns of `schema.OFFSET_EXPIRY_FORECAST`; one row a committed offset."""
    position = sql.col("committed_offset")
    base, commit_ms = sql.col("base"), sql.col("commit_timestamp_ms")
    expires_ms = sql.when(base == "own", sql.col("expire_timestamp_ms")).otherwise(
        sql.col("base_ms") + questions.offsets_retention_ms
    )
    return (
        current_offsets.make(bronze, questions)
        .join(standing_groups(bronze, questions).drop("assigned"), "group", "left")
        .join(partition_facts(bronze, questions), list(PARTITION), "left")
        .withColumn("base", _base())
        .withColumn(
            "base_ms",
            sql.when(base == "empty", sql.col("state_timestamp_ms")).when(
                base != "never", commit_ms
            ),
        )
        .withColumn("expires_ms", expires_ms)
        .withColumn("latest_ms", sql.col("expires_ms") + questions.offsets_check_interval_ms)
        .withColumn("expires_in_ms", sql.col("expires_ms") - questions.at_ms)
        .withColumn("skipped_by_latest", _not_below_zero(sql.col("log_end") - position))
        .withColumn("repeated_by_earliest", _not_below_zero(position - sql.col("log_start")))
        .select(*schema.OFFSET_EXPIRY_FORECAST.names)
    )


def _not_below_zero(number: Column) -> Column:
    return sql.when(number < 0, 0).otherwise(number)


def _base() -> Column:
    """What the time of an offset runs from.

    Whether a group lets go of an offset at all comes first: an expiry of its own (value version 1)
    takes the place of the retention, it does not free a topic that somebody reads.
    """
    simple = sql.col("protocol_type").isNull() & ~sql.coalesce("is_modern", sql.lit(False))
    empty = sql.col("members") == 0
    readable = sql.col("subscribed").isNotNull()
    subscribed = sql.array_contains("subscribed", sql.col("topic"))
    is_consumer = sql.col("protocol_type") == CONSUMER_PROTOCOL_TYPE
    may_go = simple | sql.col("is_modern") | empty | (is_consumer & readable)
    kept = ~simple & ~empty & sql.coalesce(subscribed, sql.lit(False))
    # Only a classic group's time runs from when it became empty; if that is known.
    from_empty = ~simple & ~sql.col("is_modern") & empty & sql.col("state_timestamp_ms").isNotNull()
    return (
        sql.when(~may_go | kept, "never")
        .when(sql.col("expire_timestamp_ms").isNotNull(), "own")
        .when(from_empty, "empty")
        .otherwise("commit")
    )
