"""What is known at the instant asked for: the records of the offsets log that count then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.inputs import Bronze, Questions


def known_records(bronze: Bronze, questions: Questions) -> DataFrame:
    """Rows of `offsets_log` that count: for a past instant, those written up to it."""
    log = bronze.offsets_log
    return log.where(sql.col("log_timestamp_ms") <= questions.at_ms) if questions.past else log


def decoded_records(bronze: Bronze, questions: Questions) -> DataFrame:
    """The same without the records that could not be decoded; `dead_letters` has those."""
    return known_records(bronze, questions).where(sql.col("problem").isNull())


def utc_day(timestamp_ms: str) -> Column:
    """The UTC day of a column of milliseconds."""
    return sql.to_date(sql.timestamp_millis(sql.col(timestamp_ms)))
