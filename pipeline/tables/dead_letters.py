"""Records that could not be decoded: counted and shown, never a reason to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from pipeline import schema
from pipeline.tables.known import known_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.inputs import Bronze, Questions


def make(bronze: Bronze, questions: Questions) -> DataFrame:
    """The table `dead_letters`."""
    return (
        known_records(bronze, questions)
        .where(sql.col("problem").isNotNull())
        .withColumn("reason", sql.col("problem"))
        .select(*schema.DEAD_LETTERS.names)
    )
