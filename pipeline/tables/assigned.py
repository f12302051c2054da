"""What members were given: the column `assigned`, of topics and their partitions."""

from __future__ import annotations

import polars as pl


def owned(members: pl.LazyFrame, *names: str) -> pl.LazyFrame:
    """`names`, `topic`, `partition`: a row for each partition in `assigned`, none where it is null.

    `members` has `assigned` and `names`; of one partition there are as many rows as owners.
    """
    return (
        members.select(*names, "assigned")
        .explode("assigned", keep_nulls=False)
        .unnest("assigned")
        .explode("partitions", keep_nulls=False)
        .rename({"partitions": "partition"})
    )


def assigned_count() -> pl.Expr:
    """How many partitions the column `assigned` holds; null if that is null."""
    sizes = pl.element().struct.field("partitions").list.len()
    return pl.col("assigned").list.eval(sizes).list.sum().cast(pl.Int32)
