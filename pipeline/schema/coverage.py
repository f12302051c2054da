"""The one-row table `coverage`: what a run covered, shown at the head of the report."""

from __future__ import annotations

from pipeline.schema.table import Column, Table

COVERAGE = Table(
    "coverage",
    "One row about the last run: the cluster, the time, and the data that is missing "
    "in the other tables.",
    ("at_ms",),
    (
        Column("at_ms", "bigint", "Time for which all tables are computed."),
        Column("window_ms", "bigint", "Window of rates, status and hygiene."),
        Column(
            "cluster_id",
            "string",
            "Cluster id, from DescribeCluster or `meta.properties`; null if unknown.",
        ),
        Column("input", "string", "The bootstrap addresses, or the log directory."),
        Column("groups", "string", "The pattern of `--groups`; null for all groups."),
        Column("first_log_ms", "bigint", "Timestamp of the oldest record of the offsets log."),
        Column(
            "read_ms",
            "bigint",
            "Time at which the log end offsets were read; null if none were read.",
        ),
        Column(
            "time",
            "string",
            "How the times of records are known (`--time`): `exact`, `sampled` or `none`; null if "
            "no log ends were read.",
        ),
        Column(
            "bytes_read",
            "bigint",
            "Bytes of keys and values of the records that the run read; null for `--parquet`.",
        ),
        Column(
            "time_requests",
            "bigint",
            "Requests for times, of all partitions, with `--time sampled`; null for `--parquet`.",
        ),
        Column("notes", "array<string>", "Missing and damaged data, one line each."),
    ),
)
