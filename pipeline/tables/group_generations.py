"""Table `group_generations`: generations of classic groups (key type 2), epochs of all others.

Each record is one row. A classic group writes its record again when a static member returns within
a generation, so a generation may have several rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline import schema
from pipeline.decode.kinds import CLASSIC, EPOCHS
from pipeline.tables import group_members, kip848
from pipeline.tables.columns import PLACE, decoded_records, utc_day
from pipeline.tables.kept import kept

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions

_KINDS = (CLASSIC, *EPOCHS)


@kept
def make(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the table `group_generations`."""
    records = decoded_records(bronze, questions)
    counts = kip848.member_counts(records).rename({"members": "counted"})
    times = kip848.assignment_times(records)
    sizes = (
        group_members.make(bronze, questions)
        .group_by(PLACE)
        .agg(_sum_or_null("assigned_count").cast(pl.Int32).alias("owned"))
    )
    events = records.filter(pl.col("kind").is_in(_KINDS) & pl.col("group").is_not_null())
    classic = pl.col("kind") == CLASSIC
    size = pl.col("members").list.len().cast(pl.Int32)
    # `sizes` has no row for a generation without members: it owns 0 partitions.
    owned = pl.when(pl.col("members") == 0).then(0).otherwise(pl.col("owned"))
    return (
        events.join(counts, on=PLACE, how="left")
        .join(times, on=PLACE, how="left")
        .join(sizes, on=PLACE, how="left")
        .with_columns(
            group_type=pl.when(classic).then(pl.lit("classic")).otherwise(_prefix()),
            members=pl.when(classic).then(size).otherwise(pl.col("counted")),
            day=utc_day("log_timestamp_ms"),
        )
        .with_columns(
            event=_event(),
            members=_unless_tombstone(pl.col("members")),
            partitions=_unless_tombstone(owned),
            generation=_unless_tombstone(pl.col("generation")),
        )
        .select(schema.GROUP_GENERATIONS.names)
    )


def last_of_group(generations: pl.LazyFrame) -> pl.LazyFrame:
    """Return each group's last row: its state at the instant, or `tombstone` if it was removed.

    `generations` has the columns of `group_generations`.
    """
    return generations.sort("log_offset", "log_partition").unique("group", keep="last")


def _prefix() -> pl.Expr:
    return pl.col("kind").str.split("_").list.first()


def _event() -> pl.Expr:
    return (
        pl.when(pl.col("tombstone"))
        .then(pl.lit("tombstone"))
        .when(pl.col("members") == 0)
        .then(pl.lit("empty"))
        .otherwise(pl.lit("generation"))
    )


def _unless_tombstone(value: pl.Expr) -> pl.Expr:
    return pl.when(~pl.col("tombstone")).then(value)


def _sum_or_null(name: str) -> pl.Expr:
    """Return the sum; null if any value is null."""
    return pl.when(pl.col(name).is_not_null().all()).then(pl.col(name).sum())
