"""Two kinds of lag in time: the age of the oldest unread record, and an interpolated age.

Both are computed from the records before and after the position. Compaction and control records
leave gaps, so the oldest unread record is the first one at or above the position. With `--time
sampled` these two records bound the times, and the greatest error is a column of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline.tables.columns import PARTITION, READER
from pipeline.tables.kept import by_partition, kept
from pipeline.tables.log_ends import is_gap, time_in_gap
from pipeline.tables.positions import positions
from pipeline.tables.standings import standings

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions

_NEIGHBOURS = (
    "next_offset", "next_ms", "passed_ms", "before_offset", "before_ms", "in_gap", "gap_error_ms",
)  # fmt: skip


@kept
def standings_with_ages(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return `standings` with `oldest_unread_age_ms`, `interpolated_age_ms` and `interpolation`.

    `oldest_unread_age_error_ms` is 0 where the record at the position is known. `oldest_unread_ms`
    is the timestamp of the oldest unread record; null if no record is unread or the timestamp is
    unknown. Ages are never negative: a record whose producer's clock is ahead has the age 0.
    """
    position, lag = pl.col("committed_offset"), pl.col("lag")
    gone = position < pl.col("log_start")
    if questions.past:  # bronze may have a record that has since been removed from the log
        gone &= position < pl.col("first_offset")
    gone = pl.coalesce(gone, False)  # `gone` is null if the log start is unknown
    # For a reader without a position, every record is unread.
    first = pl.when(position.is_null()).then("first_offset").otherwise("next_offset")
    in_gap = pl.col("in_gap").fill_null(value=False)
    nothing_there = first.is_null() | ((first >= pl.col("log_end")) & ~in_gap)
    # If only control records remain, everything is read; this is known only if a record is known.
    all_read = (lag == 0) | (nothing_there & pl.col("first_offset").is_not_null() & ~gone)
    # Records behind an open transaction are unread, and the bronze table does not have them.
    stable = pl.col("last_stable_offset")
    behind = nothing_there & (lag > 0) & (stable < pl.col("log_end"))
    all_read &= ~pl.coalesce(behind, False)
    # Above the last stable offset, a reader is read_uncommitted: it is not held back, and the
    # records that it has not read are younger than the transaction by an unknown time.
    held = behind & pl.coalesce(position <= stable, True)
    all_read = pl.coalesce(all_read, False)
    unknown = lag.is_null() | nothing_there
    oldest_ms = pl.when(~(all_read | unknown | gone)).then("next_ms")
    kind = pl.when(all_read).then(pl.lit("exact")).when(~unknown).then(_kind())
    oldest_age = pl.when(all_read).then(0).otherwise(_age(questions, pl.col("oldest_unread_ms")))
    interpolated_age = pl.when(all_read).then(0).otherwise(_age(questions, _left_at_ms()))
    return (
        standings(bronze, questions)
        .join(neighbours(bronze, questions), on=READER, how="left")
        .with_columns(
            oldest_unread_ms=pl.when(held).then("held_since_ms").otherwise(oldest_ms),
            interpolation=kind,
        )
        .with_columns(
            oldest_unread_age_ms=oldest_age,
            interpolated_age_ms=interpolated_age,
        )
        .with_columns(
            oldest_unread_age_error_ms=pl.when(pl.col("oldest_unread_age_ms").is_not_null()).then(
                pl.when(all_read | held).then(0).otherwise(pl.col("gap_error_ms").fill_null(0))
            )
        )
        .drop(_NEIGHBOURS)
    )


def _age(questions: Questions, since_ms: pl.Expr) -> pl.Expr:
    rounded = since_ms.round(mode="half_away_from_zero").cast(pl.Int64)
    return (questions.at_ms - rounded).clip(lower_bound=0)


