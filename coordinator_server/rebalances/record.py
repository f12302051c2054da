"""Builds the record of a rebalance: JSON, as stored in the topic and the history.

`schema.RECORD` describes every field. A record is built once, after the rebalance has ended, so no
request waits for the decoding of assignments. Member entries, which are most of a record, are
written directly as JSON.
"""

from __future__ import annotations

import json
from json.encoder import encode_basestring_ascii as quoted
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.effects import Pace
from coordinator_server.core.groups.explain import WITHOUT_REBALANCE, RebalanceOutcome
from coordinator_server.core.groups.modern.account import EpochChange
from coordinator_server.core.groups.modern.snapshot import by_name
from coordinator_server.core.groups.settings import GroupKind
from coordinator_server.rebalances.given_up import GivenUpAccount
from coordinator_server.rebalances.ownership import (
    Identity,
    LoggedMember,
    identity,
    members_of,
    moves,
    subscribed,
    unknown,
)
from coordinator_server.rebalances.schema import SCHEMA_VERSION
from coordinator_server.steps import run_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinator_server.core.groups.explain import Cause, Dropped, Rebalance
    from coordinator_server.rebalances.schema import RebalanceRecord
    from coordinator_server.steps import Computation

MAX_VALUE_BYTES = 900_000
"""Limit of a record's size; a longer record drops its lists to fit the default batch size."""

MEMBERS_PER_STEP = 50
"""Number of member entries written in one step."""

STRAGGLERS = 3
"""Number of late members named in a record."""


class Record(NamedTuple):
    """A record: its fields without `members`, and the JSON of each member."""

    fields: RebalanceRecord
    members: list[str]


def record_of(group_id: str, rebalance: Rebalance) -> Record:
    """Return the record of a rebalance that has ended."""
    return run_all(record_in_steps(group_id, rebalance))


def record_in_steps(group_id: str, rebalance: Rebalance) -> Computation[Record]:
    """Like `record_of`, in steps, for groups with many partitions."""
    cause, outcome = rebalance.cause, rebalance.outcome
    # Members are listed only if assignments can have changed. A superseded rebalance changes none,
    # nor does the loading or removal of a group. In a group with epochs, each member may change
    # its assignment at any time.
    is_listed = cause.trigger not in WITHOUT_REBALANCE and (
        outcome in (RebalanceOutcome.STABLE, RebalanceOutcome.EMPTY)
        or isinstance(rebalance, EpochChange)
    )
    before = (yield from members_of(rebalance.before)) if is_listed else {}
    after = (yield from members_of(rebalance.after)) if is_listed else {}
    fields: RebalanceRecord = {
        "schema": SCHEMA_VERSION,
        "group": group_id,
        "group_type": rebalance.kind.value,
        "outcome": outcome.value,
        **_cause(cause),
        "also": [{**_cause(cause), "after_ms": after_ms} for cause, after_ms in rebalance.also],
        "generation_before": rebalance.generation_before,
        "generation": rebalance.generation,
        **_chosen(rebalance),
        **times(rebalance),
        **_counts(rebalance),
        "stragglers": _stragglers(rebalance),
        "dropped": [_dropped(member) for member in rebalance.dropped],
        "given_up": rebalance.records._asdict() if isinstance(rebalance, GivenUpAccount) else None,
        "delays": (yield from delays(rebalance, rebalance.ended_ms))
        if isinstance(rebalance, EpochChange)
        else [],
    }
    protocol_type = rebalance.protocol_type
    reason = unknown(protocol_type, (before, after)) if is_listed else None
    is_known = is_listed and reason is None
    fields["partitions"] = (yield from moves(before, after))._asdict() if is_known else None
    fields["partitions_unknown"] = reason
    members = yield from _members(rebalance, before, after)
    return Record(fields, members)


def encode_record(record: Record) -> bytes:
    """Return the record as ASCII JSON, without its lists if longer than MAX_VALUE_BYTES."""
    value = _encode(record.fields, record.members)
    if len(value) > MAX_VALUE_BYTES:
        value = _encode(
            {**record.fields, "also": [], "dropped": [], "delays": []}, [], shortened=True
        )
    return value


def _encode(fields: RebalanceRecord, members: list[str], *, shortened: bool = False) -> bytes:
    # Strings from clients may contain lone surrogates, which survive as JSON escapes.
    text = json.dumps(fields, separators=(",", ":"))
    tail = f'"members":[{",".join(members)}],"shortened":{json.dumps(shortened)}}}'
    return f"{text[:-1]},{tail}".encode("ascii")


