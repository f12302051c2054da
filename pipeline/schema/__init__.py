"""Every table of the pipeline, column by column: the one truth of names, types and meanings.

Spark's schemas, Arrow's schemas, the check of what is written and docs/pipeline-tables.md come from
here. Times are milliseconds since the epoch, UTC (`_ms`); offsets are those of Kafka: a committed
offset and a log end name the next record. A column is null where a thing is unknown or does not
apply, never 0 or -1 in its place.
"""

from __future__ import annotations

from pipeline.schema.bronze import (
    GROUP_EVENTS,
    MEMBER,
    OFFSETS_LOG,
    PARTITION_ENDS,
    RAW,
    SPARK_PROGRESS,
    TOPIC_RECORDS,
)
from pipeline.schema.coverage import COVERAGE
from pipeline.schema.groups import (
    ABANDONED_GROUPS,
    DEAD_LETTERS,
    GROUP_GENERATIONS,
    GROUP_MEMBERS,
    MEMBER_SKEW,
    REBALANCES,
    STATUS,
)
from pipeline.schema.offsets import (
    COMMIT_HYGIENE,
    CURRENT_OFFSETS,
    DATA_LOSS_FORECAST,
    LAG,
    OFFSET_COMMITS,
    OFFSET_EXPIRY_FORECAST,
    RATES,
    REPLAY_PLAN,
)
from pipeline.schema.table import Column, Table

BRONZE = (OFFSETS_LOG, TOPIC_RECORDS, PARTITION_ENDS, GROUP_EVENTS, SPARK_PROGRESS)
"""What is read and kept; everything else is made from these."""

TABLES = (
    OFFSET_COMMITS,
    CURRENT_OFFSETS,
    LAG,
    RATES,
    STATUS,
    GROUP_GENERATIONS,
    GROUP_MEMBERS,
    REBALANCES,
    MEMBER_SKEW,
    ABANDONED_GROUPS,
    OFFSET_EXPIRY_FORECAST,
    DATA_LOSS_FORECAST,
    COMMIT_HYGIENE,
    REPLAY_PLAN,
    DEAD_LETTERS,
)
"""What is made from bronze. `COVERAGE` is about the run itself."""

__all__ = [
    "ABANDONED_GROUPS",
    "BRONZE",
    "COMMIT_HYGIENE",
    "COVERAGE",
    "CURRENT_OFFSETS",
    "DATA_LOSS_FORECAST",
    "DEAD_LETTERS",
    "GROUP_EVENTS",
    "GROUP_GENERATIONS",
    "GROUP_MEMBERS",
    "LAG",
    "MEMBER",
    "MEMBER_SKEW",
    "OFFSETS_LOG",
    "OFFSET_COMMITS",
    "OFFSET_EXPIRY_FORECAST",
    "PARTITION_ENDS",
    "RATES",
    "RAW",
    "REBALANCES",
    "REPLAY_PLAN",
    "SPARK_PROGRESS",
    "STATUS",
    "TABLES",
    "TOPIC_RECORDS",
    "Column",
    "Table",
]
