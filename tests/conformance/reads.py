"""Transactions as seen by readers and administrators: batches, offsets, open producers."""

from __future__ import annotations

from typing import Any

from tests.conformance import batches
from tests.conformance.producers import error
from tests.conformance.stage import Stage

UNCOMMITTED, COMMITTED = 0, 1

_LATEST, _EARLIEST, _MAX_TIMESTAMP = -1, -2, -3
_FAR_FUTURE_MS = 1 << 43


def log(t: Stage, topic: str, index: int = 0, label: str = "", start: int = 0) -> None:
    """Record a Fetch of both isolation levels: offsets, batches and aborted transactions.

    With `read_committed` only the number of batches is recorded, because the batches are the same.
    """
    name = f"log {t.partition(topic, index)} {label}".strip()
    open_view = _fetch(t, topic, index, UNCOMMITTED, start)
    if open_view["error_code"]:
        t.rec(name, error(open_view["error_code"]))
        return
    view = _fetch(t, topic, index, COMMITTED, start)
    aborted = view["aborted_transactions"] or []
    t.rec(
        name,
        {
            "end": open_view["high_watermark"],
            "stable": view["last_stable_offset"],
            "stable, uncommitted": open_view["last_stable_offset"],
            "batches": [_shown(t, one) for one in batches.read(open_view["records"] or b"")],
            "committed batches": sum(1 for _ in batches.read(view["records"] or b"")),
            "aborted": [[t.producer(one["producer_id"]), one["first_offset"]] for one in aborted],
        },
    )


def marker_count(t: Stage, topic: str, index: int = 0) -> int:
    """Return the number of markers in a partition, unrecorded."""
    records = _fetch(t, topic, index, UNCOMMITTED, 0)["records"] or b""
    return sum(1 for one in batches.read(records) if one.marker is not None)


def ends(t: Stage, topic: str, index: int = 0, label: str = "") -> None:
    """Record ListOffsets of latest, latest stable and earliest."""
    asked = ((_LATEST, UNCOMMITTED), (_LATEST, COMMITTED), (_EARLIEST, COMMITTED))
    shown = [_offset(t, topic, index, timestamp, isolation) for timestamp, isolation in asked]
    t.rec(f"ends {t.partition(topic, index)} {label}".strip(), shown)


def by_time(t: Stage, topic: str, index: int, isolation: int, label: str) -> None:
    """Record ListOffsets of time 0, of the largest timestamp, and of a future time."""
    shown = [
        _offset(t, topic, index, timestamp, isolation)
        for timestamp in (0, _MAX_TIMESTAMP, _FAR_FUTURE_MS)
    ]
    level = ("uncommitted", "committed")[isolation]
    t.rec(f"by time {t.partition(topic, index)} {level} {label}", shown)


def _offset(t: Stage, topic: str, index: int, timestamp: int, isolation: int) -> int | str:
    asked = {"partition_index": index, "current_leader_epoch": -1, "timestamp": timestamp}
    body = {
        "replica_id": -1,
        "isolation_level": isolation,
        "topics": [{"name": topic, "partitions": [asked]}],
    }
    answer = t.raw("ListOffsets", 8, body)["topics"][0]["partitions"][0]
    offset: int = answer["offset"]
    return error(answer["error_code"]) if answer["error_code"] else offset


def producers(t: Stage, topic: str, index: int = 0, label: str = "") -> None:
    """Record DescribeProducers: [id, epoch, last sequence, coordinator epoch, start] of each."""
    answer = _described(t, topic, index)
    shown: Any = error(answer["error_code"])
    if not answer["error_code"]:
        shown = sorted(
            [
                t.producer(one["producer_id"]),
                one["producer_epoch"],
                one["last_sequence"],
                t.coordinator_epoch(one["coordinator_epoch"]),
                one["current_txn_start_offset"],
            ]
            for one in answer["active_producers"]
        )
    t.rec(f"producers of {t.partition(topic, index)} {label}".strip(), shown)


def active_producers(t: Stage, topic: str, index: int = 0) -> int:
    """Return the number of producers in DescribeProducers, unrecorded."""
    return len(_described(t, topic, index)["active_producers"])


def _described(t: Stage, topic: str, index: int) -> Any:
    body = {"topics": [{"name": topic, "partition_indexes": [index]}]}
    return t.raw("DescribeProducers", 0, body)["topics"][0]["partitions"][0]


def _fetch(t: Stage, topic: str, index: int, isolation: int, start: int) -> Any:
    asked = {"partition": index, "fetch_offset": start, "partition_max_bytes": 1 << 20}
    body = {
        "max_wait_ms": 0,
        "min_bytes": 0,
        "isolation_level": isolation,
        "topics": [{"topic": topic, "partitions": [asked]}],
        "replica_id": -1,
    }
    return t.raw("Fetch", 12, body)["responses"][0]["partitions"][0]


def limited(t: Stage, topic: str, note: str, limit: int, most: int) -> int:
    """Record a read_committed Fetch of two partitions; return the size of the first one's records.

    The Fetch allows `limit` bytes of the second partition, and `most` bytes in total.
    """
    asked = [
        {"partition": index, "fetch_offset": 0, "partition_max_bytes": size}
        for index, size in enumerate((1 << 20, limit))
    ]
    body = {
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": most,
        "isolation_level": COMMITTED,
        "topics": [{"topic": topic, "partitions": asked}],
        "replica_id": -1,
    }
    found = t.raw("Fetch", 12, body)["responses"][0]["partitions"]
    shown = [[bool(one["records"]), one["aborted_transactions"]] for one in found]
    t.rec(f"committed read: {note}", shown)
    return len(found[0]["records"])


def _shown(t: Stage, one: batches.Batch) -> str:
    where = str(one.base_offset)
    if one.last_offset != one.base_offset:
        where += f"..{one.last_offset}"
    who = f"{t.producer(one.producer_id)}/{one.epoch}"
    if one.marker is not None:
        kind, epoch = one.marker
        coordinator_epoch = t.coordinator_epoch(epoch)
        return f"{where} {kind} {who} sequence {one.sequence} coordinator {coordinator_epoch}"
    kind = "transactional" if one.transactional else "plain"
    return f"{where} {kind} {who} sequence {one.sequence}"
