"""The table of metrics: names, types, labels and Kafka's name of the same figure.

docs/metrics.md, the scrape, the dashboard and the alert rules are checked against this table.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class MetricKind(StrEnum):
    """The type of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"


class MetricRow(NamedTuple):
    """One metric. `jmx` is Kafka's MBean of the same figure, or empty."""

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    unit: str
    help: str
    jmx: str = ""


C, G, H, S = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM, MetricKind.SUMMARY
_PARTITION = ("broker", "group", "topic", "partition")
_LOG = ("broker", "topic", "partition")
_GROUPS = "kafka.server:type=group-coordinator-metrics"
_REQUEST = "kafka.network:type=RequestMetrics"
_SOCKETS = "kafka.server:type=socket-server-metrics,listener=*,networkProcessor=*"
_REPLICAS = "kafka.server:type=ReplicaManager"
_LOGS = "kafka.log:type=Log"

METRICS: tuple[MetricRow, ...] = (
    MetricRow(
        "coordinator_broker_info",
        G,
        ("broker", "cluster", "version", "kafka"),
        "",
        "1 for each running broker, with its cluster id, its version and the release of Kafka that "
        "it follows.",
        "kafka.server:type=app-info",
    ),
    # groups
    MetricRow(
        "coordinator_groups",
        G,
        ("broker", "type", "state"),
        "groups",
        "Groups by type and state.",
        f"{_GROUPS},name=group-count (protocol), consumer-group-count (state), share-group-count "
        "(state), streams-group-count (state)",
    ),
    MetricRow(
        "coordinator_members",
        G,
        ("broker", "type"),
        "members",
        "Members of all groups.",
    ),
    MetricRow(
        "coordinator_rebalances_total",
        C,
        ("broker", "type", "cause", "outcome"),
        "rebalances",
        "Rebalances that have ended, by their first cause. Causes and outcomes are those of the "
        "topic __group_events.",
        f"{_GROUPS},name=group-completed-rebalance-count, consumer-group-rebalance-count, "
        "share-group-rebalance-count, streams-group-rebalance-count",
    ),
    MetricRow(
        "coordinator_rebalance_phase_seconds",
        H,
        ("broker", "type", "phase"),
        "seconds",
        "Durations of the phases that rebalances have reached: initial_delay, join and sync in "
        "classic groups, assign and reconcile in groups with epochs.",
    ),
    MetricRow(
        "coordinator_members_removed_total",
        C,
        ("broker", "type", "reason"),
        "members",
        "Members that the coordinator has removed, for example because their session expired. "
        "Counted when the rebalance has ended.",
    ),
    MetricRow(
        "coordinator_offset_commits_total",
        C,
        ("broker",),
        "offsets",
        "Offsets committed by OffsetCommit and TxnOffsetCommit.",
        f"{_GROUPS},name=offset-commit-count",
    ),
    MetricRow(
        "coordinator_group_committed_offset",
        G,
        _PARTITION,
        "offset",
        "The committed offset of a group in a partition: the next record to read.",
    ),
    MetricRow(
        "coordinator_group_lag_records",
        G,
        _PARTITION,
        "records",
        "High watermark minus committed offset, at least 0.",
    ),
    MetricRow(
        "coordinator_group_lag_seconds",
        G,
        _PARTITION,
        "seconds",
        "Age of the oldest record that the group has not read, 0 without unread records. Missing "
        "if that record has been deleted or has no timestamp.",
    ),
    MetricRow(
        "coordinator_group_lost_records",
        G,
        _PARTITION,
        "records",
        "Log start offset minus committed offset, if positive: records that were deleted before "
        "the group has read them.",
    ),
    MetricRow(
        "coordinator_group_partitions_omitted",
        G,
        (),
        "partitions",
        "Partitions of groups without lag metrics, because there are too many.",
    ),
    # share groups
    MetricRow(
        "coordinator_share_records",
        G,
        ("broker", "group", "state"),
        "records",
        "Records in flight of share groups: available, acquired, acknowledged, archiving, "
        "archived. Records at the front that are done are no longer in flight.",
    ),
    MetricRow(
        "coordinator_share_lag_records",
        G,
        _PARTITION,
        "records",
        "Records that a share group has not finished (KIP-1226), of share partitions in use.",
    ),
    MetricRow(
        "coordinator_share_records_given_up_total",
        C,
        ("broker", "cause"),
        "records",
        "Records that share groups will not deliver again: delivery limit reached, or rejected.",
    ),
    MetricRow(
        "coordinator_share_sessions",
        G,
        ("broker",),
        "sessions",
        "Share sessions.",
        "kafka.server:type=ShareSessionCache,name=ShareSessionsCount",
    ),
    # transactions
    MetricRow(
        "coordinator_transactional_ids",
        G,
        ("broker", "state"),
        "ids",
        "Transactional ids by state.",
    ),
    MetricRow(
        "coordinator_transactions_open",
        G,
        ("broker",),
        "transactions",
        "Transactions that are open or whose end is being written.",
    ),
    MetricRow(
        "coordinator_transaction_oldest_seconds",
        G,
        ("broker",),
        "seconds",
        "Age of the oldest open transaction, 0 without open transactions.",
    ),
    MetricRow(
        "coordinator_transactions_total",
        C,
        ("broker", "outcome"),
        "transactions",
        "Transactions that have ended: committed or aborted.",
    ),
    MetricRow(
        "coordinator_transactions_timed_out_total",
        C,
        ("broker",),
        "transactions",
        "Transactions that were aborted because of their timeout.",
    ),
    # requests and connections
    MetricRow(
        "coordinator_requests_total",
        C,
        ("broker", "api", "version"),
        "requests",
        "Requests that were answered or need no response. Requests during a SASL handshake are "
        "not included.",
        f"{_REQUEST},name=RequestsPerSec,request=*,version=*",
    ),
    MetricRow(
        "coordinator_request_seconds",
        H,
        ("broker", "api"),
        "seconds",
        "Time from the decoded request to the encoded response, including waiting, for example of "
        "Fetch for data.",
        f"{_REQUEST},name=TotalTimeMs,request=*",
    ),
    MetricRow(
        "coordinator_response_errors_total",
        C,
        ("broker", "api", "error"),
        "error codes",
        "Error codes in responses, including NONE; a response may have one per partition.",
        f"{_REQUEST},name=ErrorsPerSec,request=*,error=*",
    ),
    MetricRow(
        "coordinator_request_bytes_total",
        C,
        ("broker", "api"),
        "bytes",
        "Bytes of requests, with the length prefix.",
        f"{_REQUEST},name=RequestBytes,request=*",
    ),
    MetricRow(
        "coordinator_response_bytes_total",
        C,
        ("broker", "api"),
        "bytes",
        "Bytes of responses, with the length prefix.",
    ),
    MetricRow(
        "coordinator_connections",
        G,
        ("broker", "listener"),
        "connections",
        "Open connections of clients.",
        f"{_SOCKETS},name=connection-count",
    ),
    MetricRow(
        "coordinator_connections_accepted_total",
        C,
        ("broker", "listener"),
        "connections",
        "Accepted connections; with TLS, those that have completed the handshake.",
        f"{_SOCKETS},name=connection-creation-total",
    ),
    MetricRow(
        "coordinator_connections_closed_total",
        C,
        ("broker", "listener"),
        "connections",
        "Connections that have ended.",
        f"{_SOCKETS},name=connection-close-total",
    ),
    MetricRow(
        "coordinator_delayed_operations",
        G,
        ("operation",),
        "operations",
        "Requests that wait in a purgatory, and timers of groups (operation GroupTimer). Groups of "
        "the classic protocol keep requests of JoinGroup and SyncGroup waiting.",
        "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation=*",
    ),
    MetricRow(
        "coordinator_fetch_sessions",
        G,
        ("broker",),
        "sessions",
        "Incremental fetch sessions.",
        "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions",
    ),
    # topics and logs
    MetricRow(
        "coordinator_topics",
        G,
        (),
        "topics",
        "Topics, including internal ones.",
        "kafka.controller:type=KafkaController,name=GlobalTopicCount",
    ),
    MetricRow(
        "coordinator_leader_partitions",
        G,
        ("broker",),
        "partitions",
        "Partitions that a broker leads.",
        f"{_REPLICAS},name=LeaderCount",
    ),
    MetricRow(
        "coordinator_log_size_bytes",
        G,
        _LOG,
        "bytes",
        "Size of the segments of a partition. Partitions that were not used since the start have "
        "no log metrics.",
        f"{_LOGS},name=Size,topic=*,partition=*",
    ),
    MetricRow(
        "coordinator_log_segments",
        G,
        _LOG,
        "segments",
        "Segments of a partition.",
        f"{_LOGS},name=NumLogSegments,topic=*,partition=*",
    ),
    MetricRow(
        "coordinator_log_start_offset",
        G,
        _LOG,
        "offset",
        "Log start offset.",
        f"{_LOGS},name=LogStartOffset,topic=*,partition=*",
    ),
    MetricRow(
        "coordinator_log_high_watermark",
        G,
        _LOG,
        "offset",
        "High watermark; without replication it is the log end offset.",
        f"{_LOGS},name=LogEndOffset,topic=*,partition=*",
    ),
    MetricRow(
        "coordinator_log_last_stable_offset_lag_records",
        G,
        _LOG,
        "records",
        "Records behind the last stable offset, which open transactions hide from read_committed "
        "consumers.",
        "kafka.cluster:type=Partition,name=LastStableOffsetLag,topic=*,partition=*",
    ),
    MetricRow(
        "coordinator_log_flush_seconds",
        S,
        (),
        "seconds",
        "Syncs of logs to disk, and their time.",
        "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
    ),
    MetricRow(
        "coordinator_log_compactions_total",
        C,
        (),
        "runs",
        "Compactions of single logs.",
    ),
    MetricRow(
        "coordinator_log_compacted_bytes_total",
        C,
        (),
        "bytes",
        "Bytes that compaction has removed.",
    ),
    MetricRow(
        "coordinator_log_deleted_segments_total",
        C,
        (),
        "segments",
        "Segments that retention has deleted.",
    ),
    MetricRow(
        "coordinator_log_deleted_bytes_total",
        C,
        (),
        "bytes",
        "Bytes that retention has deleted.",
    ),
    # the process
    MetricRow(
        "coordinator_event_loop_lag_seconds",
        H,
        (),
        "seconds",
        "Delay of a timer of the event loop, measured from the first scrape on.",
    ),
    MetricRow(
        "coordinator_scrape_seconds",
        G,
        (),
        "seconds",
        "Duration of the previous scrape, 0 for the first.",
    ),
)

