"""Short constructors of rows of the offsets log, with defaults for most columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Row = dict[str, Any]
Partitions = Mapping[str, list[int]]


def member(name: str, assigned: Partitions | None = None, **more: Any) -> Row:
    """Return a member of a classic generation: client id `client-NAME`, host `/10.0.0.1`."""
    return {
        "member_id": name,
        "group_instance_id": None,
        "client_id": f"client-{name}",
        "client_host": "/10.0.0.1",
        "rebalance_timeout_ms": 60_000,
        "session_timeout_ms": 45_000,
        "subscribed_topics": None if assigned is None else sorted(assigned),
        "owned": None if assigned is None else [],
        "assigned": partitions(assigned),
        "problem": None,
        **more,
    }


def partitions(assigned: Partitions | None) -> list[Row] | None:
    """Return an assignment in the form of the schema; None if it is unreadable."""
    if assigned is None:
        return None
    return [{"topic": topic, "partitions": numbers} for topic, numbers in assigned.items()]


def generation(group: str, at_ms: int, offset: int, number: int, *members: Row, **more: Any) -> Row:
    """Return a classic group's record; the first member, if any, is the leader."""
    return {
        "kind": "group_metadata",
        "record_type": 2,
        "tombstone": False,
        "group": group,
        "protocol_type": "consumer",
        "protocol": "range" if members else None,
        "leader": members[0]["member_id"] if members else None,
        "generation": number,
        "state_timestamp_ms": at_ms,
        "members": list(members),
        **_placed(at_ms, offset),
        **more,
    }


def commit(
    group: str, at_ms: int, offset: int, place: str, committed: int | None, **more: Any
) -> Row:
    """Return a commit of `place` (`topic-partition`), or its removal if `committed` is None."""
    topic, _, partition = place.rpartition("-")
    gone = committed is None
    return {
        "kind": "offset_commit",
        "record_type": 1,
        "tombstone": gone,
        "group": group,
        "topic": topic,
        "partition": int(partition),
        "committed_offset": committed,
        "metadata": None if gone else "",
        "commit_timestamp_ms": None if gone else at_ms,
        **_placed(at_ms, offset),
        **more,
    }


def removal(group: str, at_ms: int, offset: int, kind: str = "group_metadata", **more: Any) -> Row:
    """Return a tombstone of a record of type `kind`, by default of the group itself."""
    return {
        "kind": kind,
        "tombstone": True,
        "group": group,
        **_placed(at_ms, offset),
        **more,
    }


def epoch(group: str, at_ms: int, offset: int, number: int, **more: Any) -> Row:
    """Return an epoch of a KIP-848 group."""
    return {
        "kind": "consumer_group_metadata",
        "record_type": 3,
        "tombstone": False,
        "group": group,
        "generation": number,
        **_placed(at_ms, offset),
        **more,
    }


def modern_member(group: str, at_ms: int, offset: int, name: str, *topics: str) -> Row:
    """Return a member's record of a KIP-848 group."""
    value = {
        "instanceId": None,
        "rackId": None,
        "clientId": f"client-{name}",
        "clientHost": "/10.0.0.1",
        "subscribedTopicNames": list(topics),
        "subscribedTopicRegex": None,
        "rebalanceTimeoutMs": 60_000,
        "serverAssignor": None,
    }
    return _modern("consumer_group_member_metadata", 5, group, at_ms, offset, name, value)


def target(group: str, at_ms: int, offset: int, number: int, **computed: int) -> Row:
    """Return the target assignment of an epoch, with `assignmentTimestamp` as of Kafka 4.3."""
    value = {"assignmentEpoch": number, **computed}
    kind = "consumer_group_target_assignment_metadata"
    return {**_modern(kind, 6, group, at_ms, offset, "", value), "member_id": None}


def modern_assignment(
    group: str,
    at_ms: int,
    offset: int,
    name: str,
    member_epoch: int,
    assigned: Partitions,
    epochs: Partitions | None = None,
) -> Row:
    """Return a KIP-848 member's assignment by topic id, with `epochs` as of Kafka 4.3."""
    value = {
        "memberEpoch": member_epoch,
        "previousMemberEpoch": member_epoch - 1,
        "state": 0,
        "assignedPartitions": [
            {
                "topicId": topic_id,
                "partitions": numbers,
                **({"assignmentEpochs": epochs[topic_id]} if epochs else {}),
            }
            for topic_id, numbers in assigned.items()
        ],
        "partitionsPendingRevocation": [],
    }
    kind = "consumer_group_current_member_assignment"
    return _modern(kind, 8, group, at_ms, offset, name, value)


def _modern(
    kind: str, number: int, group: str, at_ms: int, offset: int, name: str, value: Row
) -> Row:
    return {
        "kind": kind,
        "record_type": number,
        "tombstone": False,
        "group": group,
        "member_id": name,
        "details": json.dumps({"key": {"groupId": group, "memberId": name}, "value": value}),
        **_placed(at_ms, offset),
    }


def _placed(at_ms: int, offset: int) -> Row:
    return {
        "log_partition": 0,
        "log_offset": offset,
        "log_timestamp_ms": at_ms,
        "record_bytes": 100,
    }
