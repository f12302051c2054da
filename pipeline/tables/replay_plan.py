"""Table `replay_plan`: the effect of resetting each group to an instant, without resetting it.

A target offset is the one that ListOffsets returns for a timestamp: that of the first record with a
timestamp at or after the instant. Groups with members are refused, as kafka-consumer-groups refuses
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline import schema
from pipeline.inputs import SAMPLED
from pipeline.tables.columns import PARTITION
from pipeline.tables.kept import by_partition
from pipeline.tables.positions import GROUP
from pipeline.tables.readers import standing_groups
from pipeline.tables.standings import partition_facts, standings

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions


def make(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the table `replay_plan`; without rows if `replay_from_ms` is null."""
    members = pl.col("members").fill_null(0)
    refusal = (
        pl.when(members > 0)
        .then(pl.format("the group is not empty: members {}", members))
        .when(pl.col("log_end").is_null())
        .then(pl.lit("the topic is not known"))
        .when(pl.col("target_offset").is_null())
        .then(pl.lit("the topic's records are not known"))
    )
    asked = pl.lit(questions.replay_from_ms, dtype=pl.Int64)
    return (
        standings(bronze, questions)
        .filter((pl.col("source") == GROUP) & asked.is_not_null())
        .join(standing_groups(bronze, questions).select("group", "members"), on="group", how="left")
        .join(targets(bronze, questions), on=PARTITION, how="left")
        .with_columns(
            replay_from_ms=asked,
            change=pl.col("target_offset") - pl.col("committed_offset"),
            records_to_read=pl.col("log_end") - pl.col("target_offset"),
            refusal=refusal,
            allowed=refusal.is_null(),
        )
        .select(schema.REPLAY_PLAN.names)
    )


@by_partition
def targets(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return `PARTITION`, target_offset, bytes_to_read.

    The target is null for a log that is not empty but of which no record is known: the log end
    would skip its records. With `--time sampled` the size is unknown, and so is the target unless
    the run asked for this instant.
    """
    facts = partition_facts(bronze, questions).select(
        *PARTITION, "log_start", "log_end", "first_offset", "time"
    )
    offset, log_start, log_end = pl.col("offset"), pl.col("log_start"), pl.col("log_end")
    asked = pl.lit(questions.replay_from_ms, dtype=pl.Int64)
    first_wanted = offset.filter(pl.col("timestamp_ms") >= asked).min()
    # The records between two sampled ones are older than `from_ms` of the second one.
    has_gap = (
        pl.col("from_ms").filter((offset == first_wanted) & (offset > log_start)).min() >= asked
    )
    # If no record is at or after the instant, the target is the log end: nothing is read again.
    bytes_wanted = pl.col("record_bytes").cast(pl.Int64).filter(offset >= first_wanted).sum()
    wanted = (
        bronze.topic_records.join(facts, on=PARTITION)
        # Bronze may still have records below the log start, which cannot be read again.
        .filter((offset < log_end) & (offset >= log_start.fill_null(0)))
        .group_by(PARTITION)
        .agg(
            first_wanted.alias("first_wanted"),
            bytes_wanted.alias("bytes_wanted"),
            has_gap=has_gap.fill_null(value=False),
        )
    )
    # Of a partition with sampled times, the last record is known.
    is_sampled = (pl.col("time") == SAMPLED).fill_null(value=False)
    known = pl.col("first_offset").is_not_null() | (log_start == log_end)
    return (
        facts.join(wanted, on=PARTITION, how="left")
        .with_columns(
            target_offset=pl.when(~pl.col("has_gap").fill_null(value=False)).then(
                pl.coalesce("first_wanted", pl.when(known).then(log_end))
            )
        )
        .select(
            *PARTITION,
            "target_offset",
            bytes_to_read=pl.when(pl.col("target_offset").is_not_null() & ~is_sampled).then(
                pl.col("bytes_wanted").fill_null(0)
            ),
        )
    )
