"""Table `group_members`: members of every generation with their subscriptions and assignments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline import schema
from pipeline.decode.kinds import CLASSIC
from pipeline.schema.arrow import polars_schema
from pipeline.tables import kip848
from pipeline.tables.columns import assigned_count, decoded_records
from pipeline.tables.kept import kept

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions


@kept
def make(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the table `group_members`: classic groups here, KIP-848 groups from `kip848`."""
    records = decoded_records(bronze, questions)
    return pl.concat([_classic(records), kip848.members(bronze, questions)])


def _classic(records: pl.LazyFrame) -> pl.LazyFrame:
    epochs_type = polars_schema(schema.GROUP_MEMBERS)["assignment_epochs"]
    place = ("group", "generation", "leader", "log_partition", "log_offset")
    return (
        records.filter(pl.col("kind") == CLASSIC)
        .select(*place, pl.col("members").alias("member"))
        .explode("member", keep_nulls=False)
        .unnest("member")
        .with_columns(
            is_leader=(pl.col("member_id") == pl.col("leader")).fill_null(False),
            assigned_count=assigned_count(),
            assignment_epochs=pl.lit(None, epochs_type),
        )
        .select(schema.GROUP_MEMBERS.names)
    )
