"""What a record of a rebalance holds: the schema of the values in `__group_events`.

One table for the documentation, for the test that holds every record against it, and for users who
read the topic. Fields may be added; one that is removed or changes its meaning makes a new
`SCHEMA_VERSION`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from coordinator_server.group.explain import Absence, Outcome, Trigger

SCHEMA_VERSION = 1

RebalanceRecord = dict[str, Any]
"""A value of the topic, as JSON has it."""


class RecordField(NamedTuple):
    """One field: its type (`?`: or null, `[]`: a list of it), and what it means.

    A type is one of JSON, a name in `OBJECTS`, or `partitions`: an object that gives a topic the
    list of its partition indexes.
    """

    name: str
    kind: str
    meaning: str


def _one_of(values: type[Absence | Outcome | Trigger]) -> str:
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
          "When its JoinGroup came, from the start; null for who did not join."),
    RecordField("partitions_before", "partitions?",
          "What it owned; null if it was no member, or if that cannot be read."),
    RecordField("partitions", "partitions?",
          "What it owns; null if it is no member any more, or if that cannot be read."),
    RecordField("topics_added", "string[]", "Topics that it did not subscribe to before."),
    RecordField("topics_removed", "string[]", "Topics that it does not subscribe to any more."),
)  # fmt: skip

RECORD = (
    RecordField("schema", "integer", f"Version of this schema: {SCHEMA_VERSION}."),
    RecordField("group", "string", "Group id, as in the record's key."),
    RecordField("outcome", "string", f"How it ended: one of {_one_of(Outcome)}."),
    *CAUSE,
    RecordField("also", "late_cause[]",
          "What else happened while all members were asked to rejoin."),
    RecordField("generation_before", "integer", "Generation when it began."),
    RecordField("generation", "integer",
          "Generation that it made; the one before if its join phase did not end."),
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
    RecordField("members_before", "integer", "Members when there was an assignment last."),
    RecordField("members_rejoined", "integer", "Those of them that joined again."),
    RecordField("members_joined", "integer", "Members that joined and were not there before."),
    RecordField("members_after", "integer", "Members of the new generation."),
    RecordField("stragglers", "straggler[]", "The last three to join, the very last one first."),
    RecordField("dropped", "dropped[]", "Members that the group went on without."),
    RecordField("partitions", "moves?",
          "Partitions by what happened to them; null where it is unknown."),
    RecordField("partitions_unknown", "string?",
          "Why it is unknown: `cannot be read`, or `protocol type ...`."),
    RecordField("members", "member[]",
          "Everyone who was or is a member; empty if no assignment changed."),
    RecordField("shortened", "boolean",
          "Whether the record was too long and has left its lists out."),
)  # fmt: skip
"""The fields of a record, in their order."""

OBJECTS = {
    "record": RECORD,
    "client": CLIENT,
    "late_cause": LATE_CAUSE,
    "straggler": STRAGGLER,
    "dropped": DROPPED,
    "moves": MOVES,
    "member": MEMBER,
}
"""The objects that values are made of, by name."""


def describe() -> str:
    """The schema as Markdown; docs/rebalances.md shows it."""
    lines: list[str] = []
    for name, fields in OBJECTS.items():
        lines += [f"### `{name}`", "", "| field | type | meaning |", "|---|---|---|"]
        lines += [f"| `{field.name}` | {field.kind} | {field.meaning} |" for field in fields]
        lines.append("")
    return "\n".join(lines)
