"""What is known at the instant asked for: the records of the offsets log that count then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions


def known_records(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Rows of `offsets_log` that count: for a past instant, those written up to it."""
    log = bronze.offsets_log
    return log.filter(pl.col("log_timestamp_ms") <= questions.at_ms) if questions.past else log


def decoded_records(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """The same without the records that could not be decoded; `dead_letters` has those."""
    return known_records(bronze, questions).filter(pl.col("problem").is_null())


def utc_day(timestamp_ms: str) -> pl.Expr:
    """The UTC day of a column of milliseconds."""
    return pl.from_epoch(timestamp_ms, time_unit="ms").dt.date()
