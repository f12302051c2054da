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
    "Bronze: every record of the offsets topic, decoded where its type is known. Append-only; it "
    "keeps what compaction will remove.",
    ("log_partition", "log_offset"),
    (
        *LOG_PLACE,
        Column(
            "record_type", "int", "The number that the key begins with; null if there is no key."
        ),
        Column(
            "kind",
            "string",
            "Its name: `offset_commit` (0, 1), `group_metadata` (2), "
            "`consumer_group_...` (3-8, 16), `share_group_...` and `streams_group_...`; `unknown`.",
        ),
        Column(
            "value_version", "int", "The number that the value begins with; null for a tombstone."
        ),
        Column(
            "tombstone", "boolean", "Whether the value is null: what the key names was removed."
        ),
        Column("group", "string", "Group id."),
        Column("topic", "string", "offset_commit: the topic."),
        Column("partition", "int", "offset_commit: the partition."),
        Column("committed_offset", "bigint", "offset_commit: next record to read."),
        Column("leader_epoch", "int", "offset_commit: leader epoch of the last record read."),
        Column("metadata", "string", "offset_commit: what the client wrote beside it."),
        Column("commit_timestamp_ms", "bigint", "offset_commit: when it was committed."),
        Column("expire_timestamp_ms", "bigint", "offset_commit, value version 1: its own expiry."),
        Column(
            "topic_id", "string", "offset_commit: id of the topic, as Kafka prints it (base64)."
        ),
        Column("protocol_type", "string", "group_metadata: `consumer`, or what else the group is."),
        Column("generation", "int", "group_metadata: generation. consumer_group_metadata: epoch."),
        Column("protocol", "string", "group_metadata: the assignor."),
        Column("leader", "string", "group_metadata: member id of the leader."),
        Column(
            "state_timestamp_ms", "bigint", "group_metadata: when the group came into its state."
        ),
        Column("members", f"array<{MEMBER}>", "group_metadata: the members of the generation."),
        Column("member_id", "string", "KIP-848, share and streams groups: the member of the key."),
        Column("details", "string", "Other kinds with a known value: key and value as JSON."),
        Column("record_bytes", "int", "Bytes of key and value."),
        Column("problem", "string", "Why the record could not be decoded; null if it was."),
        Column("key_hex", "string", "The key of a record that could not be decoded, in hex."),
        Column("value_hex", "string", "The value of a record that could not be decoded, in hex."),
    ),
)

TOPIC_RECORDS = Table(
    "topic_records",
    "Bronze: place and time of every committed data record of the topics that groups read.",
    ("topic", "partition", "offset"),
    (
        *GTP[1:],
        Column("offset", "bigint", "Offset of the record."),
        Column("timestamp_ms", "bigint", "Its timestamp; null where the topic has none (magic 0)."),
        Column("record_bytes", "int", "Bytes of its key and value."),
    ),
)

PARTITION_ENDS = Table(
    "partition_ends",
    "Where each partition began and ended when it was looked at; the last look of each.",
    ("topic", "partition"),
    (
        *GTP[1:],
        Column("log_start", "bigint", "First offset that is there."),
        Column("log_end", "bigint", "Offset of the next record."),
        Column("high_watermark", "bigint", "Offset below which consumers read."),
        Column(
            "retention_ms", "bigint", "retention.ms of the topic; null: unlimited or not known."
        ),
        Column("sampled_at_ms", "bigint", "When it was looked at; after the commits were read."),
        Column("source", "string", "`broker` or `log`."),
        Column(
            "topic_id",
            "string",
            "Id of the topic, as Kafka prints it (base64): from Metadata or `partition.metadata`; "
            "null: not known.",
        ),
        Column(
            "last_stable_offset",
            "bigint",
            "Offset below which `read_committed` consumers read; null: not known.",
        ),
        Column(
            "held_by",
            "string",
            "The open transaction at the last stable offset: its transactional id, else its "
            "producer id.",
        ),
        Column(
            "held_since_ms",
            "bigint",
            "When that transaction began, by its coordinator; where that does not say it, the "
            "timestamp of its first record in the partition; null: not known.",
        ),
    ),
)

GROUP_EVENTS = Table(
    "group_events",
    "Bronze: records of `__group_events`, which this broker writes; empty for other clusters.",
    ("event_offset",),
    (
        Column("event_offset", "bigint", "Offset in `__group_events`."),
        Column("group", "string", "Group id."),
        Column(
            "generation", "int", "The generation that the rebalance made; null if it made none."
        ),
        Column("trigger", "string", "What set it off."),
        Column("reason", "string", "The reason that the client gave (KIP-800)."),
        Column("culprit", "string", "Instance id, else client id, of the member that set it off."),
        Column("started_ms", "bigint", "When it began."),
        Column("ended_ms", "bigint", "When it ended."),
        Column("join_ms", "bigint", "Time spent waiting for members to rejoin."),
        Column("sync_ms", "bigint", "Time spent waiting for the leader's assignment."),
        Column("outcome", "string", "How it ended: `stable`, `empty`, ..."),
    ),
)

SPARK_PROGRESS = Table(
    "spark_progress",
    "Bronze: offsets of Spark's own streaming queries, from progress events or checkpoints.",
    ("query_id", "topic", "partition", "batch_id"),
    (
        Column("query_id", "string", "Id of the query."),
        Column("query_name", "string", "Its name, if it has one."),
        *GTP[1:],
        Column("batch_id", "bigint", "Number of the micro-batch."),
        Column("end_offset", "bigint", "Next record that the query will read."),
        Column("timestamp_ms", "bigint", "When the batch was planned or done."),
    ),
)
