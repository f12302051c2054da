"""Collects the metrics of a cluster in steps: counts, and state that is read now.

Groups, partitions and connections are listed at the first step that needs them. If one of them ends
between two steps, it may be in some metrics of a scrape and missing in others.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from coordinator_server import __version__
from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.counting.buckets import REQUEST_BOUNDS_S, Buckets
from coordinator_server.counting.connections import CountedConnection
from coordinator_server.metrics.families import histogram, number, numbers, summary
from protocol import REFERENCE_VERSION
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from coordinator_server.cluster import Cluster
    from coordinator_server.counting.counts import Counts
    from coordinator_server.metrics.lag import CommittedLagReader

_GROUPS_PER_STEP = 100
_CONNECTIONS_PER_STEP = 100
_PARTITIONS_PER_STEP = 1000
_COMMITS = ("OffsetCommit", "TxnOffsetCommit")
_OPERATIONS = {"DelayedFetch": "Fetch", "DelayedShareFetch": "ShareFetch"}


def collect(cluster: Cluster, counts: Counts, lag: CommittedLagReader) -> Iterator[Metric | None]:
    """Yield the metrics in chunks, except the metrics about the scrape itself.

    Yields None where the caller can pause although no chunk is complete.
    """
    yield from numbers(
        "coordinator_broker_info",
        [
            ((node_id, cluster.cluster_id, __version__, REFERENCE_VERSION), 1)
            for node_id in cluster.brokers
        ],
    )
    yield from _groups(cluster)
    yield from _rebalances(counts)
    yield from _lag(lag)
    yield from _share_groups(cluster, counts)
    yield from _transactions(cluster)
    yield from _requests(cluster, counts)
    yield from _connections(cluster, counts)
    yield from _topics(cluster)
    yield from _logs(cluster)
    yield from histogram("coordinator_event_loop_lag_seconds", [((), counts.loop_lag)])


def _groups(cluster: Cluster) -> Iterator[Metric | None]:
    groups: Counter[tuple[int, str, str]] = Counter()
    members: Counter[tuple[int, str]] = Counter()
    delayed: Counter[str] = Counter(dict.fromkeys(("JoinGroup", "SyncGroup", "GroupTimer"), 0))
    seen = 0
    for node_id, broker in tuple(cluster.brokers.items()):
        for task in tuple(broker.groups.tasks.values()):
            group = task.group
            seen += 1
            if not seen % _GROUPS_PER_STEP:
                yield None
            if group.is_dead:
                continue
            kind = group.kind.value
            groups[node_id, kind, group.listed().group_state] += 1
            members[node_id, kind] += group.member_count
            delayed["GroupTimer"] += len(group.purgatory)
            if isinstance(group, GroupMetadata):
                delayed["JoinGroup"] += group.membership.awaiting_join
                for member in group.membership.members.values():
                    delayed["SyncGroup"] += member.awaiting_sync is not None
    for operation in cluster.shared.fetch_purgatory.operations():
        name = type(operation).__name__
        delayed[_OPERATIONS.get(name, name)] += 1
    for operation_name in _OPERATIONS.values():
        delayed.setdefault(operation_name, 0)
    yield from numbers("coordinator_groups", groups.items())
    yield from numbers("coordinator_members", members.items())
    yield from numbers(
        "coordinator_delayed_operations", [((name,), count) for name, count in delayed.items()]
    )


def _rebalances(counts: Counts) -> Iterator[Metric | None]:
    brokers = counts.brokers()
    yield from numbers(
        "coordinator_rebalances_total",
        [((of.node_id, *key), count) for of in brokers for key, count in of.rebalances.items()],
    )
    yield from histogram(
        "coordinator_rebalance_phase_seconds",
        [((of.node_id, *key), buckets) for of in brokers for key, buckets in of.phases.items()],
    )
    yield from numbers(
        "coordinator_members_removed_total",
        [
            ((of.node_id, *key), count)
            for of in brokers
            for key, count in of.removed_members.items()
        ],
    )


def _lag(lag: CommittedLagReader) -> Iterator[Metric | None]:
    lags = yield from lag.read()
    keyed = [
        ((partition_lag.node_id, *partition_lag.place), partition_lag) for partition_lag in lags
    ]
    yield from numbers(
        "coordinator_group_committed_offset",
        ((key, partition_lag.committed) for key, partition_lag in keyed),
    )
    yield from numbers(
        "coordinator_group_lag_records",
        ((key, partition_lag.records) for key, partition_lag in keyed),
    )
    yield from numbers(
        "coordinator_group_lag_seconds",
        (
            (key, partition_lag.seconds)
            for key, partition_lag in keyed
            if partition_lag.seconds is not None
        ),
    )
    yield from numbers(
        "coordinator_group_lost_records",
        ((key, partition_lag.lost) for key, partition_lag in keyed if partition_lag.lost),
    )
    yield from number("coordinator_group_partitions_omitted", lag.omitted)


def _share_groups(cluster: Cluster, counts: Counts) -> Iterator[Metric | None]:
    records: Counter[tuple[int, str, str]] = Counter()
    lags: list[tuple[tuple[object, ...], float]] = []
    sessions: list[tuple[tuple[object, ...], float]] = []
    for node_id, broker in tuple(cluster.brokers.items()):
        manager = broker.built_share_partitions
        if manager is None:
            continue
        sessions.append(((node_id,), len(manager.sessions)))
        for share_partition, partition in manager.led():
            yield None
            if not share_partition.is_active or partition.is_deleted:
                continue
            try:
                end = partition.log.high_watermark
            except StorageError:
                continue  # the log cannot be opened, and requests for the partition get the error
            key = share_partition.key
            for batch in share_partition.in_flight:
                for run in batch.runs:
                    count = share_partition.count_in_flight(run.first, run.last)
                    records[node_id, key.group_id, run.state.name.lower()] += count
            done = share_partition.start_offset + share_partition.delivery_complete_count
            place = (node_id, key.group_id, partition.topic_name, partition.index)
            lags.append((place, max(end - done, 0)))
    yield from numbers("coordinator_share_records", records.items())
    yield from numbers("coordinator_share_lag_records", lags)
    yield from numbers(
        "coordinator_share_records_given_up_total",
        [
            ((of.node_id, cause), count)
            for of in counts.brokers()
            for cause, count in of.given_up.items()
        ],
    )
    yield from numbers("coordinator_share_sessions", sessions)


def _transactions(cluster: Cluster) -> Iterator[Metric | None]:
    states: Counter[tuple[int, str]] = Counter()
    open_count: Counter[tuple[int]] = Counter()
    oldest: dict[tuple[int], float] = {}
    ended: list[tuple[tuple[int, str], float]] = []
    timed_out: list[tuple[tuple[int], float]] = []
    now_ms = cluster.clock.now_ms()
    for node_id, broker in tuple(cluster.brokers.items()):
        coordinator = broker.transactions
        open_count[node_id,] = 0
        started_ms = now_ms
        for position, entry in enumerate(tuple(coordinator.ids.values()), start=1):
            metadata = entry.metadata
            states[node_id, metadata.state.label] += 1
            if not metadata.state.is_idle:
                open_count[node_id,] += 1
                if metadata.start_ms > 0:
                    started_ms = min(started_ms, metadata.start_ms)
            if not position % _GROUPS_PER_STEP:
                yield None
        oldest[node_id,] = (now_ms - started_ms) / 1000
        ended.append(((node_id, "committed"), coordinator.committed))
        ended.append(((node_id, "aborted"), coordinator.aborted))
        timed_out.append(((node_id,), coordinator.timed_out))
    yield from numbers("coordinator_transactional_ids", states.items())
    yield from numbers("coordinator_transactions_open", open_count.items())
    yield from numbers("coordinator_transaction_oldest_seconds", oldest.items())
    yield from numbers("coordinator_transactions_total", ended)
    yield from numbers("coordinator_transactions_timed_out_total", timed_out)


def _requests(cluster: Cluster, counts: Counts) -> Iterator[Metric | None]:
    for server in tuple(cluster.servers.by_id.values()):
        for position, connection in enumerate(server.connections.open_connections(), start=1):
            if isinstance(connection, CountedConnection):
                connection.settle()
            if not position % _CONNECTIONS_PER_STEP:
                yield None
    brokers = [(of.node_id, of.traffic.apis()) for of in counts.brokers()]
    requests: list[tuple[tuple[int, str, int], float]] = []
    errors: Counter[tuple[int, str, str]] = Counter()
    commits: Counter[tuple[int]] = Counter()
    bytes_in: Counter[tuple[int, str]] = Counter()
    bytes_out: Counter[tuple[int, str]] = Counter()
    latencies: dict[tuple[int, str], Buckets] = {}
    for node_id, apis in brokers:
        commits[node_id,] = 0
        for api in apis:
            name = api.spec.name
            requests.append(((node_id, name, api.version), api.answers))
            for code, count in api.error_codes().items():
                if count:
                    errors[node_id, name, ErrorCode(code).name] += count
                if name in _COMMITS and code == ErrorCode.NONE:
                    commits[node_id,] += count
            bytes_in[node_id, name] += api.bytes_in
            bytes_out[node_id, name] += api.bytes_out
            latencies.setdefault((node_id, name), Buckets(REQUEST_BOUNDS_S)).add(api.histogram())
    yield from numbers("coordinator_offset_commits_total", commits.items())
    yield from numbers("coordinator_requests_total", requests)
    yield from histogram("coordinator_request_seconds", latencies.items())
    yield from numbers("coordinator_response_errors_total", errors.items())
    yield from numbers("coordinator_request_bytes_total", bytes_in.items())
    yield from numbers("coordinator_response_bytes_total", bytes_out.items())


def _connections(cluster: Cluster, counts: Counts) -> Iterator[Metric | None]:
    is_open: Counter[tuple[int, str]] = Counter()
    closed: Counter[tuple[int, str]] = Counter()
    seen: set[int] = set()
    for node_id, server in tuple(cluster.servers.by_id.items()):
        for listener in server.addresses:
            is_open[node_id, listener.name] = closed[node_id, listener.name] = 0
        # Take both counts in one step. Otherwise a connection that ends in between would be
        # counted as open and as closed.
        for connection in server.connections.open_connections():
            is_open[node_id, connection.listener_name] += 1
        for name, count in counts.of(node_id).closed_connections.items():
            closed[node_id, name] = count
        seen.add(node_id)
        yield None
    for of in counts.brokers():
        if of.node_id not in seen:
            for name, count in of.closed_connections.items():
                closed[of.node_id, name] = count
    for key in is_open:
        closed[key] += 0
    accepted: dict[tuple[int, str], int] = {}
    for key in closed:
        # While a broker stops, its connections are neither open nor closed for a while, so do not
        # let the total fall.
        most = counts.of(key[0]).accepted_connections
        most[key[1]] = accepted[key] = max(most[key[1]], is_open[key] + closed[key])
    yield from numbers("coordinator_connections", is_open.items())
    yield from numbers("coordinator_connections_accepted_total", accepted.items())
    yield from numbers("coordinator_connections_closed_total", closed.items())
    yield from numbers(
        "coordinator_fetch_sessions",
        [((node_id,), len(broker.fetch_sessions)) for node_id, broker in cluster.brokers.items()],
    )


def _topics(cluster: Cluster) -> Iterator[Metric | None]:
    topics = tuple(cluster.topics.all_topics())
    led: Counter[tuple[int]] = Counter({(node_id,): 0 for node_id in cluster.brokers})
    for topic in topics:
        for position, partition in enumerate(topic.partitions, start=1):
            if partition.leader_id >= 0:
                led[partition.leader_id,] += 1
            if not position % _PARTITIONS_PER_STEP:
                yield None
        yield None
    yield from number("coordinator_topics", len(topics))
    yield from numbers("coordinator_leader_partitions", led.items())


def _logs(cluster: Cluster) -> Iterator[Metric | None]:
    logs = []
    for position, log in enumerate(cluster.topics.open_logs(), start=1):
        partition = cluster.topics.partition(log.topic, log.partition)
        if partition is not None and not log.closed:
            logs.append(((partition.leader_id, log.topic, log.partition), log))
        if not position % _GROUPS_PER_STEP:
            yield None
    yield from numbers("coordinator_log_size_bytes", ((key, log.size_bytes) for key, log in logs))
    yield from numbers("coordinator_log_segments", ((key, len(log.segments)) for key, log in logs))
    yield from numbers(
        "coordinator_log_start_offset", ((key, log.log_start_offset) for key, log in logs)
    )
    yield from numbers(
        "coordinator_log_high_watermark", ((key, log.high_watermark) for key, log in logs)
    )
    yield from numbers(
        "coordinator_log_last_stable_offset_lag_records",
        ((key, log.high_watermark - log.last_stable_offset) for key, log in logs),
    )
    counts = cluster.shared.logs.files.counts
    yield from summary("coordinator_log_flush_seconds", counts.flushes, counts.flush_s)
    yield from number("coordinator_log_compactions_total", counts.compactions)
    yield from number("coordinator_log_compacted_bytes_total", counts.compacted_bytes)
    yield from number("coordinator_log_deleted_segments_total", counts.deleted_segments)
    yield from number("coordinator_log_deleted_bytes_total", counts.deleted_bytes)
