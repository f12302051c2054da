"""Schemas of the bronze tables: the decoded input, before anything is computed."""

from __future__ import annotations

from pipeline.schema.table import GTP, LOG_PLACE, PARTITIONS, Column, Table

MEMBER = (
    "struct<member_id: string, group_instance_id: string, client_id: string, client_host: string, "
    "rebalance_timeout_ms: int, session_timeout_ms: int, subscribed_topics: array<string>, "
    f"owned: {PARTITIONS}, assigned: {PARTITIONS}, problem: string>"
)
"""The type of a group member in bronze. `problem` says why its subscription or assignment could not
be read; the lists are null in that case."""


RAW = Table(
    "raw",
    "Committed data records of the offsets topic, undecoded. Records of aborted or still open "
    "transactions, and transaction markers, are not among them.",
    ("log_partition", "log_offset"),
    (
        *LOG_PLACE,
        Column("key", "binary", "Key as it lies in the log."),
        Column("value", "binary", "Value; null for a tombstone."),
        Column(
            "damage",
            "string",
            "Why the batch that begins at this offset could not be read; null for a record.",
        ),
    ),
)

OFFSETS_LOG = Table(
    "offsets_log",
    "Bronze: every record of the offsets topic, decoded if its type is known. "
    "Append-only: records stay after Kafka has compacted them away.",
    ("log_partition", "log_offset"),
    (
        *LOG_PLACE,
        Column("record_type", "int", "Type number at the start of the key; null without a key."),
        Column(
            "kind",
            "string",
            "Name of the type: `offset_commit` (0, 1), `group_metadata` (2), "
            "`consumer_group_...` (3-8, 16), `share_group_...` and "
            "`streams_group_...`; `unknown`.",
        ),
        Column(
            "value_version",
            "int",
            "Version number at the start of the value; null for a tombstone.",
        ),
        Column(
            "tombstone",
            "boolean",
            "Whether the value is null, which removes the object of the key.",
        ),
        Column("group", "string", "Group id."),
        Column("topic", "string", "offset_commit: the topic."),
        Column("partition", "int", "offset_commit: the partition."),
        Column("committed_offset", "bigint", "offset_commit: next record to read."),
        Column("leader_epoch", "int", "offset_commit: leader epoch of the last record read."),
        Column("metadata", "string", "offset_commit: metadata string of the commit."),
        Column("commit_timestamp_ms", "bigint", "offset_commit: time of the commit."),
        Column(
            "expire_timestamp_ms",
            "bigint",
            "offset_commit, value version 1: expiry time of the offset.",
        ),
        Column("topic_id", "string", "offset_commit: topic id as Kafka prints it (base64)."),
        Column(
            "protocol_type", "string", "group_metadata: protocol type, `consumer` for consumers."
        ),
        Column("generation", "int", "group_metadata: generation. consumer_group_metadata: epoch."),
        Column("protocol", "string", "group_metadata: the assignor."),
        Column("leader", "string", "group_metadata: member id of the leader."),
        Column(
            "state_timestamp_ms",
            "bigint",
            "group_metadata: time at which the group entered its state.",
        ),
        Column("members", f"array<{MEMBER}>", "group_metadata: the members of the generation."),
        Column("member_id", "string", "KIP-848, share and streams groups: member id in the key."),
        Column("details", "string", "Other kinds with a known value: key and value as JSON."),
        Column("record_bytes", "int", "Bytes of key and value."),
        Column("problem", "string", "Why the record could not be decoded; null if it was."),
        Column("key_hex", "string", "The key of a record that could not be decoded, in hex."),
        Column("value_hex", "string", "The value of a record that could not be decoded, in hex."),
        Column(
            "earlier_commits",
            "bigint",
            "Only in the state of a run: the number of commits of the same offset just before this "
            "one that the state leaves out.",
        ),
    ),
)

TOPIC_RECORDS = Table(
    "topic_records",
    "Bronze: offset and timestamp of every committed data record of the topics that groups read.",
    ("topic", "partition", "offset", "topic_id"),
    (
        *GTP[1:],
        Column("offset", "bigint", "Offset of the record."),
        Column(
            "timestamp_ms",
            "bigint",
            "Timestamp of the record; null for records without one (magic 0).",
        ),
        Column("record_bytes", "int", "Bytes of key and value."),
        Column(
            "topic_id",
            "string",
            "Topic id when the record was read; only records of the topic's current id are used.",
        ),
        Column(
            "from_ms",
            "bigint",
            "Rows of `offset_times`: the log end was `offset` from this time until `timestamp_ms`, "
            "and records between the previous row and this one are not known; else null.",
        ),
    ),
)

