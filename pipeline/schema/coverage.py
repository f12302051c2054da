"""The one-row table `coverage`: what a run covered, shown at the head of the report."""

from __future__ import annotations

from pipeline.schema.table import Column, Table

COVERAGE = Table(
    "coverage",
    "What the last run covered: one row. Without it the other tables do not say of which cluster "
    "they are, and what is missing in them.",
    ("at_ms",),
    (
        Column("at_ms", "bigint", "The instant that all tables are about."),
        Column("window_ms", "bigint", "How far rates, status and hygiene look back."),
        Column(
            "cluster_id",
            "string",
            "Id of the cluster, by DescribeCluster or `meta.properties`; null: not known.",
        ),
        Column("input", "string", "The bootstrap addresses, or the log directory."),
        Column("groups", "string", "The pattern of `--groups`; null: all groups."),
        Column("first_log_ms", "bigint", "Timestamp of the oldest record of the offsets log."),
        Column("read_ms", "bigint", "When the ends of partitions were looked at; null: none were."),
        Column("notes", "array<string>", "What is missing or damaged, a line each."),
    ),
)
