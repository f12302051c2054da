"""Schemas of the tables about committed offsets: lag, rates, forecasts."""

from __future__ import annotations

from pipeline.schema.table import DAY, GTP, LOG_PLACE, Column, Table

OFFSET_COMMITS = Table(
    "offset_commits",
    "Every commit and every removal of a committed offset: the events.",
    ("log_partition", "log_offset"),
    (
        *GTP,
        Column("event", "string", "`commit` or `tombstone`."),
        Column("committed_offset", "bigint", "Next record to read; null for a tombstone."),
        Column("leader_epoch", "int", "Leader epoch of the last record read."),
        Column("metadata", "string", "What the client wrote beside it."),
        Column("commit_timestamp_ms", "bigint", "When it was committed; null for a tombstone."),
        Column("expire_timestamp_ms", "bigint", "Its own expiry, if it has one."),
        Column("topic_id", "string", "Id of the topic."),
        *LOG_PLACE,
        DAY,
    ),
    ("day",),
)

CURRENT_OFFSETS = Table(
    "current_offsets",
    "The committed offsets that hold at the instant asked for.",
    ("group", "topic", "partition"),
    (
        *GTP,
        Column("committed_offset", "bigint", "Next record to read."),
        Column("leader_epoch", "int", "Leader epoch of the last record read."),
        Column("metadata", "string", "What the client wrote beside it."),
        Column("commit_timestamp_ms", "bigint", "When it was committed."),
        Column("expire_timestamp_ms", "bigint", "Its own expiry, if it has one."),
        Column("commits", "bigint", "Commits since the key was last created."),
        Column("log_offset", "bigint", "Where the last commit lies in the offsets topic."),
    ),
)

LAG = Table(
    "lag",
    "How far behind each group is, in records and in time, at the instant `at_ms`. A partition "
    "assigned to a member without a commit has a row with a null lag.",
    ("group", "topic", "partition"),
    (
        *GTP,
        Column(
            "source", "string", "`group`, or `checkpoint` for a Spark query `spark:<query id>`."
        ),
        Column("at_ms", "bigint", "The instant."),
        Column("committed_offset", "bigint", "Next record to read; null without a commit."),
        Column("commit_timestamp_ms", "bigint", "When it was committed."),
        Column("log_start", "bigint", "First offset there; for a past instant that of today."),
        Column("log_end", "bigint", "Next offset to be written, at the instant."),
        Column("lag", "bigint", "Records to read: max(0, log_end - committed_offset)."),
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
            "Kind 1, exact: age of the oldest unread record; 0 "
            "when all is read; null when it is not known (record gone, no timestamp).",
        ),
        Column(
            "interpolated_age_ms",
            "bigint",
            "Kind 2: at_ms minus the time at which the log end was "
            "at the committed offset, between two known points of it.",
        ),
        Column(
            "interpolation", "string", "`exact`, `interpolated` or `extrapolated`; null: unknown."
        ),
        Column(
            "commit_delay_p50_ms",
            "bigint",
            "Kind 3: time from a record's timestamp to the commit "
            "that covered it; median over the records covered within the window.",
        ),
        Column("commit_delay_p99_ms", "bigint", "Its 99th percentile."),
        Column("commit_delay_records", "bigint", "Records that those two were taken from."),
    ),
)

RATES = Table(
    "rates",
    "How fast each partition is written and read, over the window before the instant.",
    ("group", "topic", "partition"),
    (
        *GTP,
        Column("window_ms", "bigint", "Length of the window."),
        Column("produced_per_second", "double", "Rise of the log end: lambda."),
        Column(
            "consumed_per_second",
            "double",
            "Rise of the committed offset: mu; null with fewer than two commits in the window.",
        ),
        Column(
            "velocity",
            "double",
            "lambda - mu: how fast the lag grows; 0 within the dead band of 1 record/s or 1 %.",
        ),
        Column("lag", "bigint", "Lag at the instant."),
        Column(
            "catch_up_seconds",
            "double",
            "lag / (mu - lambda); 0 without lag; null when it never catches up.",
        ),
        Column("trend", "string", "`steady`, `growing`, `shrinking`, `idle`, `unknown`."),
    ),
)

OFFSET_EXPIRY_FORECAST = Table(
    "offset_expiry_forecast",
    "Which committed offsets the broker will remove, and when, if nothing else happens.",
    ("group", "topic", "partition"),
    (
        *GTP,
        Column("committed_offset", "bigint", "The offset that will be lost."),
        Column(
            "base",
            "string",
            "What the time runs from: `empty` (the group became empty), `commit` "
            "(simple consumer, or topic not subscribed), `own` (value version 1), `never`.",
        ),
        Column("base_ms", "bigint", "That instant."),
        Column("expires_ms", "bigint", "When it may be removed; done within the next check."),
        Column("latest_ms", "bigint", "expires_ms plus the interval of the check."),
        Column("expires_in_ms", "bigint", "From the instant asked for; negative: overdue."),
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
    "Where retention may remove records before a group has read them.",
    ("group", "topic", "partition"),
    (
        *GTP,
        Column("lag", "bigint", "Records to read."),
        Column("used", "double", "lag / (log_end - log_start): 1 means on the edge."),
        Column("retention_ms", "bigint", "retention.ms of the topic."),
        Column("slack_ms", "bigint", "retention_ms minus the age of the oldest unread record."),
        Column("loss_at_ms", "bigint", "When the first unread record may go."),
        Column("catch_up_seconds", "double", "As in `rates`."),
        Column(
            "verdict",
            "string",
            "`safe`, `at_risk` (it will not catch up in time), `losing` "
            "(records were lost already), `unknown`.",
        ),
    ),
)

REPLAY_PLAN = Table(
    "replay_plan",
    "What resetting a group to an instant would mean: a dry run.",
    ("group", "topic", "partition"),
    (
        *GTP,
        Column("replay_from_ms", "bigint", "The instant to read again from."),
        Column("committed_offset", "bigint", "Where the group is."),
        Column(
            "target_offset",
            "bigint",
            "First record with a timestamp at or after the instant; the log end if there is none.",
        ),
        Column("change", "bigint", "target_offset - committed_offset: negative reads again."),
        Column("records_to_read", "bigint", "log_end - target_offset."),
        Column("bytes_to_read", "bigint", "Their keys and values."),
        Column("allowed", "boolean", "Whether the group is empty; Kafka refuses otherwise."),
        Column("refusal", "string", "Why not."),
    ),
)

COMMIT_HYGIENE = Table(
    "commit_hygiene",
    "How a group commits, over the window before the instant.",
    ("group",),
    (
        Column("group", "string", "Group id."),
        Column("commits", "bigint", "Records of committed offsets in the window."),
        Column("commits_per_second", "double", "The same by the second."),
        Column("noop_commits", "bigint", "Commits of the offset that was committed before."),
        Column("rewinds", "bigint", "Commits below the one before."),
        Column("tombstones", "bigint", "Removals."),
        Column("log_bytes", "bigint", "Bytes of keys and values that they cost."),
        Column("write_amplification", "double", "Commits by key that holds: commits / keys."),
        Column(
            "stale_commits",
            "bigint",
            "Commits for partitions that no member was assigned in the "
            "generation of that time, though the group had members.",
        ),
        Column("max_metadata_bytes", "int", "The largest metadata string."),
    ),
)
