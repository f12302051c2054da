"""Table `data_loss_forecast`: where retention may remove records before somebody has read them.

Kafka removes whole segments, once their newest record is older than retention.ms: a record may go
when its own time is over, and goes later. Retention by size is not looked at; `used` shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from pipeline import schema
from pipeline.tables import rates
from pipeline.tables.unread import standings_with_ages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.inputs import Bronze, Questions


def make(bronze: Bronze, questions: Questions) -> DataFrame:
    """Columns of `schema.DATA_LOSS_FORECAST`; one row a row of `lag`."""
    pace = rates.make(bronze, questions).select("group", "topic", "partition", "catch_up_seconds")
    slack_ms, catch_up = sql.col("slack_ms"), sql.col("catch_up_seconds")
    verdict = (
        sql.when(sql.col("state") == "LOSS", "losing")
        .when(sql.col("lag") == 0, "safe")
        .when(sql.col("lag").isNull() | slack_ms.isNull(), "unknown")
        .when(catch_up.isNotNull() & (catch_up * 1000 > slack_ms), "at_risk")
        # Not catching up, as far as is known.
        .when(catch_up.isNull() & (slack_ms < questions.loss_horizon_ms), "at_risk")
        .otherwise("safe")
    )
    size = sql.col("log_end") - sql.col("log_start")
    return (
        standings_with_ages(bronze, questions)
        .join(pace, ["group", "topic", "partition"], "left")
        .withColumn("used", sql.when(size > 0, sql.col("lag") / size))
        .withColumn("slack_ms", sql.col("retention_ms") - sql.col("oldest_unread_age_ms"))
        .withColumn("loss_at_ms", sql.col("oldest_unread_ms") + sql.col("retention_ms"))
        .withColumn("verdict", verdict)
        .select(*schema.DATA_LOSS_FORECAST.names)
    )