OFFSET_TIMES = Table(
    "offset_times",
    "Bronze: with `--time sampled`, offsets whose time is known without reading topics; "
    "`timestamp_ms` is the time of the first record at or above the offset (null for the end of "
    "the data), `record_bytes` the size if it was fetched. The last run replaces all rows, and "
    "drops those that others bound.",
    TOPIC_RECORDS.key,
    TOPIC_RECORDS.columns,
)

PARTITION_ENDS = Table(
    "partition_ends",
    "First and last offsets of each partition when they were last read.",
    ("topic", "partition"),
    (
        *GTP[1:],
        Column("log_start", "bigint", "First offset of the partition."),
        Column("log_end", "bigint", "Log end offset; null if the partition has no leader."),
        Column(
            "high_watermark",
            "bigint",
            "High watermark: consumers read only records below this offset.",
        ),
        Column(
            "retention_ms", "bigint", "retention.ms of the topic; null if unlimited or unknown."
        ),
        Column("sampled_at_ms", "bigint", "Time of reading, which is after the commits were read."),
        Column("source", "string", "`broker` or `log`."),
        Column(
            "topic_id",
            "string",
            "Topic id as Kafka prints it (base64), from Metadata or "
            "`partition.metadata`; null if unknown.",
        ),
        Column(
            "last_stable_offset",
            "bigint",
            "Last stable offset: `read_committed` consumers read only records below "
            "this offset; null if unknown.",
        ),
        Column(
            "held_by",
            "string",
            "Open transaction at the last stable offset: transactional id, or else producer id.",
        ),
        Column(
            "held_since_ms",
            "bigint",
            "Start of that transaction according to its coordinator, or else the "
            "timestamp of its first record in the partition; null if unknown.",
        ),
        Column(
            "time",
            "string",
            "How the times of records are known (`--time`): `exact`, `sampled` or `none`.",
        ),
        Column(
            "data_end",
            "bigint",
            "Offset after the last record, if the offsets from there on were found to hold no data "
            "(markers of transactions, aborted records); null if that was not looked up.",
        ),
    ),
)

SHARE_STATE = Table(
    "share_state",
    "Bronze: records of `__share_group_state`, the positions of share groups (KIP-932).",
    ("log_partition", "log_offset"),
    (
        *LOG_PLACE,
        *GTP,
        Column("topic_id", "string", "Id of the topic."),
        Column("tombstone", "boolean", "Whether the record removes the state of the partition."),
        Column(
            "start_offset",
            "bigint",
            "First offset whose delivery is not complete; null if the record does not change it.",
        ),
        Column(
            "delivered",
            "int",
            "Offsets from the start offset on whose delivery is complete (KIP-1226); null if "
            "unknown, as before Kafka 4.3.",
        ),
    ),
)

GROUP_EVENTS = Table(
    "group_events",
    "Bronze: records of `__group_events`, which only this broker writes; empty for other clusters.",
    ("event_offset",),
    (
        Column("event_offset", "bigint", "Offset in `__group_events`."),
        Column("group", "string", "Group id."),
        Column("generation", "int", "Generation after the rebalance; null if there is none."),
        Column("trigger", "string", "Cause of the rebalance."),
        Column("reason", "string", "Reason that the client sent (KIP-800)."),
        Column(
            "culprit",
            "string",
            "Instance id, or else client id, of the member that caused the rebalance.",
        ),
        Column("started_ms", "bigint", "Start of the rebalance."),
        Column("ended_ms", "bigint", "End of the rebalance."),
        Column("join_ms", "bigint", "Time spent waiting for members to rejoin."),
        Column("sync_ms", "bigint", "Time spent waiting for the leader's assignment."),
        Column("outcome", "string", "Result of the rebalance: `stable`, `empty`, ..."),
    ),
)

SPARK_PROGRESS = Table(
    "spark_progress",
    "Bronze: offsets of Spark's own streaming queries, from progress events or checkpoints.",
    ("query_id", "topic", "partition", "batch_id"),
    (
        Column("query_id", "string", "Id of the query."),
        Column("query_name", "string", "Name of the query, if it has one."),
        *GTP[1:],
        Column("batch_id", "bigint", "Number of the micro-batch."),
        Column("end_offset", "bigint", "Next record that the query will read."),
        Column("timestamp_ms", "bigint", "Time at which the batch was planned or completed."),
    ),
)
