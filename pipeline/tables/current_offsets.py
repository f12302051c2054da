"""Table `current_offsets`: the committed offset of every key that no tombstone has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline import schema
from pipeline.tables.positions import commits_that_live

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.inputs import Bronze, Questions


def make(bronze: Bronze, questions: Questions) -> DataFrame:
    """Columns of `schema.CURRENT_OFFSETS`."""
    return (
        commits_that_live(bronze, questions)
        .where("is_last")
        .withColumnRenamed("number", "commits")
        .select(*schema.CURRENT_OFFSETS.names)
    )
