"""Columns by which frames are joined, and expressions and rows that several tables use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions

PARTITION = ("topic", "partition")
KEY = ("group", *PARTITION)
READER = (*KEY, "source")
"""Identifies a reader of a partition in every frame made from positions."""

PLACE = ("group", "log_partition", "log_offset")
"""Identifies a record of a group in the offsets log."""


def known_records(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the rows of `offsets_log` that count: those written up to `questions.until_ms`."""
    log, until_ms = bronze.offsets_log, questions.until_ms
    return log if until_ms is None else log.filter(pl.col("log_timestamp_ms") <= until_ms)


def decoded_records(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return `known_records` without the undecodable records, which are in `dead_letters`."""
    return known_records(bronze, questions).filter(pl.col("problem").is_null())


def utc_day(timestamp_ms: str) -> pl.Expr:
    """Return the UTC day of a column of milliseconds."""
    return pl.from_epoch(timestamp_ms, time_unit="ms").dt.date()


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
