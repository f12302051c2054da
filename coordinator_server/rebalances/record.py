"""From the account of a rebalance to its record: plain data, as the topic and the ring hold it.

`schema.RECORD` names every field and its meaning. Made once, when the rebalance has ended: this is
the only place that looks into assignments, so no request waits for it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from coordinator_server.group.explain import Outcome, Trigger
from coordinator_server.rebalances.ownership import (
    Identity,
    Member,
    identity,
    members_of,
    moves,
    subscribed,
    unknown,
)
from coordinator_server.rebalances.schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinator_server.group.explain import Cause, Dropped, Rebalance
    from coordinator_server.rebalances.schema import RebalanceRecord

MAX_VALUE_BYTES = 900_000
"""A longer record leaves its lists out, so that it fits into a batch of a topic's usual size."""

STRAGGLERS = 3
"""How many of those that came last are named."""


def record_of(group_id: str, rebalance: Rebalance) -> RebalanceRecord:
    """The record of a rebalance that has ended."""
    cause, outcome = rebalance.cause, rebalance.outcome
    # A rebalance that was overtaken changed no assignment; loading and the end change none either.
    is_listed = outcome in (Outcome.STABLE, Outcome.EMPTY) and (
        cause.trigger is not Trigger.COORDINATOR_LOADED
    )
    before = members_of(rebalance.before) if is_listed else {}
    after = members_of(rebalance.after) if is_listed else {}
    record: RebalanceRecord = {
        "schema": SCHEMA_VERSION,
        "group": group_id,
        "outcome": outcome.value,
        **_cause(cause),
        "also": [{**_cause(cause), "after_ms": after_ms} for cause, after_ms in rebalance.also],
        "generation_before": rebalance.generation_before,
        "generation": rebalance.generation,
        **_chosen(rebalance),
        **_times(rebalance),
        **_counts(rebalance),
        "stragglers": _stragglers(rebalance),
        "dropped": [_dropped(member) for member in rebalance.dropped],
    }
    reason = unknown(rebalance.protocol_type, (before, after)) if is_listed else None
    is_known = is_listed and reason is None
    record["partitions"] = moves(before, after)._asdict() if is_known else None
    record["partitions_unknown"] = reason
    record["members"] = _members(rebalance, before, after)
    record["shortened"] = False
    return record


def encode_record(record: RebalanceRecord) -> bytes:
    """The record as JSON in UTF-8; one that is too long is shortened."""
    value = _encode(record)
    if len(value) > MAX_VALUE_BYTES:
        value = _encode({**record, "also": [], "dropped": [], "members": [], "shortened": True})
    return value


def _encode(record: RebalanceRecord) -> bytes:
    # What clients send may hold lone surrogates; escaped they survive.
    return json.dumps(record, separators=(",", ":")).encode("ascii")


def log_fields(record: RebalanceRecord) -> RebalanceRecord:
    """What the event `group.rebalanced` says: the record in short, empty fields left out."""
    culprit: RebalanceRecord = record["culprit"] or {}
    partitions: RebalanceRecord = record["partitions"] or {}
    fields = {
        "group": record["group"],
        "generation": record["generation"],
        "outcome": record["outcome"],
        "trigger": record["trigger"],
        "member": culprit.get("member"),
        "instance": culprit.get("instance"),
        "client_host": culprit.get("host"),
        "reason": record["reason"],
        "error": record["error"],
        "members_before": record["members_before"],
        "rejoined": record["members_rejoined"],
        "joined": record["members_joined"],
        "dropped": len(record["dropped"]),
        "moved": partitions.get("moved"),
        "initial_delay_ms": record["initial_delay_ms"],
        "join_ms": record["join_ms"],
        "sync_ms": record["sync_ms"],
    }
    return {name: value for name, value in fields.items() if value not in (None, "")}


def _client(
    member_id: str, group_instance_id: str | None, client_id: str, client_host: str
) -> RebalanceRecord:
    return {
        "member": member_id,
        "instance": group_instance_id,
        "client_id": client_id,
        "host": client_host,
    }


