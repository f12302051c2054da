"""Every member of every generation, with what it subscribed to and was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from pipeline import schema
from pipeline.decode.kinds import CLASSIC
from pipeline.tables import kip848
from pipeline.tables.kept import kept
from pipeline.tables.known import decoded_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.inputs import Bronze, Questions


@kept
def make(bronze: Bronze, questions: Questions) -> DataFrame:
    """The table `group_members`. Members of KIP-848 groups: see `kip848`."""
    records = decoded_records(bronze, questions)
    return _classic(records).unionByName(kip848.members(records))


def _classic(records: DataFrame) -> DataFrame:
    place = ("group", "generation", "leader", "log_partition", "log_offset")
    return (
        records.where(sql.col("kind") == CLASSIC)
        .select(*place, sql.explode("members").alias("member"))
        .select(*place, "member.*")
        .withColumn(
            "is_leader", sql.coalesce(sql.col("member_id") == sql.col("leader"), sql.lit(False))
        )
        .withColumn("assigned_count", kip848.assigned_count())
        .select(*schema.GROUP_MEMBERS.names)
    )
