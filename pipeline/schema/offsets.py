"""Schemas of the tables about committed offsets: lag, rates, forecasts."""

from __future__ import annotations

from pipeline.schema.table import DAY, GTP, LOG_PLACE, Column, Table

OFFSET_COMMITS = Table(
    "offset_commits",
    "Events: every commit and every removal of a committed offset.",
    ("log_partition", "log_offset"),
    (
        *GTP,
        Column("event", "string", "`commit` or `tombstone`."),
        Column("committed_offset", "bigint", "Next record to read; null for a tombstone."),
        Column("leader_epoch", "int", "Leader epoch of the last record read."),
        Column("metadata", "string", "Metadata string of the commit."),
        Column("commit_timestamp_ms", "bigint", "Time of the commit; null for a tombstone."),
        Column(
            "expire_timestamp_ms", "bigint", "Expiry time in the record, if the record has one."
        ),
        Column("topic_id", "string", "Id of the topic."),
        *LOG_PLACE,
        DAY,
    ),
    ("day",),
)

CURRENT_OFFSETS = Table(
    "current_offsets",
    "The committed offsets at the requested time.",
    ("group", "topic", "partition"),
    (
        *GTP,
        Column("committed_offset", "bigint", "Next record to read."),
        Column("leader_epoch", "int", "Leader epoch of the last record read."),
        Column("metadata", "string", "Metadata string of the commit."),
        Column("commit_timestamp_ms", "bigint", "Time of the commit."),
        Column(
            "expire_timestamp_ms", "bigint", "Expiry time in the record, if the record has one."
        ),
        Column("commits", "bigint", "Commits since the key was last created."),
        Column(
            "log_offset",
            "bigint",
            "Offset of the last commit in its partition of the offsets topic.",
        ),
    ),
)

LAG = Table(
    "lag",
    "The lag of each group in records and in time, at `at_ms`. An assigned partition "
    "without a commit has a row with a null lag.",
    ("group", "topic", "partition"),
    (
        *GTP,
        Column(
            "source",
            "string",
            "Where the position is from: `group` (a commit), `share` (the state of a share group), "
            "`checkpoint` (a Spark query `spark:<query id>`).",
        ),
        Column(
            "kind",
            "string",
            "Kind of the reader: `classic`, `consumer` (KIP-848), `share`, `streams`, `simple` (a "
            "group that never had members) or `checkpoint`.",
        ),
        Column("at_ms", "bigint", "Time of the row."),
        Column(
            "committed_offset",
            "bigint",
            "Next record to read; null without a commit. Of a share group: the start offset.",
        ),
        Column("commit_timestamp_ms", "bigint", "Time of the commit."),
        Column(
            "log_start",
            "bigint",
            "First offset of the partition; the current one even for a time in the past.",
        ),
        Column("log_end", "bigint", "Log end offset at `at_ms`."),
        Column(
            "lag",
            "bigint",
            "Records to read: max(0, log_end - committed_offset), of a share group less the "
            "offsets whose delivery is complete.",
        ),
        Column("lost", "bigint", "Records removed before they were read: log_start - committed."),
        Column(
            "state",
            "string",
            "`OK`, `NO_COMMIT`, `LOSS` (commit below log start), `AHEAD` "
            "(commit above log end), `NO_TOPIC` (the topic is not known).",
        ),
        Column(
            "oldest_unread_age_ms",
            "bigint",
            "Time lag 1: age of the oldest unread record; 0 if all records "
            "are read; null if unknown (the record is deleted or has no timestamp).",
        ),
        Column(
            "oldest_unread_age_error_ms",
            "bigint",
            "Greatest error of that age: 0 if the record was read, more with `--time sampled`; "
            "null if the age is null.",
        ),
        Column(
            "interpolated_age_ms",
            "bigint",
            "Time lag 2: at_ms minus the time at which the log end was at the "
            "committed offset, interpolated between two known log ends.",
        ),
        Column(
            "interpolation", "string", "`exact`, `interpolated` or `extrapolated`; null: unknown."
        ),
        Column(
            "commit_delay_p50_ms",
            "bigint",
            "Time lag 3: median time between the timestamp of a record and the "
            "commit that covers it, over the records that were committed within the "
            "window; null with `--time sampled`.",
        ),
        Column("commit_delay_p99_ms", "bigint", "99th percentile of the same time."),
        Column(
            "commit_delay_records",
            "bigint",
            "Number of records from which the two percentiles are computed.",
        ),
    ),
)

