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
    RecordField(
        "culprit", "client?", "The member that caused the rebalance; null if no member did."
    ),
    RecordField("reason", "string", "The reason that the client sent (KIP-800); may be empty."),
    RecordField("timeout_ms", "integer?", "The timeout that the culprit missed."),
    RecordField("error", "string", "Name of the error if an assignment could not be written."),
)

LATE_CAUSE = (
    *CAUSE,
    RecordField(
        "after_ms", "integer", "Time of the event, in ms since the start of the rebalance."
    ),
)

DROPPED = (*CLIENT, RecordField("why", "string", f"One of {_one_of(Absence)}."))

STRAGGLER = (
    *CLIENT[:3],
    RecordField(
        "after_ms",
        "integer",
        "Time at which the member joined, in ms since the start of the rebalance.",
    ),
)

GIVEN_UP = (
    RecordField("topic", "string", "Topic of the records."),
    RecordField("partition", "integer", "Partition of the records."),
    RecordField("first_offset", "integer", "Offset of the first record."),
    RecordField("last_offset", "integer", "Offset of the last record."),
    RecordField("deliveries", "integer",
          "Number of deliveries; `group.share.delivery.count.limit` is the maximum. The culprit "
          "is the last member that acquired the records."),
    RecordField("dead_letter_queue", "string?",
          "The group's dead letter queue (KIP-1191); null without one, missing in old records."),
    RecordField("dead_letter_error", "string?",
          "Why the records were not written to the queue; null if they were, missing in old "
          "records."),
)  # fmt: skip

HOLDER = (
    RecordField("member", "string", "Id of the member that owned the partitions."),
    RecordField("partitions", "partitions", "Partitions that this member still had to revoke."),
)

DELAY = (
    *CLIENT[:3],
    RecordField("revoking_ms", "integer?",
          "Time that the member needed to revoke partitions, or has needed until now; null if it "
          "had none to revoke."),
    RecordField("waiting_ms", "integer?",
          "Time that the member waited for partitions of other members, or has waited until now; "
          "null if it did not wait."),
    RecordField("waited_for", "holder[]", "The members whose partitions it waited for."),
)  # fmt: skip

MOVES = (
    RecordField("moved", "integer", "Number of partitions whose owner changed."),
    RecordField("added", "integer", "Number of partitions that had no owner before."),
    RecordField("revoked", "integer", "Number of partitions that have no owner now."),
    RecordField("stayed", "integer", "Number of partitions that kept their owner."),
)

MEMBER = (
    *CLIENT,
    RecordField("member_before", "string?",
          "Previous member id; differs from `member` if a static member returned."),
    RecordField("status", "string",
         "`joined`, `stayed` or `left`, compared with the previous generation."),
    RecordField("rejoined_ms", "integer?",
          "Time of its JoinGroup, or time at which it reached its target, in ms since the start; "
          "null if it did neither."),
    RecordField("partitions_before", "partitions?",
          "Partitions that the member owned or still had to revoke; in streams groups active "
          "tasks, with the subtopology in place of a topic. Null if it was not a member, or if "
          "the assignment is unreadable."),
    RecordField("partitions", "partitions?",
          "Partitions that the member owns; null if it is no longer a member, or if the "
          "assignment is unreadable."),
    RecordField("topics_added", "string[]",
          "Topics, or the regular expression, in its new subscription only."),
    RecordField("topics_removed", "string[]", "Topics in its previous subscription only."),
)  # fmt: skip

RECORD = (
    RecordField("schema", "integer", f"Version of this schema: {SCHEMA_VERSION}."),
    RecordField("group", "string", "Group id, as in the record's key."),
    RecordField("group_type", "string", f"One of {_one_of(GroupKind)}. All types except the "
          "first are groups with epochs."),
    RecordField("outcome", "string", f"How the rebalance ended: {_one_of(RebalanceOutcome)}. Only "
          "the control server shows the last outcome; no record in the topic has it."),
    *CAUSE,
    RecordField("also", "late_cause[]",
          "Further causes: events while the members were rejoining or, in groups with epochs, "
          "before the target was computed."),
    RecordField("generation_before", "integer", "Generation, or group epoch, at the start."),
    RecordField("generation", "integer",
          "New generation, or the previous generation if the join phase did not end; in groups "
          "with epochs, the new group epoch."),
    RecordField("protocol_type", "string?", "`consumer`, or another protocol type of the members."),
    RecordField("protocol_before", "string?", "Previous protocol (assignor)."),
    RecordField("protocol", "string?", "Protocol of the new generation."),
    RecordField("leader_before", "string?", "Member id of the previous leader."),
    RecordField("leader", "string?", "Member id of the new leader."),
    RecordField("started_ms", "integer", "Start, in milliseconds since 1970."),
    RecordField("ended_ms", "integer", "End, in milliseconds since 1970."),
    RecordField("initial_delay_ms", "integer",
          "Time spent in the initial rebalance delay of an empty group (KIP-134)."),
    RecordField("join_ms", "integer", "Time spent waiting for members to rejoin."),
    RecordField("sync_ms", "integer", "Time spent waiting for the leader's assignment."),
    RecordField("assign_ms", "integer",
          "Groups with epochs: time until the target was computed, mostly because of the "
          "assignment interval."),
    RecordField("reconcile_ms", "integer",
         "Groups with epochs: time from then until all members had reached the target."),
    RecordField("members_before", "integer", "Number of members with the last assignment."),
    RecordField("members_rejoined", "integer",
          "Number of these members that rejoined; in groups with epochs, that have reached the "
          "target."),
    RecordField("members_joined", "integer", "Number of new members."),
    RecordField("members_after", "integer", "Number of members of the new generation."),
    RecordField("stragglers", "straggler[]",
          "The last three members that joined or reached the target; the last member comes first."),
    RecordField("dropped", "dropped[]",
          "Members that were removed; in groups with epochs, each of them is the culprit of a "
          "record."),
    RecordField("given_up", "given_up?",
          "Share groups: records that reached the delivery limit, or were rejected in a group "
          "with a dead letter queue; null in all other records."),
    RecordField("delays", "delay[]",
          "Groups with epochs: members that had to revoke partitions, or waited for other members "
          "to revoke them."),
    RecordField("partitions", "moves?",
          "Numbers of partitions that moved or stayed; null if unknown."),
    RecordField("partitions_unknown", "string?",
          "Why `partitions` is null: `cannot be read`, or `protocol type ...`."),
    RecordField("members", "member[]",
          "All previous and new members; empty if no assignment changed."),
    RecordField("shortened", "boolean",
          "Whether lists were omitted because the record was too long."),
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