def log_fields(record: Record) -> RebalanceRecord:
    """Return the fields of the log event `group.rebalanced`; empty fields are left out."""
    whole = record.fields
    culprit: RebalanceRecord = whole["culprit"] or {}
    partitions: RebalanceRecord = whole["partitions"] or {}
    has_epochs = whole["group_type"] != GroupKind.CLASSIC
    fields = {
        "group": whole["group"],
        "type": whole["group_type"] if has_epochs else None,
        "generation": whole["generation"],
        "outcome": whole["outcome"],
        "trigger": whole["trigger"],
        "member": culprit.get("member"),
        "instance": culprit.get("instance"),
        "client_host": culprit.get("host"),
        "reason": whole["reason"],
        "error": whole["error"],
        "members_before": whole["members_before"],
        "rejoined": whole["members_rejoined"],
        "joined": whole["members_joined"],
        "dropped": len(whole["dropped"]),
        "moved": partitions.get("moved"),
        "initial_delay_ms": None if has_epochs else whole["initial_delay_ms"],
        "join_ms": None if has_epochs else whole["join_ms"],
        "sync_ms": None if has_epochs else whole["sync_ms"],
        "assign_ms": whole["assign_ms"] if has_epochs else None,
        "reconcile_ms": whole["reconcile_ms"] if has_epochs else None,
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
    """Return the protocol and leader before and after the rebalance."""
    before, after = rebalance.before, rebalance.after
    return {
        "protocol_type": rebalance.protocol_type,
        "protocol_before": before.protocol if before is not None else None,
        "protocol": after.protocol if after is not None else rebalance.protocol_name,
        "leader_before": before.leader if before is not None else None,
        "leader": after.leader if after is not None else rebalance.leader_id,
    }


def times(rebalance: Rebalance) -> RebalanceRecord:
    """Return start, end and the duration of each phase; a phase that was not reached took 0 ms."""
    started_ms, ended_ms = rebalance.started_ms, rebalance.ended_ms
    if isinstance(rebalance, EpochChange):
        assigned_ms = ended_ms if rebalance.assigned_ms is None else rebalance.assigned_ms
        return {
            "started_ms": started_ms,
            "ended_ms": ended_ms,
            "initial_delay_ms": 0,
            "join_ms": 0,
            "sync_ms": 0,
            "assign_ms": assigned_ms - started_ms,
            "reconcile_ms": ended_ms - assigned_ms,
        }
    join_from_ms = rebalance.delay_ended_ms
    if join_from_ms is None:
        join_from_ms = started_ms
    joined_ms = rebalance.joined_ms if rebalance.joined_ms is not None else ended_ms
    return {
        "started_ms": started_ms,
        "ended_ms": ended_ms,
        "initial_delay_ms": join_from_ms - started_ms,
        "join_ms": joined_ms - join_from_ms,
        "sync_ms": ended_ms - joined_ms,
        "assign_ms": 0,
        "reconcile_ms": 0,
    }


def _counts(rebalance: Rebalance) -> RebalanceRecord:
    """Return the numbers of members before and after the rebalance, of rejoined and new members."""
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
    """Return the members that joined last, latest first."""
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


def delays(change: EpochChange, now_ms: int) -> Computation[list[RebalanceRecord]]:
    """Return the members that had to revoke partitions, or wait for revocations, until `now_ms`."""
    known = {
        member.member_id: member
        for side in (change.before, change.after)
        for member in (side.members if side is not None else ())
    }
    listed = []
    pace = Pace()
    for member_id in dict.fromkeys((*change.revocations, *change.waits)):
        member = known.get(member_id)
        if member is None:
            continue
        revocation, wait = change.revocations.get(member_id), change.waits.get(member_id)
        waited_for = []
        for holder, partitions in {} if wait is None else wait.holders.items():
            named = by_name(change.environment, partitions)
            waited_for.append({"member": holder, "partitions": named})
            if pace.is_due(len(named)):
                yield
        listed.append(
            {
                "member": member_id,
                "instance": member.group_instance_id,
                "client_id": member.client_id,
                "revoking_ms": None if revocation is None else revocation.lasted_ms(now_ms),
                "waiting_ms": None if wait is None else wait.lasted_ms(now_ms),
                "waited_for": waited_for,
            }
        )
    return listed


def _members(
    rebalance: Rebalance,
    before: Mapping[Identity, LoggedMember],
    after: Mapping[Identity, LoggedMember],
) -> Computation[list[str]]:
    """Return the JSON of each former or current member, with its partitions before and after."""
    rejoined = rebalance.rejoined
    entries = []
    for who in {**before, **after}:
        old, new = before.get(who), after.get(who)
        recorded = (new or old or before[who]).recorded
        instance_id = recorded.group_instance_id
        rejoin = rejoined.get(recorded.member_id) if new is not None else None
        topics = '"topics_added":[],"topics_removed":[]'
        if old and new and old.recorded.subscription != new.recorded.subscription:
            topics = _changed_topics(old.recorded.subscription, new.recorded.subscription)
        entries.append(
            f'{{"member":{quoted(recorded.member_id)}'
            f',"instance":{"null" if instance_id is None else quoted(instance_id)}'
            f',"client_id":{quoted(recorded.client_id)},"host":{quoted(recorded.client_host)}'
            f',"member_before":{"null" if old is None else quoted(old.recorded.member_id)}'
            f',"status":"{"left" if new is None else "joined" if old is None else "stayed"}"'
            f',"rejoined_ms":{"null" if rejoin is None else rejoin.after_ms}'
            f',"partitions_before":{_partitions(old)},"partitions":{_partitions(new)},{topics}}}'
        )
        if not len(entries) % MEMBERS_PER_STEP:
            yield
    return entries


def _partitions(member: LoggedMember | None) -> str:
    """Return the partitions of a member as JSON; "null" if unknown."""
    if member is None or member.assignment is None:
        return "null"
    return member.assignment.json


def _changed_topics(
    metadata_before: bytes | frozenset[str], metadata: bytes | frozenset[str]
) -> str:
    """Return the fields `topics_added` and `topics_removed` as JSON."""
    topics_before, topics = subscribed(metadata_before), subscribed(metadata)
    changes = {
        "topics_added": sorted(topics - topics_before),
        "topics_removed": sorted(topics_before - topics),
    }
    return json.dumps(changes, separators=(",", ":"))[1:-1]
