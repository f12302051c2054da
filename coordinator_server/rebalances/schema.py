"""The schema of rebalance records, the values in `__group_events`.

The documentation is generated from this table, and a test checks every record against the table.
Adding a field keeps the `SCHEMA_VERSION`; removing a field or changing its meaning needs a new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.core.groups.explain import Absence, RebalanceOutcome, Trigger
from coordinator_server.core.groups.settings import GroupKind

if TYPE_CHECKING:
    from collections.abc import Iterable

SCHEMA_VERSION = 1

RebalanceRecord = dict[str, Any]
"""A value of the topic, decoded from JSON."""

ADDED: RebalanceRecord = {
    "group_type": GroupKind.CLASSIC.value,
    "assign_ms": 0,
    "reconcile_ms": 0,
    "delays": [],
    "given_up": None,
}
"""Fields that were added to this schema version, with their values for records without them."""


class RecordField(NamedTuple):
    """One field: name, type (`?`: nullable, `[]`: a list) and meaning.

    A type is a JSON type, a name in `OBJECTS`, or `partitions`: an object with the list of
    partition indexes by topic.
    """

    name: str
    kind: str
    meaning: str


def _one_of(values: type[Absence | RebalanceOutcome | Trigger | GroupKind]) -> str:
    return ", ".join(f"`{value.value}`" for value in values)


CLIENT = (
    RecordField("member", "string", "Member id."),
    RecordField("instance", "string?", "Group instance id of a static member (KIP-345)."),
    RecordField("client_id", "string", "Client id."),
    RecordField("host", "string", "Host as Kafka prints it: `/127.0.0.1`."),
)

CAUSE = (
    RecordField("trigger", "string", f"One of {_one_of(Trigger)}."),
    RecordField("culprit", "client?", "The member that set it off; null where it was none."),
    RecordField("reason", "string", "The reason that the client gave (KIP-800); may be empty."),
    RecordField("timeout_ms", "integer?", "The timeout that the culprit missed."),
    RecordField("error", "string", "Name of the error when an assignment could not be written."),
)

LATE_CAUSE = (*CAUSE, RecordField("after_ms", "integer", "When, from the start of the rebalance."))

DROPPED = (*CLIENT, RecordField("why", "string", f"One of {_one_of(Absence)}."))

STRAGGLER = (
    *CLIENT[:3],
    RecordField("after_ms", "integer", "When it joined, from the start of the rebalance."),
)

GIVEN_UP = (
    RecordField("topic", "string", "Topic of the records."),
    RecordField("partition", "integer", "Partition of the records."),
    RecordField("first_offset", "integer", "The first of them."),
    RecordField("last_offset", "integer", "The last of them."),
    RecordField("deliveries", "integer",
          "How often they were delivered; `group.share.delivery.count.limit` is how often they may "
          "be. The culprit is the member that had them last."),
    RecordField("dead_letter_queue", "string?",
          "The group's dead letter queue (KIP-1191); null without one, missing in old records."),
    RecordField("dead_letter_error", "string?",
          "Why they are not in that queue; null if they are, missing in old records."),
)  # fmt: skip

HOLDER = (
    RecordField("member", "string", "Member id of the one that had them."),
    RecordField("partitions", "partitions", "What it had still to give up."),
)

DELAY = (
    *CLIENT[:3],
    RecordField("revoking_ms", "integer?",
          "How long it took, or has taken so far, to give up what it had to; null: nothing."),
    RecordField("waiting_ms", "integer?",
          "How long it waited, or has waited so far, for partitions of others; null: not at all."),
    RecordField("waited_for", "holder[]", "Whose partitions it waited for."),
)  # fmt: skip

MOVES = (
    RecordField("moved", "integer", "Owned by another member than before."),
    RecordField("added", "integer", "Had no owner before."),
    RecordField("revoked", "integer", "Has no owner now."),
    RecordField("stayed", "integer", "Owned by the same member as before."),
)

MEMBER = (
    *CLIENT,
    RecordField("member_before", "string?",
          "Its member id before; another one for a static member that came back."),
    RecordField("status", "string", "`joined`, `stayed` or `left`, compared with before."),
    RecordField("rejoined_ms", "integer?",
          "When its JoinGroup came, or when it reached its target, from the start; null: never."),
    RecordField("partitions_before", "partitions?",
          "What it owned, or had still to give up (in streams groups active tasks, with the "
          "subtopology for a topic); null if it was no member, or if that cannot be read."),
    RecordField("partitions", "partitions?",
          "What it owns; null if it is no member any more, or if that cannot be read."),
    RecordField("topics_added", "string[]",
          "Topics, or the regular expression, that it did not subscribe to before."),
    RecordField("topics_removed", "string[]", "Topics that it does not subscribe to any more."),
)  # fmt: skip

RECORD = (
    RecordField("schema", "integer", f"Version of this schema: {SCHEMA_VERSION}."),
    RecordField("group", "string", "Group id, as in the record's key."),
    RecordField("group_type", "string", f"One of {_one_of(GroupKind)}. Members of all but the "
          "first have epochs; where that makes a difference it is said here."),
    RecordField("outcome", "string", f"How it ended: one of {_one_of(RebalanceOutcome)}. The last "
          "one is that of no record in the topic, but of what the control server shows."),
    *CAUSE,
    RecordField("also", "late_cause[]",
          "What else happened while all members were asked to rejoin; with epochs, before the "
          "target was computed."),
    RecordField("generation_before", "integer", "Generation, or group epoch, when it began."),
    RecordField("generation", "integer",
          "Generation that it made; the one before if its join phase did not end. With epochs the "
          "group epoch that it made."),
    RecordField("protocol_type", "string?", "`consumer`, or what else the members are."),
    RecordField("protocol_before", "string?", "Protocol (assignor) before."),
    RecordField("protocol", "string?", "Protocol of the new generation."),
    RecordField("leader_before", "string?", "Member id of the leader before."),
    RecordField("leader", "string?", "Member id of the new leader."),
    RecordField("started_ms", "integer", "When it began, milliseconds since 1970."),
    RecordField("ended_ms", "integer", "When it ended."),
    RecordField("initial_delay_ms", "integer",
          "Time spent in the initial rebalance delay of an empty group (KIP-134)."),
    RecordField("join_ms", "integer", "Time spent waiting for members to rejoin."),
    RecordField("sync_ms", "integer", "Time spent waiting for the leader's assignment."),
    RecordField("assign_ms", "integer",
          "Epochs: time until the target was computed, mostly that of the assignment interval."),
    RecordField("reconcile_ms", "integer", "Epochs: time until all members had reached it."),
    RecordField("members_before", "integer", "Members when there was an assignment last."),
    RecordField("members_rejoined", "integer",
          "Those of them that joined again; with epochs, that have reached the target."),
    RecordField("members_joined", "integer", "Members that joined and were not there before."),
    RecordField("members_after", "integer", "Members of the new generation."),
    RecordField("stragglers", "straggler[]",
          "The last three to join, or to reach the target, the very last one first."),
    RecordField("dropped", "dropped[]",
          "Members that the group went on without; with epochs each is the culprit of a record."),
    RecordField("given_up", "given_up?",
          "Share groups: the records that were delivered too often, or rejected while there is a "
          "dead letter queue; null in all other cases."),
    RecordField("delays", "delay[]",
          "Epochs: members that had to give partitions up, or to wait for others to do so."),
    RecordField("partitions", "moves?",
          "Partitions by what happened to them; null where it is unknown."),
    RecordField("partitions_unknown", "string?",
          "Why it is unknown: `cannot be read`, or `protocol type ...`."),
    RecordField("members", "member[]",
          "Everyone who was or is a member; empty if no assignment changed."),
    RecordField("shortened", "boolean",
          "Whether the record was too long and has left its lists out."),
)  # fmt: skip
"""The fields of a record, in order."""

OBJECTS = {
    "record": RECORD,
    "client": CLIENT,
    "late_cause": LATE_CAUSE,
    "straggler": STRAGGLER,
    "given_up": GIVEN_UP,
    "delay": DELAY,
    "holder": HOLDER,
    "dropped": DROPPED,
    "moves": MOVES,
    "member": MEMBER,
}
"""The object types of the schema, by name."""


_TOPIC_FIELDS = frozenset({"topic", "dead_letter_queue", "topics_added", "topics_removed"})
"""Fields with names of topics, besides those of the type `partitions`."""


def topics_of(record: RebalanceRecord) -> set[str]:
    """Return the topics that a record names. Partitions of a streams group are its tasks."""
    return _topics(record, RECORD, has_tasks=record.get("group_type") == GroupKind.STREAMS)


def _topics(value: RebalanceRecord, fields: Iterable[RecordField], *, has_tasks: bool) -> set[str]:
    topics: set[str] = set()
    for field in fields:
        inner, kind = value.get(field.name), field.kind.rstrip("[]?")
        if inner is None or (kind == "partitions" and has_tasks):
            continue
        if kind == "partitions" or field.name in _TOPIC_FIELDS:
            topics |= {inner} if isinstance(inner, str) else set(inner)
        elif kind in OBJECTS:
            for item in inner if isinstance(inner, list) else [inner]:
                topics |= _topics(item, OBJECTS[kind], has_tasks=has_tasks)
    return topics


def describe() -> str:
    """Return the schema as Markdown, for docs/rebalances.md."""
    lines: list[str] = []
    for name, fields in OBJECTS.items():
        lines += [f"### `{name}`", "", "| field | type | meaning |", "|---|---|---|"]
        lines += [f"| `{field.name}` | {field.kind} | {field.meaning} |" for field in fields]
        lines.append("")
    return "\n".join(lines)