@by_partition
def neighbours(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the records around each reader's last position; a reader without one has no row.

    Columns: `READER`, `next_offset` and `next_ms` (timestamp) of the first record at or above the
    position, `passed_ms` (when the log end rose above the position: the least timestamp from this
    record on), `before_offset` and `before_ms` of the last record below the position. All are null
    if no record lies at or above the position. If the records between the two are not known
    (`in_gap`), `next_ms` is an estimate, with the greatest error `gap_error_ms`.
    """
    at_ms = pl.col("timestamp_ms")
    records = bronze.topic_records.sort("offset").select(
        *PARTITION,
        "from_ms",
        pl.col("offset").alias("next_offset"),
        at_ms.alias("next_ms"),
        # A record without a timestamp gets the smallest timestamp of the records after it.
        at_ms.cum_min(reverse=True).backward_fill().over(PARTITION).alias("passed_ms"),
        pl.col("offset").shift(1).over(PARTITION).alias("before_offset"),
        at_ms.shift(1).over(PARTITION).alias("before_ms"),
    )
    return (
        positions(bronze, questions)
        .filter("is_last")
        .select(*READER, "committed_offset")
        .sort("committed_offset")
        .join_asof(
            records,
            left_on="committed_offset",
            right_on="next_offset",
            by=PARTITION,
            strategy="forward",
            coalesce=False,
            check_sortedness=False,  # Polars cannot check sortedness within groups
        )
        .with_columns(in_gap=is_gap("committed_offset"), at_ms=time_in_gap("committed_offset"))
        .with_columns(
            # The end of the data is the end of a gap, but no record.
            next_offset=pl.when(
                pl.col("in_gap") | pl.col("next_ms").is_not_null() | pl.col("from_ms").is_null()
            ).then("next_offset"),
            next_ms=pl.when("in_gap").then("at_ms").otherwise("next_ms"),
            passed_ms=pl.when("in_gap").then("from_ms").otherwise("passed_ms"),
            gap_error_ms=pl.when("in_gap").then(
                pl.max_horizontal(
                    pl.col("from_ms") - pl.col("at_ms"), pl.col("at_ms") - pl.col("before_ms")
                ).clip(lower_bound=0)
            ),
        )
        .select(*READER, *_NEIGHBOURS)
    )


def _kind() -> pl.Expr:
    """Return how the time at which the log end was at the position is known; null if unknown.

    `exact`: a record lies at the position, and the log end stayed there until this record was
    written. `interpolated`: the position lies in a gap between two records. `extrapolated`: the
    position lies below the first known record, and the pace of all known records is used.
    """
    at_position = pl.col("next_offset") == pl.col("committed_offset")
    rises = (pl.col("last_offset") > pl.col("next_offset")) & (
        pl.col("last_timestamp_ms") > pl.col("passed_ms")
    )
    return (
        pl.when(pl.col("next_ms").is_null())
        .then(None)
        .when(at_position)
        .then(pl.lit("exact"))
        .when(pl.col("before_offset").is_null() & rises)
        .then(pl.lit("extrapolated"))
        .when(pl.col("before_ms").is_not_null())
        .then(pl.lit("interpolated"))
    )


def _left_at_ms() -> pl.Expr:
    """Return the last time, in ms, at which the log end was at the position.

    The log end is at a record's offset until the record is written (the right edge of a plateau),
    and just above this offset afterwards (the left edge of the next plateau).
    """
    following, before = pl.col("next_offset"), pl.col("before_offset")
    passed_ms = pl.col("passed_ms")
    missing = (following - pl.col("committed_offset")).cast(pl.Float64)
    reached_ms = pl.min_horizontal("before_ms", passed_ms)
    between = missing / (following - before - 1) * (passed_ms - reached_ms)
    pace = (pl.col("last_timestamp_ms") - passed_ms) / (pl.col("last_offset") - following)
    kind = pl.col("interpolation")
    return (
        pl.when(kind == "exact")
        .then(passed_ms.cast(pl.Float64))
        .when(kind == "interpolated")
        .then(passed_ms - between)
        .when(kind == "extrapolated")
        .then(passed_ms - missing * pace)
    )
