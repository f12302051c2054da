"""Decode records of `__group_events`; docs/rebalances.md describes their JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from pipeline import schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RECORD = (
    "`group` string, generation_before int, generation int, trigger string, reason string, "
    "culprit struct<instance: string, client_id: string>, started_ms bigint, ended_ms bigint, "
    "join_ms bigint, sync_ms bigint, outcome string"
)


def group_events(raw: DataFrame) -> DataFrame:
    """Decode `log_offset` and `value` to `schema.GROUP_EVENTS`; invalid JSON is left out."""
    record = F.from_json(F.col("value").cast("string"), _RECORD)
    said = raw.select(F.col("log_offset").alias("event_offset"), record.alias("said"))
    culprit = F.coalesce("said.culprit.instance", "said.culprit.client_id").alias("culprit")
    # Loading a group and a failed rebalance create no new generation.
    generation = F.col("said.generation")
    is_new = ~generation.eqNullSafe(F.col("said.generation_before"))
    columns = [
        {
            "event_offset": F.col("event_offset"),
            "culprit": culprit,
            "generation": F.when(is_new, generation).alias("generation"),
        }.get(name, F.col(f"said.{name}"))
        for name in schema.GROUP_EVENTS.names
    ]
    return said.select(*columns).filter(F.col("group").isNotNull())
