"""Names, types and meanings of every table and column of the pipeline.

Spark's schemas, Arrow's schemas, the check of written tables and docs/pipeline-tables.md are all
derived from this package. Columns ending in `_ms` are milliseconds since the epoch (UTC), or
durations in ms. Offsets are Kafka's: a committed offset and a log end offset name the next record.
A column is null where its value is unknown or does not apply; 0 and -1 are never placeholders.
"""

from __future__ import annotations

from pipeline.schema.bronze import (
    GROUP_EVENTS,
    MEMBER,
    OFFSET_TIMES,
    OFFSETS_LOG,
    PARTITION_ENDS,
    RAW,
    SHARE_STATE,
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

BRONZE = (
    OFFSETS_LOG, TOPIC_RECORDS, OFFSET_TIMES, PARTITION_ENDS, GROUP_EVENTS, SHARE_STATE,
    SPARK_PROGRESS,
)  # fmt: skip
"""The tables that hold the decoded input. All other tables are computed from these."""

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
"""The tables computed from bronze. `COVERAGE` describes the run itself and is not in this list."""

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
    "OFFSET_TIMES",
    "PARTITION_ENDS",
    "RATES",
    "RAW",
    "REBALANCES",
    "REPLAY_PLAN",
    "SHARE_STATE",
    "SPARK_PROGRESS",
    "STATUS",
    "TABLES",
    "TOPIC_RECORDS",
    "Column",
    "Table",
]
