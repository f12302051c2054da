"""Table `offset_expiry_forecast`: which committed offsets the broker will remove, and when.

The rules are Kafka's (KIP-211): ClassicGroup.offsetExpirationCondition, its counterpart in
ConsumerGroup for KIP-848 groups, and OffsetMetadataManager.cleanupExpiredOffsets. Kafka keeps
offsets with a pending transactional commit for longer; this forecast does not know of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline import schema
from pipeline.tables import current_offsets
from pipeline.tables.columns import PARTITION
from pipeline.tables.readers import standing_groups, subscriptions
from pipeline.tables.standings import partition_facts

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions

CONSUMER_PROTOCOL_TYPE = "consumer"


def make(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the table `offset_expiry_forecast`: one row per committed offset."""
    base, position = pl.col("base"), pl.col("committed_offset")
    base_ms = (
        pl.when(base == "empty")
        .then(pl.col("state_timestamp_ms"))
        .when(base != "never")
        .then(pl.col("commit_timestamp_ms"))
    )
    expires_ms = (
        pl.when(base == "own")
        .then(pl.col("expire_timestamp_ms"))
        .otherwise(pl.col("base_ms") + questions.offsets_retention_ms)
    )
    groups = standing_groups(bronze, questions)
    readable = pl.col("subscribed").is_not_null()
    states = groups.with_columns(readable=readable).drop("subscribed", "assigned")
    facts = partition_facts(bronze, questions).select(*PARTITION, "log_start", "log_end")
    return (
        current_offsets.make(bronze, questions)
        .join(states, on="group", how="left")
        .join(subscriptions(groups), on=("group", "topic"), how="left")
        .join(facts, on=PARTITION, how="left")
        .with_columns(base=_base())
        .with_columns(base_ms=base_ms)
        .with_columns(expires_ms=expires_ms)
        .with_columns(
            latest_ms=pl.col("expires_ms") + questions.offsets_check_interval_ms,
            expires_in_ms=pl.col("expires_ms") - questions.at_ms,
            skipped_by_latest=(pl.col("log_end") - position).clip(lower_bound=0),
            repeated_by_earliest=(position - pl.col("log_start")).clip(lower_bound=0),
        )
        .select(schema.OFFSET_EXPIRY_FORECAST.names)
    )


def _base() -> pl.Expr:
    """Return the event from which the retention time of an offset runs.

    `never` takes precedence over an expiry time of the offset's own (value version 1): such a time
    replaces the retention, but does not let the offset of a subscribed topic expire.
    """
    is_modern = pl.col("is_modern").fill_null(False)
    simple = pl.col("protocol_type").is_null() & ~is_modern
    empty = pl.col("members") == 0
    is_consumer = pl.col("protocol_type") == CONSUMER_PROTOCOL_TYPE
    may_go = simple | is_modern | empty | (is_consumer & pl.col("readable"))
    kept = ~simple & ~empty & pl.col("is_subscribed").fill_null(False)
    # For classic groups only, retention is counted from the time the group became empty, if known.
    from_empty = ~simple & ~is_modern & empty & pl.col("state_timestamp_ms").is_not_null()
    return (
        pl.when(~may_go | kept)
        .then(pl.lit("never"))
        .when(pl.col("expire_timestamp_ms").is_not_null())
        .then(pl.lit("own"))
        .when(from_empty)
        .then(pl.lit("empty"))
        .otherwise(pl.lit("commit"))
    )
