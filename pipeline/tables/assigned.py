"""Helpers for the column `assigned`: a list of topics with their partitions."""

from __future__ import annotations

import polars as pl


def owned(members: pl.LazyFrame, *names: str) -> pl.LazyFrame:
    """Return `names`, `topic`, `partition`: a row per partition in `assigned`; none if null.

    `members` has `assigned` and `names`. A partition with several owners has a row for each.
    """
    return (
        members.select(*names, "assigned")
        .explode("assigned", keep_nulls=False)
        .unnest("assigned")
        .explode("partitions", keep_nulls=False)
        .rename({"partitions": "partition"})
    )


def assigned_count() -> pl.Expr:
    """Return the number of partitions in the column `assigned`; null if the column is null."""
    sizes = pl.element().struct.field("partitions").list.len()
    return pl.col("assigned").list.eval(sizes).list.sum().cast(pl.Int32)
