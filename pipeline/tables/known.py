"""The records of the offsets log that count at the instant of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions


def known_records(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the rows of `offsets_log` that count; for a past instant, those written up to it."""
    log = bronze.offsets_log
    return log.filter(pl.col("log_timestamp_ms") <= questions.at_ms) if questions.past else log


def decoded_records(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return `known_records` without the undecodable records, which are in `dead_letters`."""
    return known_records(bronze, questions).filter(pl.col("problem").is_null())


def utc_day(timestamp_ms: str) -> pl.Expr:
    """Return the UTC day of a column of milliseconds."""
    return pl.from_epoch(timestamp_ms, time_unit="ms").dt.date()