ROWS = {row.name: row for row in METRICS}
"""The table by name."""

PROCESS_METRICS: tuple[MetricRow, ...] = (
    MetricRow(
        "process_cpu_seconds_total",
        C,
        (),
        "seconds",
        "CPU time of the process.",
        "java.lang:type=OperatingSystem,name=ProcessCpuTime",
    ),
    MetricRow(
        "process_resident_memory_bytes",
        G,
        (),
        "bytes",
        "Resident memory.",
    ),
    MetricRow("process_virtual_memory_bytes", G, (), "bytes", "Virtual memory."),
    MetricRow(
        "process_start_time_seconds",
        G,
        (),
        "seconds",
        "Start of the process, in seconds since 1970.",
        "java.lang:type=Runtime,name=StartTime",
    ),
    MetricRow(
        "process_open_fds",
        G,
        (),
        "descriptors",
        "Open file descriptors.",
        "java.lang:type=OperatingSystem,name=OpenFileDescriptorCount",
    ),
    MetricRow("process_max_fds", G, (), "descriptors", "Limit of open file descriptors."),
)
"""Metrics of prometheus_client's ProcessCollector, which has values on Linux only."""


def series_of(row: MetricRow) -> tuple[str, ...]:
    """Return the names of the series of a metric, as PromQL sees them."""
    if row.kind is H:
        return tuple(f"{row.name}_{suffix}" for suffix in ("bucket", "sum", "count"))
    if row.kind is S:
        return tuple(f"{row.name}_{suffix}" for suffix in ("sum", "count"))
    return (row.name,)
