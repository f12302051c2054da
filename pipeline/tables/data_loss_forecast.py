"""Table `data_loss_forecast`: where retention may remove records before a group has read them.

Kafka removes whole segments once their newest record is older than retention.ms. A record is
therefore removed no earlier than at its own expiry. Retention by size is not computed; `used` near
1 hints at it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline import schema
from pipeline.tables import rates
from pipeline.tables.unread import standings_with_ages

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions


def make(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the table `data_loss_forecast`: one row per row of `lag`."""
    reader = ("group", "topic", "partition")
    pace = rates.make(bronze, questions).select(*reader, "catch_up_seconds")
    size = pl.col("log_end") - pl.col("log_start")
    return (
        standings_with_ages(bronze, questions)
        .join(pace, on=reader, how="left")
        .with_columns(
            used=pl.when(size > 0).then(pl.col("lag") / size),
            slack_ms=pl.col("retention_ms") - pl.col("oldest_unread_age_ms"),
            loss_at_ms=pl.col("oldest_unread_ms") + pl.col("retention_ms"),
        )
        .with_columns(verdict=_verdict(questions))
        .select(schema.DATA_LOSS_FORECAST.names)
    )


def _verdict(questions: Questions) -> pl.Expr:
    """Return `losing`, `at_risk`, `safe` or `unknown` for each reader."""
    lag, slack_ms, catch_up = pl.col("lag"), pl.col("slack_ms"), pl.col("catch_up_seconds")
    return (
        pl.when(pl.col("state") == "LOSS")
        .then(pl.lit("losing"))
        .when(lag == 0)
        .then(pl.lit("safe"))
        .when(lag.is_null() | slack_ms.is_null())
        .then(pl.lit("unknown"))
        # A sampled age may be too low by its error.
        .when(catch_up * 1000 > slack_ms - pl.col("oldest_unread_age_error_ms").fill_null(0))
        .then(pl.lit("at_risk"))
        # The forecast cannot tell whether the reader will catch up.
        .when(catch_up.is_null() & (slack_ms < questions.loss_horizon_ms))
        .then(pl.lit("at_risk"))
        .otherwise(pl.lit("safe"))
    )