def _cause(cause: Cause) -> RebalanceRecord:
    culprit = None
    if cause.member_id:
        culprit = _client(
            cause.member_id, cause.group_instance_id, cause.client_id, cause.client_host
        )
    return {
        "trigger": cause.trigger.value,
        "culprit": culprit,
        "reason": cause.reason,
        "timeout_ms": cause.timeout_ms,
        "error": cause.error,
    }


def _dropped(dropped: Dropped) -> RebalanceRecord:
    client = _client(
        dropped.member_id, dropped.group_instance_id, dropped.client_id, dropped.client_host
    )
    return {**client, "why": dropped.why.value}


def _chosen(rebalance: Rebalance) -> RebalanceRecord:
    """Protocol and leader before and after."""
    before, after = rebalance.before, rebalance.after
    return {
        "protocol_type": rebalance.protocol_type,
        "protocol_before": before.protocol if before is not None else None,
        "protocol": after.protocol if after is not None else rebalance.protocol_name,
        "leader_before": before.leader if before is not None else None,
        "leader": after.leader if after is not None else rebalance.leader_id,
    }


def _times(rebalance: Rebalance) -> RebalanceRecord:
    """Where the time went; a phase that did not come about took none."""
    join_from_ms = rebalance.delay_ended_ms
    if join_from_ms is None:
        join_from_ms = rebalance.started_ms
    ended_ms = rebalance.ended_ms
    joined_ms = rebalance.joined_ms if rebalance.joined_ms is not None else ended_ms
    return {
        "started_ms": rebalance.started_ms,
        "ended_ms": ended_ms,
        "initial_delay_ms": join_from_ms - rebalance.started_ms,
        "join_ms": joined_ms - join_from_ms,
        "sync_ms": ended_ms - joined_ms,
    }


def _counts(rebalance: Rebalance) -> RebalanceRecord:
    """How many members there were, came back, are new and are there now."""
    recorded = rebalance.before.members if rebalance.before is not None else []
    known = {identity(member.member_id, member.group_instance_id) for member in recorded}
    rejoined = sum(
        identity(member_id, rejoin.group_instance_id) in known
        for member_id, rejoin in rebalance.rejoined.items()
    )
    members = rebalance.members
    if rebalance.after is not None:
        members = len(rebalance.after.members)
    return {
        "members_before": len(recorded),
        "members_rejoined": rejoined,
        "members_joined": len(rebalance.rejoined) - rejoined,
        "members_after": members,
    }


def _stragglers(rebalance: Rebalance) -> list[RebalanceRecord]:
    """The members that joined last, the very last one first."""
    late = sorted(rebalance.rejoined.items(), key=lambda item: -item[1].after_ms)[:STRAGGLERS]
    return [
        {
            "member": member_id,
            "instance": rejoin.group_instance_id,
            "client_id": rejoin.client_id,
            "after_ms": rejoin.after_ms,
        }
        for member_id, rejoin in late
        if rejoin.after_ms
    ]


def _members(
    rebalance: Rebalance, before: Mapping[Identity, Member], after: Mapping[Identity, Member]
) -> list[RebalanceRecord]:
    """Everyone who was or is a member, with the partitions on both sides."""
    entries = []
    for who in {**before, **after}:
        old, new = before.get(who), after.get(who)
        recorded_member = (new or old or before[who]).recorded
        status = "left" if new is None else "joined" if old is None else "stayed"
        rejoin = rebalance.rejoined.get(recorded_member.member_id)
        topics_before = topics = frozenset[str]()
        if old and new and old.recorded.subscription != new.recorded.subscription:
            topics_before = subscribed(old.recorded.subscription)
            topics = subscribed(new.recorded.subscription)
        entries.append(
            {
                **_client(
                    recorded_member.member_id,
                    recorded_member.group_instance_id,
                    recorded_member.client_id,
                    recorded_member.client_host,
                ),
                "member_before": old.recorded.member_id if old is not None else None,
                "status": status,
                "rejoined_ms": rejoin.after_ms if rejoin is not None and new else None,
                "partitions_before": old.partitions if old is not None else None,
                "partitions": new.partitions if new is not None else None,
                "topics_added": sorted(topics - topics_before),
                "topics_removed": sorted(topics_before - topics),
            }
        )
    return entries
