"""Control requests about transactions: transactional ids, and partitions with open transactions.

A consumer with `read_committed` stops at the start of the oldest open transaction of a partition.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coordinator_server.cluster import Cluster
    from coordinator_server.control.request import ControlRequest
    from coordinator_server.core.transactions.metadata import TransactionMetadata
    from storage.partition_log import PartitionLog


async def transactions(request: ControlRequest) -> dict[str, Any]:
    """GET /transactions: list transactional ids, and partitions that open transactions block."""
    cluster = request.cluster
    known = {
        transactional_id: (node_id, entry.metadata)
        for node_id, broker in cluster.brokers.items()
        for transactional_id, entry in broker.transactions.ids.items()
    }
    return {
        "transactions": [_transaction(*known[name]) for name in sorted(known)],
        "held_back": _held_back(cluster, [metadata for _, metadata in known.values()]),
    }


def _transaction(node_id: int, metadata: TransactionMetadata) -> dict[str, Any]:
    is_open = not metadata.state.is_idle
    return {
        "transactional_id": metadata.transactional_id,
        "coordinator": node_id,
        "state": metadata.state.label,
        "producer_id": metadata.producer_id,
        "producer_epoch": metadata.producer_epoch,
        "timeout_ms": metadata.timeout_ms,
        "open_since_ms": metadata.start_ms if is_open else None,
        "partitions": [f"{topic}-{index}" for topic, index in sorted(metadata.partitions)],
    }


def _held_back(cluster: Cluster, known: list[TransactionMetadata]) -> list[dict[str, Any]]:
    """Return the partitions where open transactions block `read_committed` consumers, and why."""
    owners = {
        (place, metadata.producer_id): metadata
        for metadata in known
        for place in metadata.partitions
    }
    held: list[dict[str, Any]] = []
    for log in cluster.topics.open_logs():
        if not log.producers.transactions:
            continue
        producer_id, offset = min(log.producers.transactions.items(), key=lambda item: item[1])
        owner = owners.get(((log.topic, log.partition), producer_id))
        held.append(_held(log, producer_id, offset, owner))
    return sorted(held, key=lambda one: (one["topic"], one["partition"]))


def _held(
    log: PartitionLog, producer_id: int, offset: int, owner: TransactionMetadata | None
) -> dict[str, Any]:
    name = None if owner is None else owner.transactional_id
    since_ms = log.producers.entries[producer_id].last_timestamp
    if owner is not None:
        since_ms = owner.start_ms
    since = datetime.fromtimestamp(since_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    place = f"{log.topic}-{log.partition}"
    what = (
        f"transaction {name} of producer {producer_id} is open since {since} UTC"
        if owner is not None
        else f"a transaction of producer {producer_id} that no coordinator knows wrote last at "
        f"{since} UTC"
    )
    return {
        "topic": log.topic,
        "partition": log.partition,
        "last_stable_offset": log.last_stable_offset,
        "log_end_offset": log.log_end_offset,
        "producer_id": producer_id,
        "transactional_id": name,
        "since_ms": since_ms,
        "reason": f"{what}, holds back {place} at offset {offset}",
    }
