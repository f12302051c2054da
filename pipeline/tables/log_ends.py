"""The log end of a partition at any instant, and the time at which it rose above an offset.

The log end at t is one more than the greatest offset among the records with a timestamp up to t.
The running maximum is needed because producers set timestamps (CreateTime), so timestamps may be
out of order. Control records are not among the records: right after one, the real log end is higher
by one than the log end computed here.

If all records were read, both are exact. With `--time sampled`, some records are known, and for
each of them since when the log end was at its offset (`from_ms`). Between two known points, the log
end is taken to rise evenly. The time of an offset lies between the times of the two points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline.tables.columns import PARTITION

if TYPE_CHECKING:
    from pipeline.inputs import Bronze

_BEFORE_ALL_TIME = -(2**63)


def ends_at(bronze: Bronze, instants: pl.LazyFrame) -> pl.LazyFrame:
    """Return `instants` with an added column `log_end` (bigint) and the same number of rows.

    `instants` has at least `topic`, `partition` and `t_ms`, which may be null, and any other
    columns. `log_end` is 0 before the first record of a partition whose log began at 0. It is null
    where nothing is known: before the first known record of any other partition, for a null `t_ms`,
    and for an unknown partition.

    This function reads records and partition ends, so only functions marked `by_partition` may call
    it.
    """
    # A record with a timestamp of exactly t_ms counts: join_asof takes the last equal step.
    joined = instants.sort("t_ms").join_asof(
        _steps(bronze),
        left_on="t_ms",
        right_on="step_ms",
        by=PARTITION,
        check_sortedness=False,  # Polars cannot check sortedness within groups
    )
    elapsed_ms = pl.col("t_ms") - pl.col("step_ms")
    rise = (pl.col("next_end") - pl.col("log_end")) * elapsed_ms
    risen = rise // (pl.col("next_ms") - pl.col("step_ms"))
    return joined.with_columns(pl.col("log_end") + risen.fill_null(0)).drop(
        "step_ms", "next_ms", "next_end"
    )


def is_gap(position: str) -> pl.Expr:
    """Return whether it is not known which records lie between `position` and `next_offset`."""
    return (pl.col("from_ms").is_not_null() & (pl.col("next_offset") > pl.col(position))).fill_null(
        value=False
    )


def time_in_gap(position: str) -> pl.Expr:
    """Return the time of an offset in a gap: between `before_ms` and `from_ms`, by its place."""
    before, before_ms = pl.col("before_offset"), pl.col("before_ms")
    share = (pl.col(position) - before) / (pl.col("next_offset") - before)
    span_ms = (pl.col("from_ms") - before_ms).clip(lower_bound=0)
    return before_ms + (share * span_ms).round().cast(pl.Int64)


def _steps(bronze: Bronze) -> pl.LazyFrame:
    """Return topic, partition, step_ms, log_end: the log end from each known instant on.

    `next_ms` and `next_end` are the next instant and log end if the records in between are not
    known; else null.
    """
    begun = pl.lit(_BEFORE_ALL_TIME).alias("t_ms"), pl.lit(0, pl.Int64).alias("log_end")
    written = bronze.topic_records.filter(pl.col("timestamp_ms").is_not_null()).select(
        *PARTITION, pl.col("timestamp_ms").alias("t_ms"), (pl.col("offset") + 1).alias("log_end")
    )
    # The log end is 0 before the first record, and always 0 in an empty log.
    first = written.filter(pl.col("log_end") == 1).select(*PARTITION, *begun)
    empty = bronze.partition_ends.filter(pl.col("log_end") == 0).select(*PARTITION, *begun)
    # Just before a sampled record was written, the log end was at its offset.
    sampled = bronze.topic_records.filter(pl.col("from_ms").is_not_null()).select(
        *PARTITION, t_ms="from_ms", log_end="offset", is_sampled=pl.lit(True)
    )
    next_step = pl.col("t_ms", "log_end").shift(-1)
    return (
        pl.concat([written, first, empty, sampled], how="diagonal")
        .sort("t_ms", "log_end")
        .with_columns(pl.col("log_end").cum_max().over(PARTITION))
        .with_columns(
            pl.when(pl.col("is_sampled").shift(-1))
            .then(next_step)
            .over(PARTITION)
            .name.prefix("next_")
        )
        .select(*PARTITION, "log_end", "next_log_end", step_ms="t_ms", next_ms="next_t_ms")
        .rename({"next_log_end": "next_end"})
    )
