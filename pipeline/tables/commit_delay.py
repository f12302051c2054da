"""The third kind of lag in time: from a record's timestamp to the commit that covered the record.

No Kafka API returns commit timestamps, so other tools cannot compute this delay. Every record
counts up to a limit. Above the limit, every n-th offset of a reader's partition counts, where n
depends only on how many records the reader read. This bounds the cost for any number of groups, and
a repeated run gives the same numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline.tables.columns import PARTITION, READER
from pipeline.tables.kept import by_partition
from pipeline.tables.positions import in_window, positions

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions

RECORDS_MOST_OF_PARTITION = 30_000
"""The maximum number of pairs of reader and record examined in a partition, shared by its
readers."""

_DELAYS = pl.col("delays_ms").list.len().cast(pl.Int64)


@by_partition
def delays_of_readers(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return `commit_delays` with the default limit."""
    return commit_delays(bronze, questions)


def commit_delays(
    bronze: Bronze, questions: Questions, records_most: int = RECORDS_MOST_OF_PARTITION
) -> pl.LazyFrame:
    """Return `READER`, `commit_delay_p50_ms`, `commit_delay_p99_ms`, `commit_delay_records`.

    The delays are those of the records in [previous position, position) of every position taken
    within the window; a reader without such records has no row. Records read again after a rewind
    count again. At most `records_most` pairs of reader and record are examined in a partition, but
    at least one per reader. A percentile is always an actual delay: the least one with at least
    this percentage of all delays at or below it.
    """
    timed = _read(bronze).filter(pl.col("timestamp_ms").is_not_null())
    delay = (pl.col("commit_timestamp_ms") - pl.col("timestamp_ms")).clip(lower_bound=0)
    return (
        _covered_offsets(bronze, questions, records_most)
        .join(timed, on=[*PARTITION, "offset"])
        .group_by(READER)
        .agg(delay.alias("delays_ms"))
        .with_columns(pl.col("delays_ms").list.sort())
        .select(
            *READER,
            _percentile(50).alias("commit_delay_p50_ms"),
            _percentile(99).alias("commit_delay_p99_ms"),
            _DELAYS.alias("commit_delay_records"),
        )
    )


def _read(bronze: Bronze) -> pl.LazyFrame:
    """Return `PARTITION`, `offset`, `timestamp_ms` of the records that were read.

    Sampled records are not a fair sample: they were unread at the time of a run.
    """
    read = bronze.topic_records.filter(pl.col("from_ms").is_null())
    return read.select(*PARTITION, "offset", "timestamp_ms")


def _percentile(percent: int) -> pl.Expr:
    """Return the least delay with at least `percent` % of all delays at or below it."""
    return pl.col("delays_ms").list.get((_DELAYS * percent + 99) // 100 - 1)


def _covered_offsets(bronze: Bronze, questions: Questions, records_most: int) -> pl.LazyFrame:
    """Return `READER`, `commit_timestamp_ms`, `offset` of all, or of every n-th, covered offset."""
    taken = positions(bronze, questions)
    share = (
        taken.filter("is_last")
        .group_by(PARTITION)
        .agg((records_most // pl.len().cast(pl.Int64)).clip(lower_bound=1).alias("share"))
    )
    span = _read(bronze).group_by(PARTITION).agg(least=pl.min("offset"), most=pl.max("offset"))
    start, stop, stride = pl.col("start"), pl.col("stop"), pl.col("stride")
    records = (stop - start).sum().over(READER)
    return (
        taken.filter(in_window(questions) & pl.col("previous_offset").is_not_null())
        .join(span.join(share, on=PARTITION), on=PARTITION)
        .select(
            *READER,
            "commit_timestamp_ms",
            "share",
            pl.max_horizontal("previous_offset", "least").alias("start"),
            pl.min_horizontal("committed_offset", pl.col("most") + 1).alias("stop"),
        )
        .filter(start < stop)
        .with_columns(stride=_ceiling(records, pl.col("share")))
        .with_columns(first=_ceiling(start, stride) * stride)
        .select(
            *READER,
            "commit_timestamp_ms",
            pl.int_ranges("first", "stop", stride).alias("offset"),
        )
        .explode("offset", empty_as_null=False)
    )


def _ceiling(dividend: pl.Expr, divisor: pl.Expr) -> pl.Expr:
    """Return the quotient, rounded up, of two non-negative integers."""
    return (dividend + divisor - 1) // divisor
