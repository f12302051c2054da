"""The log end of a partition at any instant, replayed from the records: exact, without sampling.

The log end at t is one more than the greatest offset among the records with a timestamp up to t:
a running maximum, because producers set timestamps (CreateTime) and these may be out of order.
What no record shows is not seen here: after a control record the log end is one higher than this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline.tables.keys import PARTITION

if TYPE_CHECKING:
    from pipeline.inputs import Bronze

_BEFORE_ALL_TIME = -(2**63)


def ends_at(bronze: Bronze, instants: pl.LazyFrame) -> pl.LazyFrame:
    """`instants` with a column `log_end` (bigint) added; each row is kept once.

    `instants` has at least `topic`, `partition` and `t_ms`, which may be null, and any other
    columns. `log_end` is 0 before the first record of a partition whose log began at 0, and null
    where nothing is known: an instant before the first known record, no instant, no such partition.

    It looks at records and ends: only what is made by partition may call it.
    """
    # What happened at the very instant counts: the last step of equal ones is found.
    return instants.sort("t_ms").join_asof(
        _steps(bronze),
        on="t_ms",
        by=PARTITION,
        check_sortedness=False,  # it cannot be checked within groups
    )


def _steps(bronze: Bronze) -> pl.LazyFrame:
    """What the log end was from each known instant on: topic, partition, t_ms, log_end."""
    begun = pl.lit(_BEFORE_ALL_TIME).alias("t_ms"), pl.lit(0, pl.Int64).alias("log_end")
    written = bronze.topic_records.filter(pl.col("timestamp_ms").is_not_null()).select(
        *PARTITION, pl.col("timestamp_ms").alias("t_ms"), (pl.col("offset") + 1).alias("log_end")
    )
    # A log whose record 0 is known held nothing before it; one that ends at 0 never did.
    first = written.filter(pl.col("log_end") == 1).select(*PARTITION, *begun)
    empty = bronze.partition_ends.filter(pl.col("log_end") == 0).select(*PARTITION, *begun)
    return (
        pl.concat([written, first, empty])
        .sort("t_ms")
        .with_columns(pl.col("log_end").cum_max().over(PARTITION))
    )
