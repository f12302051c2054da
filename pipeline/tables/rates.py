"""Table `rates`: how fast partitions are written and read, and when readers will catch up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline import schema
from pipeline.tables.columns import PARTITION, READER
from pipeline.tables.kept import by_partition, kept
from pipeline.tables.positions import positions
from pipeline.tables.stalls import stalls

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions

DEAD_BAND_PER_SECOND = 1.0
DEAD_BAND_SHARE = 0.01
"""The velocity is 0 if production and consumption differ by no more than this share of the faster
of the two, or by no more than `DEAD_BAND_PER_SECOND`."""


@kept
def make(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the table `rates`: one row per row of `lag`."""
    produced_rate, consumed_rate = pl.col("produced_per_second"), pl.col("consumed_per_second")
    difference = produced_rate - consumed_rate
    band = pl.max_horizontal(
        pl.lit(DEAD_BAND_PER_SECOND),
        pl.max_horizontal(produced_rate, consumed_rate) * DEAD_BAND_SHARE,
    )
    lag, velocity = pl.col("lag"), pl.col("velocity")
    never_written = pl.when(pl.col("log_end") == 0).then(0.0)
    return (
        stalls(bronze, questions)
        .join(_consumed(bronze, questions), on=READER, how="left")
        .join(produced(bronze, questions), on=PARTITION, how="left")
        .with_columns(
            pl.coalesce(produced_rate, never_written),
            pl.when("is_still").then(0.0).otherwise(consumed_rate).alias("consumed_per_second"),
            pl.lit(questions.window_ms, pl.Int64).alias("window_ms"),
        )
        # If a rate is unknown, so are the difference and the velocity.
        .with_columns(velocity=pl.when(difference.abs() <= band).then(0.0).otherwise(difference))
        .with_columns(
            catch_up_seconds=pl.when(lag == 0).then(0.0).when(velocity < 0).then(lag / -velocity),
            trend=_trend(),
        )
        .select(schema.RATES.names)
    )


def _trend() -> pl.Expr:
    velocity = pl.col("velocity")
    still = pl.col("consumed_per_second").fill_null(0.0) == 0
    return (
        pl.when((pl.col("produced_per_second") == 0) & still)
        .then(pl.lit("idle"))
        .when(velocity.is_null())
        .then(pl.lit("unknown"))
        .when(velocity > 0)
        .then(pl.lit("growing"))
        .when(velocity < 0)
        .then(pl.lit("shrinking"))
        .otherwise(pl.lit("steady"))
    )


def _consumed(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the rise of the position per second, up to the instant.

    The rise is measured from the begin of the window, or from the first known position if this is
    within the window. A reader whose only position is within the window has no rate.
    """
    begin_ms = questions.at_ms - questions.window_ms
    at_ms, sequence, offset = (
        pl.col("commit_timestamp_ms"), pl.col("sequence"), pl.col("committed_offset"),
    )  # fmt: skip
    before = sequence.filter(at_ms <= begin_ms).max()
    first = pl.coalesce(before, sequence.min())
    elapsed_ms = questions.at_ms - pl.max_horizontal("first_ms", pl.lit(begin_ms))
    return (
        positions(bronze, questions)
        .filter(at_ms.is_not_null())
        .group_by(READER)
        .agg(
            rise=offset.get(sequence.arg_max()) - offset.filter(sequence == first).first(),
            first_ms=at_ms.filter(sequence == first).first(),
            known=before.is_not_null() | (pl.len() > 1),
        )
        .filter(pl.col("known") & (elapsed_ms > 0))
        .select(*READER, consumed_per_second=pl.col("rise") * 1000 / elapsed_ms)
    )


@by_partition
def produced(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return `PARTITION`, `produced_per_second`: the log end's rise per second over the window.

    The log ends at both sides of the window are replayed from the records, so a control record at
    the end is not counted if all records were read. If the first known record lies within the
    window, the topic is younger than the window, or older records were removed: the rise is then
    measured from this record on.
    """
    begin_ms = questions.at_ms - questions.window_ms
    at_ms, offset, from_ms = pl.col("timestamp_ms"), pl.col("offset"), pl.col("from_ms")
    counted = at_ms <= questions.at_ms if questions.past else at_ms.is_not_null()
    # From `from_ms` on, the log end was at the offset of a sampled record.
    reached = from_ms <= questions.at_ms if questions.past else from_ms.is_not_null()
    before = [(offset + 1).filter(at_ms <= begin_ms), offset.filter(from_ms <= begin_ms)]
    start_offset = pl.coalesce("end_before", "first_offset")
    start_ms = pl.when(pl.col("end_before").is_not_null()).then(begin_ms).otherwise("first_ms")
    elapsed_ms = questions.at_ms - start_ms
    return (
        bronze.topic_records.filter(counted | reached)
        .group_by(PARTITION)
        .agg(
            pl.max_horizontal(
                (offset + 1).filter(counted).max(), offset.filter(reached).max()
            ).alias("end"),
            pl.max_horizontal(*(known.max() for known in before)).alias("end_before"),
            offset.min().alias("first_offset"),
            pl.coalesce(at_ms, from_ms).get(offset.arg_min()).alias("first_ms"),
        )
        .filter(elapsed_ms > 0)
        .select(
            *PARTITION,
            ((pl.col("end") - start_offset) * 1000 / elapsed_ms).alias("produced_per_second"),
        )
    )
