"""What a record of a rebalance holds: the schema of the values in `__group_events`.

One table for the documentation, for the test that holds every record against it, and for whoever
reads the topic. Fields may be added; one that is taken away or changes its meaning makes a new
`SCHEMA_VERSION`.
"""

from __future__ import annotations

from typing import NamedTuple

from coordinator_server.group.explain import Absence, Outcome, Trigger

SCHEMA_VERSION = 1


class Field(NamedTuple):
    """One field: its type (`?`: or null, `[]`: a list of it), and what it means.

    A type is one of JSON, a name in `OBJECTS`, or `partitions`: an object that gives a topic the
    list of its partition indexes.
    """

    name: str
    kind: str
    meaning: str


def _one_of(values: type[Absence | Outcome | Trigger]) -> str:
    return ", ".join(f"`{one.value}`" for one in values)


CLIENT = (
    Field("member", "string", "Member id."),
    Field("instance", "string?", "Group instance id of a static member (KIP-345)."),
    Field("client_id", "string", "Client id."),
    Field("host", "string", "Host as Kafka prints it: `/127.0.0.1`."),
)

CAUSE = (
    Field("trigger", "string", f"One of {_one_of(Trigger)}."),
    Field("culprit", "client?", "The member that set it off; null where it was none."),
    Field("reason", "string", "The reason that the client gave (KIP-800); may be empty."),
    Field("timeout_ms", "integer?", "The timeout that the culprit missed."),
    Field("error", "string", "Name of the error when an assignment could not be written."),
)

LATE_CAUSE = (*CAUSE, Field("after_ms", "integer", "When, from the start of the rebalance."))

DROPPED = (*CLIENT, Field("why", "string", f"One of {_one_of(Absence)}."))

STRAGGLER = (
    *CLIENT[:3],
    Field("after_ms", "integer", "When it joined, from the start of the rebalance."),
)

MOVES = (
    Field("moved", "integer", "Owned by another member than before."),
    Field("added", "integer", "Owned by nobody before."),
    Field("revoked", "integer", "Owned by nobody now."),
    Field("stayed", "integer", "Owned by the same member as before."),
)

MEMBER = (
    *CLIENT,
    Field("member_before", "string?",
          "Its member id before; another one for a static member that came back."),
    Field("status", "string", "`joined`, `stayed` or `left`, compared with before."),
    Field("rejoined_ms", "integer?",
          "When its JoinGroup came, from the start; null for who did not join."),
    Field("partitions_before", "partitions?",
          "What it owned; null if it was no member, or if that cannot be read."),
    Field("partitions", "partitions?",
          "What it owns; null if it is no member any more, or if that cannot be read."),
    Field("topics_added", "string[]", "Topics that it did not subscribe to before."),
    Field("topics_removed", "string[]", "Topics that it does not subscribe to any more."),
)  # fmt: skip

RECORD = (
    Field("schema", "integer", f"Version of this schema: {SCHEMA_VERSION}."),
    Field("group", "string", "Group id, as in the record's key."),
    Field("outcome", "string", f"How it ended: one of {_one_of(Outcome)}."),
    *CAUSE,
    Field("also", "late_cause[]",
          "What else happened while everybody was asked to rejoin."),
    Field("generation_before", "integer", "Generation when it began."),
    Field("generation", "integer",
          "Generation that it made; the one before if its join phase did not end."),
    Field("protocol_type", "string?", "`consumer`, or what else the members are."),
    Field("protocol_before", "string?", "Protocol (assignor) before."),
    Field("protocol", "string?", "Protocol of the new generation."),
    Field("leader_before", "string?", "Member id of the leader before."),
    Field("leader", "string?", "Member id of the new leader."),
    Field("started_ms", "integer", "When it began, milliseconds since 1970."),
    Field("ended_ms", "integer", "When it ended."),
    Field("initial_delay_ms", "integer",
          "Time spent in the initial rebalance delay of an empty group (KIP-134)."),
    Field("join_ms", "integer", "Time spent waiting for members to rejoin."),
    Field("sync_ms", "integer", "Time spent waiting for the leader's assignment."),
    Field("members_before", "integer", "Members when there was an assignment last."),
    Field("members_rejoined", "integer", "Those of them that joined again."),
    Field("members_joined", "integer", "Members that joined and were not there before."),
    Field("members_after", "integer", "Members of the new generation."),
    Field("stragglers", "straggler[]", "The last three to join, the very last one first."),
    Field("dropped", "dropped[]", "Members that the group went on without."),
    Field("partitions", "moves?",
          "Partitions by what happened to them; null where it cannot be told."),
    Field("partitions_unknown", "string?",
          "Why it cannot be told: `cannot be read`, or `protocol type ...`."),
    Field("members", "member[]",
          "Everybody who was or is a member; empty if no assignment changed."),
    Field("shortened", "boolean",
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
        lines += [f"| `{one.name}` | {one.kind} | {one.meaning} |" for one in fields]
        lines.append("")
    return "\n".join(lines)
