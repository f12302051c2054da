"""Each reader's position at the instant, compared with the log start and end of its partition.

`lag`, `rates`, the forecasts and the replay plan all build on these frames, which leave out the
costly columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline.inputs import SAMPLED
from pipeline.tables.columns import PARTITION, READER
from pipeline.tables.kept import by_partition, kept
from pipeline.tables.positions import GROUP, SHARE, positions
from pipeline.tables.readers import assignments, standing_groups

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions


_HOLD = ("last_stable_offset", "held_by", "held_since_ms")


@kept
def standings(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return one row per reader's position, and one per assigned partition without a position.

    Columns: `READER`, `committed_offset`, `commit_timestamp_ms`, those of `partition_facts`, `lag`,
    `lost`, `state` (see `schema.LAG`).
    """
    last = (
        positions(bronze, questions)
        .filter("is_last")
        .select(*READER, "committed_offset", "commit_timestamp_ms", "delivered")
    )
    assigned = assignments(standing_groups(bronze, questions)).with_columns(source=pl.lit(GROUP))
    # One row per reader that has a position, an assignment or both.
    readers = (
        pl.concat([last, assigned], how="diagonal")
        .group_by(READER)
        .agg(pl.max("committed_offset", "commit_timestamp_ms", "delivered"))
    )
    joined = readers.join(partition_facts(bronze, questions), on=PARTITION, how="left")
    return _judged(joined, questions)


def _judged(joined: pl.LazyFrame, questions: Questions) -> pl.LazyFrame:
    """Return `joined` with the columns `lag`, `lost` and `state`."""
    position, log_end = pl.col("committed_offset"), pl.col("log_end")
    if questions.past:
        # Offsets between the last record at the instant and the next record hold no data (for
        # example, control records). A reader that has committed such an offset has no lag.
        between = (position > log_end) & (position <= pl.col("end_at_most"))
        joined = joined.with_columns(log_end=pl.when(between).then(position).otherwise(log_end))
    missing = position < pl.col("log_start")
    lost = pl.when(missing).then(pl.col("log_start") - position).otherwise(0)
    if questions.past:
        # The log start at the instant is unknown, but not above the current log start.
        lost = pl.when(~missing).then(pl.lit(0, pl.Int64))
        missing = pl.lit(False)
    state = (
        pl.when(position.is_null())
        .then(pl.lit("NO_COMMIT"))
        .when(log_end.is_null())
        .then(pl.lit("NO_TOPIC"))
        .when(missing)
        .then(pl.lit("LOSS"))
        .when(position > log_end)
        .then(pl.lit("AHEAD"))
        .otherwise(pl.lit("OK"))
    )
    known = position.is_not_null() & log_end.is_not_null()
    # Behind the start offset of a share group, some records may be delivered already.
    is_share, delivered = pl.col("source") == SHARE, pl.col("delivered")
    unread = log_end - position - pl.when(is_share).then(delivered).otherwise(0)
    return joined.with_columns(
        lag=pl.when(known).then(unread.clip(lower_bound=0)),
        lost=pl.when(known).then(lost),
        state=state,
    )


@by_partition
def partition_facts(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the known facts about each partition at the instant.

    Columns: `topic`, `partition`, `log_start`, `log_end`, `retention_ms`, `first_offset` (of the
    known records), `last_stable_offset`, `held_by`, `held_since_ms` (null for a past instant),
    `time`, `data_end` (see `schema.PARTITION_ENDS`),
    `last_offset` and `last_timestamp_ms` (of the last record at the instant), and, for a past
    instant only, `end_at_most`: an upper bound of the log end, whose lower bound is `log_end`.
    """
    offset, timestamp_ms = pl.col("offset"), pl.col("timestamp_ms")
    then = pl.when(timestamp_ms <= questions.at_ms).then(offset) if questions.past else offset
    from_ms = pl.col("from_ms")
    of_records = bronze.topic_records.group_by(PARTITION).agg(
        offset.min().alias("first_offset"),
        then.max().alias("last_offset"),
        timestamp_ms.get(then.arg_max()).alias("last_timestamp_ms"),
        offset.filter(timestamp_ms.is_not_null() & (offset == 0)).min().alias("began"),
        offset.filter(offset > then.max()).min().alias("next_offset"),
        # A sampled record shows that all earlier ones were written by `from_ms`.
        reached=(offset - 1).filter(from_ms <= questions.at_ms).max(),
    )
    ends = bronze.partition_ends.select(
        *PARTITION,
        "log_start",
        "log_end",
        "retention_ms",
        "time",
        "data_end",
        *(pl.lit(None).alias(name) if questions.past else pl.col(name) for name in _HOLD),
    )
    is_sampled = (pl.col("time") == SAMPLED).fill_null(value=False)
    first_offset = pl.when(is_sampled).then("log_start").otherwise("first_offset")
    if not questions.past:
        end = pl.coalesce("data_end", "last_stable_offset", "log_end")
        last_offset = pl.when(is_sampled).then(end - 1).otherwise("last_offset")
        return (
            ends.join(of_records, on=PARTITION, how="left")
            .with_columns(first_offset=first_offset, last_offset=last_offset)
            .drop("began", "next_offset", "reached")
        )
    never_written = pl.when(pl.col("log_end") == 0).then(pl.lit(0, pl.Int64))
    return (
        ends.join(of_records, on=PARTITION, how="full", coalesce=True)
        .with_columns(
            first_offset=first_offset,
            last_offset=pl.max_horizontal("last_offset", "reached"),
        )
        .with_columns(
            end_at_most=pl.coalesce("next_offset", "log_end"),
            log_end=pl.coalesce(pl.col("last_offset") + 1, "began", never_written),
        )
        .drop("began", "next_offset", "reached")
    )