RATES = Table(
    "rates",
    "Rates at which each partition is written and read, over the window before `at_ms`.",
    ("group", "topic", "partition"),
    (
        *GTP,
        Column("window_ms", "bigint", "Length of the window."),
        Column(
            "produced_per_second", "double", "Increase of the log end offset per second: lambda."
        ),
        Column(
            "consumed_per_second",
            "double",
            "Increase of the committed offset per second up to `at_ms`: mu; 0 if the reader has "
            "stalled; null if its only known position was taken within the window.",
        ),
        Column(
            "velocity",
            "double",
            "lambda - mu: growth of the lag per second; 0 if the difference is below "
            "1 record/s or 1 %.",
        ),
        Column("lag", "bigint", "Lag at `at_ms`."),
        Column(
            "catch_up_seconds",
            "double",
            "lag / (mu - lambda); 0 without lag; null if the lag does not shrink, or if the reader "
            "has stalled.",
        ),
        Column("trend", "string", "`steady`, `growing`, `shrinking`, `idle`, `unknown`."),
    ),
)

OFFSET_EXPIRY_FORECAST = Table(
    "offset_expiry_forecast",
    "Committed offsets that the broker will remove if the group does not change, and the time.",
    ("group", "topic", "partition"),
    (
        *GTP,
        Column("committed_offset", "bigint", "The committed offset."),
        Column(
            "base",
            "string",
            "Start of the retention: `empty` (the group became empty), `commit` "
            "(simple consumer, or topic not subscribed), `own` (expiry time in the "
            "record, value version 1), `never`.",
        ),
        Column("base_ms", "bigint", "Time of that start."),
        Column(
            "expires_ms", "bigint", "Earliest time of the removal, which happens at the next check."
        ),
        Column(
            "latest_ms",
            "bigint",
            "Latest time of the removal: expires_ms plus the interval of the check.",
        ),
        Column(
            "expires_in_ms", "bigint", "expires_ms minus the requested time; negative if overdue."
        ),
        Column(
            "skipped_by_latest", "bigint", "Records that a reset to `latest` would skip: e - c."
        ),
        Column(
            "repeated_by_earliest",
            "bigint",
            "Records that a reset to `earliest` would read again: c - s.",
        ),
    ),
)

DATA_LOSS_FORECAST = Table(
    "data_loss_forecast",
    "Partitions whose records may be removed by retention before the group has read them.",
    ("group", "topic", "partition"),
    (
        *GTP,
        Column("lag", "bigint", "Records to read."),
        Column(
            "used", "double", "lag / (log_end - log_start); at 1 the next removal loses records."
        ),
        Column("retention_ms", "bigint", "retention.ms of the topic."),
        Column("slack_ms", "bigint", "retention_ms minus the age of the oldest unread record."),
        Column("loss_at_ms", "bigint", "Time at which the first unread record may be removed."),
        Column("catch_up_seconds", "double", "Same as in `rates`."),
        Column(
            "verdict",
            "string",
            "`safe`, `at_risk` (the group will not catch up in time), `losing` "
            "(unread records are already removed), `unknown`.",
        ),
    ),
)

REPLAY_PLAN = Table(
    "replay_plan",
    "The effect of a reset of the group to a time, as a dry run.",
    ("group", "topic", "partition"),
    (
        *GTP,
        Column("replay_from_ms", "bigint", "Time to which the group would be reset."),
        Column("committed_offset", "bigint", "Committed offset of the group."),
        Column(
            "target_offset",
            "bigint",
            "Offset of the first record with a timestamp at or after that time; the "
            "log end offset if there is none.",
        ),
        Column(
            "change",
            "bigint",
            "target_offset - committed_offset; if negative, records are read again.",
        ),
        Column("records_to_read", "bigint", "log_end - target_offset."),
        Column("bytes_to_read", "bigint", "Bytes of keys and values of these records."),
        Column(
            "allowed", "boolean", "Whether the group is empty; otherwise Kafka rejects the reset."
        ),
        Column("refusal", "string", "Why the reset is not allowed."),
    ),
)

COMMIT_HYGIENE = Table(
    "commit_hygiene",
    "Commits of each group, over the window before the requested time.",
    ("group",),
    (
        Column("group", "string", "Group id."),
        Column("commits", "bigint", "Number of committed offsets in the window."),
        Column("commits_per_second", "double", "Commits per second."),
        Column("noop_commits", "bigint", "Commits of the same offset as the previous commit."),
        Column("rewinds", "bigint", "Commits of a lower offset than the previous commit."),
        Column("tombstones", "bigint", "Removed committed offsets."),
        Column("log_bytes", "bigint", "Bytes of keys and values of these records."),
        Column(
            "write_amplification", "double", "Commits per current committed offset: commits / keys."
        ),
        Column(
            "stale_commits",
            "bigint",
            "Commits for partitions that were assigned to no member of the "
            "generation at that time, although the group had members.",
        ),
        Column("max_metadata_bytes", "int", "The largest metadata string."),
    ),
)
