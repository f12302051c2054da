"""A group whose members get real partitions, and whose rebalances are recorded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from coordinator_server.rebalances.record import Record as Written
from coordinator_server.rebalances.record import encode_record, record_of
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartition,
    encode_assignment,
)
from tests.harness.one_group import GROUP
from tests.unit.core.groups.context import GroupContext, Member
from tests.unit.rebalances.schema import faults

Record = dict[str, Any]

EMPTY_RECORD: Record = {
    "schema": 1,
    "group": GROUP,
    "group_type": "classic",
    "outcome": "stable",
    "culprit": None,
    "reason": "",
    "timeout_ms": None,
    "error": "",
    "also": [],
    "protocol_type": "consumer",
    "protocol_before": "range",
    "protocol": "range",
    "initial_delay_ms": 0,
    "join_ms": 0,
    "sync_ms": 0,
    "assign_ms": 0,
    "reconcile_ms": 0,
    "members_before": 0,
    "members_rejoined": 0,
    "members_joined": 0,
    "stragglers": [],
    "dropped": [],
    "given_up": None,
    "delays": [],
    "partitions": None,
    "partitions_unknown": None,
    "members": [],
    "shortened": False,
}
"""The default fields of a record."""


def assignment(**topics: Sequence[int]) -> bytes:
    """Return a consumer protocol assignment of topic=partitions."""
    return encode_assignment(
        ConsumerProtocolAssignment(
            assigned_partitions=[
                TopicPartition(topic=topic, partitions=list(indexes))
                for topic, indexes in topics.items()
            ]
        )
    )


def client(member: Member, member_id: str | None = None) -> Record:
    """Return a member as named in rebalance records."""
    return {
        "member": member_id or member.id,
        "instance": member.instance_id,
        "client_id": member.name,
        "host": "/127.0.0.1",
    }


def straggler(member: Member, after_ms: int) -> Record:
    """Return a late member as named in rebalance records, with its delay in ms."""
    named = client(member)
    del named["host"]
    return {**named, "after_ms": after_ms}


def cause(trigger: str, culprit: Member | Record | None = None, **changes: Any) -> Record:
    """Return the fields of a cause."""
    named = client(culprit) if isinstance(culprit, Member) else culprit
    fields = {"trigger": trigger, "culprit": named, "reason": "", "timeout_ms": None, "error": ""}
    return fields | changes


def stayed(member: Member, before: Sequence[int], after: Sequence[int], **changes: Any) -> Record:
    """Return an existing member, with its old and new partitions of topic `t`."""
    return {
        **client(member),
        "member_before": member.id,
        "status": "stayed",
        "rejoined_ms": 0,
        "partitions_before": {"t": list(before)} if before else {},
        "partitions": {"t": list(after)} if after else {},
        "topics_added": [],
        "topics_removed": [],
    } | changes


def joined(member: Member, after: Sequence[int], **changes: Any) -> Record:
    """Return a member that joined."""
    new = {"member_before": None, "status": "joined", "partitions_before": None}
    return stayed(member, (), after) | new | changes


def gone(member: Member, before: Sequence[int], **changes: Any) -> Record:
    """Return a member that left."""
    left = {"status": "left", "rejoined_ms": None, "partitions": None}
    return stayed(member, before, ()) | left | changes


def moves(moved: int = 0, added: int = 0, revoked: int = 0, kept: int = 0) -> Record:
    """Return the counts of partitions by kind of change."""
    return {"moved": moved, "added": added, "revoked": revoked, "stayed": kept}


class ExplainedGroup(GroupContext):
    """A group context whose members get partitions of the topic `t`."""

    def assign(self, shares: dict[Member, Sequence[int]]) -> None:
        """Sync all members, the leader last with these assignments."""
        leader = next(one for one in shares if one.is_leader)
        for member in shares:
            if member is not leader:
                member.sync()
        leader.sync({one.id: assignment(t=share) for one, share in shares.items() if share})

    def settled(self, shares: dict[Member | str, Sequence[int]], **options: Any) -> list[Member]:
        """Return a Stable group with these assignments, and forget its earlier records."""
        members = self.completing(*shares, **options)
        self.assign(dict(zip(members, shares.values(), strict=True)))
        self.broker.explained.clear()
        return members

    def written(self) -> list[Written]:
        """Return all records since `settled` in internal form, and forget them."""
        written = [record_of(GROUP, rebalance) for rebalance in self.broker.explained]
        self.broker.explained.clear()
        return written

    def records(self) -> list[Record]:
        """Return all records since `settled` as a reader gets them, and forget them."""
        records = [json.loads(encode_record(record)) for record in self.written()]
        assert [fault for record in records for fault in faults(record)] == []
        return records

    def record(self) -> Record:
        """Return the only record since `settled`."""
        (found,) = self.records()
        return found

    def expected(self, started_ms: int, **fields: Any) -> Record:
        """Return a record of a rebalance from `started_ms` until now."""
        return EMPTY_RECORD | {"started_ms": started_ms, "ended_ms": self.broker.now_ms} | fields
