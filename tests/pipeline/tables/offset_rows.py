"""Short constructors of bronze rows, for the tests of tables about offsets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Row = dict[str, Any]

AT_MS = 1_700_000_000_000
"""The instant of most questions: 2023-11-14 22:13:20 UTC. Times of rows are relative to it."""


def commit(log_offset: int, reader: tuple[str, str, int], offset: int, at: int, **more: Any) -> Row:
    """Return a commit; `at` is in ms from `AT_MS`, `reader` is group, topic, partition."""
    group, topic, partition = reader
    return {
        "log_partition": 0,
        "log_offset": log_offset,
        "log_timestamp_ms": AT_MS + at,
        "record_type": 1,
        "kind": "offset_commit",
        "value_version": 4,
        "tombstone": False,
        "group": group,
        "topic": topic,
        "partition": partition,
        "committed_offset": offset,
        "leader_epoch": 0,
        "metadata": "",
        "commit_timestamp_ms": AT_MS + at,
        **more,
    }


def removal(log_offset: int, reader: tuple[str, str, int], at: int) -> Row:
    """Return the tombstone of a committed offset."""
    row = commit(log_offset, reader, 0, at, tombstone=True)
    for name in ("value_version", "committed_offset", "leader_epoch", "metadata"):
        row[name] = None
    return row | {"commit_timestamp_ms": None}


def generation(
    log_offset: int,
    group: str,
    at: int = 0,
    members: Iterable[tuple[Sequence[str] | None, dict[str, list[int]]]] = (),
    protocol_type: str | None = "consumer",
    **more: Any,
) -> Row:
    """Return a classic group's record; a member is its subscription and its assignment."""
    return {
        "log_partition": 0,
        "log_offset": log_offset,
        "log_timestamp_ms": AT_MS + at,
        "record_type": 2,
        "kind": "group_metadata",
        "value_version": 3,
        "tombstone": False,
        "group": group,
        "protocol_type": protocol_type,
        "generation": 1,
        "state_timestamp_ms": AT_MS + at,
        "members": [_member(number, *member) for number, member in enumerate(members)],
        **more,
    }


def _member(number: int, topics: Sequence[str] | None, assigned: dict[str, list[int]]) -> Row:
    given = [{"topic": name, "partitions": numbers} for name, numbers in assigned.items()]
    return {
        "member_id": f"member-{number}",
        "group_instance_id": None,
        "client_id": "client",
        "client_host": "/127.0.0.1",
        "rebalance_timeout_ms": 1000,
        "session_timeout_ms": 1000,
        "subscribed_topics": topics,
        "owned": None,
        "assigned": given,
        "problem": None if topics is not None else "cut short",
    }


def records(
    topic: str, partition: int, *places: tuple[int, int | None], size: int = 10
) -> list[Row]:
    """Return records of a topic from (offset, ms from `AT_MS` or None without a timestamp)."""
    return [
        {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp_ms": None if at is None else AT_MS + at,
            "record_bytes": size,
        }
        for offset, at in places
    ]


def ends(topic: str, partition: int, log_start: int, log_end: int, **more: Any) -> Row:
    """Return a row of `partition_ends`."""
    return {
        "topic": topic,
        "partition": partition,
        "log_start": log_start,
        "log_end": log_end,
        "high_watermark": log_end,
        "sampled_at_ms": AT_MS,
        "source": "log",
        **more,
    }


def batch(topic: str, batch_id: int, end_offset: int, at: int) -> Row:
    """Return a batch of the Spark query `q1` on partition 0 of a topic."""
    return {
        "query_id": "q1",
        "topic": topic,
        "partition": 0,
        "batch_id": batch_id,
        "end_offset": end_offset,
        "timestamp_ms": AT_MS + at,
    }
