"""The log end of a partition at any instant, replayed exactly from the records, without sampling.

The log end at t is one more than the greatest offset among the records with a timestamp up to t.
The running maximum is needed because producers set timestamps (CreateTime), so timestamps may be
out of order. Control records are not among the records: right after one, the real log end is higher
by one than the log end computed here.
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
    return instants.sort("t_ms").join_asof(
        _steps(bronze),
        on="t_ms",
        by=PARTITION,
        check_sortedness=False,  # Polars cannot check sortedness within groups
    )


def _steps(bronze: Bronze) -> pl.LazyFrame:
    """Return topic, partition, t_ms, log_end: the log end from each known instant on."""
    begun = pl.lit(_BEFORE_ALL_TIME).alias("t_ms"), pl.lit(0, pl.Int64).alias("log_end")
    written = bronze.topic_records.filter(pl.col("timestamp_ms").is_not_null()).select(
        *PARTITION, pl.col("timestamp_ms").alias("t_ms"), (pl.col("offset") + 1).alias("log_end")
    )
    # The log end is 0 before the first record, and always 0 in an empty log.
    first = written.filter(pl.col("log_end") == 1).select(*PARTITION, *begun)
    empty = bronze.partition_ends.filter(pl.col("log_end") == 0).select(*PARTITION, *begun)
    return (
        pl.concat([written, first, empty])
        .sort("t_ms")
        .with_columns(pl.col("log_end").cum_max().over(PARTITION))
    )
