"""Generations and their members, classic and KIP-848, row by row."""

from __future__ import annotations

from datetime import date
from typing import Any

from pipeline import schema
from pipeline.inputs import Questions
from pipeline.tables import dead_letters, group_generations, group_members
from tests.pipeline.frames import bronze, rows_of
from tests.pipeline.tables.log_rows import (
    commit,
    epoch,
    generation,
    member,
    modern_assignment,
    modern_member,
    partitions,
    removal,
    target,
)

DAY = date(1970, 1, 1)
NOW = Questions(at_ms=1_000_000)

CLASSIC = [
    generation("a", 1000, 1, 1, member("m1", {"t": [0, 1], "u": [0]}), member("m2", {"t": [2]})),
    # One assignment that cannot be read makes the sum unknown, not the count.
    generation("a", 2000, 2, 2, member("m1", None, problem="truncated"), member("m2", {"t": [0]})),
    generation("a", 3000, 3, 3, state_timestamp_ms=2999),
    removal("a", 4000, 4),
    # What could not be decoded is no generation.
    {
        "kind": "group_metadata", "group": "a", "record_type": 2, "log_partition": 0,
        "log_offset": 5, "log_timestamp_ms": 5000, "problem": "version 9", "key_hex": "00",
        "value_hex": "0009", "tombstone": False,
    },
]  # fmt: skip

MODERN = [
    commit("k", 1, 10, "orders-0", 5, topic_id="ORDERS-ID"),
    modern_member("k", 1000, 11, "x", "orders"),
    epoch("k", 1000, 12, 1),
    modern_assignment("k", 1000, 13, "x", 1, {"ORDERS-ID": [0, 1]}),
    modern_member("k", 2000, 14, "y", "orders", "lost"),
    epoch("k", 2000, 15, 2),
    # The member gives up a partition first, and only then the other one gets it.
    modern_assignment("k", 2000, 16, "x", 2, {"ORDERS-ID": [0]}, {"ORDERS-ID": [1]}),
    modern_assignment(
        "k",
        2100,
        17,
        "y",
        2,
        {"ORDERS-ID": [1], "UNKNOWN-ID": [0]},
        {"ORDERS-ID": [2], "UNKNOWN-ID": [2]},
    ),
    # The same member again is one member still.
    modern_member("k", 2200, 18, "y", "orders"),
    removal("k", 3000, 19, "consumer_group_current_member_assignment", member_id="y"),
    removal("k", 3000, 20, "consumer_group_member_metadata", member_id="y"),
    epoch("k", 3000, 21, 3),
    removal("k", 4000, 22, "consumer_group_member_metadata", member_id="x"),
    epoch("k", 4000, 23, 4),
    removal("k", 5000, 24, "consumer_group_metadata"),
]

# Epochs 1 and 3 of the group's first life were assigned, the second one not in time; in its
# second life it counts from 1 again. The broker before Kafka 4.3 kept no time.
COMPUTED = [
    epoch("l", 1000, 40, 1),
    target("l", 1100, 41, 1),
    epoch("l", 2000, 42, 2),
    epoch("l", 3000, 43, 3),
    target("l", 3100, 44, 3, assignmentTimestamp=3090),
    removal("l", 4000, 45, "consumer_group_target_assignment_metadata"),
    removal("l", 4000, 46, "consumer_group_metadata"),
    epoch("l", 5000, 47, 1),
    target("l", 5100, 48, 1, assignmentTimestamp=5090),
]

SHARE = [{**epoch("s", 1000, 30, 0), "kind": "share_group_metadata", "generation": None}]


def classic_row(
    number: int | None, event: str, at_ms: int, offset: int, members: int | None, sum_: int | None
) -> tuple[Any, ...]:
    """A row of group `a`; a removal has no content, an empty generation no protocol."""
    gone, empty = event == "tombstone", event == "empty"
    return (
        "a", "classic", event, number, None if gone else "consumer",
        None if gone or empty else "range", None if gone or empty else "m1", members, sum_,
        None if gone else at_ms - empty, None, 0, offset, at_ms, DAY,
    )  # fmt: skip


def test_every_generation_is_a_row() -> None:
    """Generations, empty ones and removals; unreadable assignments make the sum null, no error."""
    made = group_generations.make(bronze(offsets_log=[*CLASSIC, *MODERN, *SHARE]), NOW)
    nothing = (None, None, None)

    def modern_row(
        number: int | None, event: str, offset: int, members: int | None, owned: int | None
    ) -> tuple[Any, ...]:
        at_ms = 1000 * (number or 5)
        return (
            "k", "consumer", event, number, *nothing, members, owned, None, None, 0, offset, at_ms,
            DAY,
        )  # fmt: skip

    assert rows_of(made, schema.GROUP_GENERATIONS) == [
        classic_row(1, "generation", 1000, 1, 2, 4),
        classic_row(2, "generation", 2000, 2, 2, None),
        classic_row(3, "empty", 3000, 3, 0, 0),
        classic_row(None, "tombstone", 4000, 4, None, None),
        modern_row(1, "generation", 12, 1, 2),
        modern_row(2, "generation", 15, 2, 3),
        modern_row(3, "generation", 21, 1, 1),
        modern_row(4, "empty", 23, 0, 0),
        modern_row(None, "tombstone", 24, None, None),
        ("s", "share", "generation", None, *nothing, None, None, None, None, 0, 30, 1000, DAY),
    ]


def test_when_an_epoch_was_assigned() -> None:
    """The time in the record of the target assignment of that epoch, in that life of the group."""
    made = group_generations.make(bronze(offsets_log=COMPUTED), NOW)
    index = schema.GROUP_GENERATIONS.names.index("assigned_ms")
    times = [row[index] for row in rows_of(made, schema.GROUP_GENERATIONS)]
    assert times == [None, None, 3090, None, 5090]


def test_every_member_is_a_row() -> None:
    """Classic members as their record has them; KIP-848 members as they stood at each epoch."""
    made = group_members.make(bronze(offsets_log=[*CLASSIC, *MODERN]), NOW)

    def classic(
        number: int, name: str, assigned: dict[str, list[int]] | None, problem: str | None = None
    ) -> tuple[Any, ...]:
        topics, count = None, None
        if assigned is not None:
            topics, count = sorted(assigned), sum(map(len, assigned.values()))
        return (
            "a", number, name, None, f"client-{name}", "/10.0.0.1", name == "m1", 45_000, 60_000,
            topics, partitions(assigned), count, None, 0, number, problem,
        )  # fmt: skip

    def modern(
        number: int,
        name: str,
        offset: int,
        topics: list[str],
        assigned: dict[str, list[int]],
        epochs: dict[str, list[int]] | None = None,
    ) -> tuple[Any, ...]:
        count = sum(map(len, assigned.values()))
        shown = epochs and [{"topic": name, "epochs": list_} for name, list_ in epochs.items()]
        return (
            "k", number, name, None, f"client-{name}", "/10.0.0.1", False, None, 60_000, topics,
            partitions(assigned), count, shown, 0, offset, None,
        )  # fmt: skip

    assert rows_of(made, schema.GROUP_MEMBERS) == [
        classic(1, "m1", {"t": [0, 1], "u": [0]}),
        classic(1, "m2", {"t": [2]}),
        classic(2, "m1", None, "truncated"),
        classic(2, "m2", {"t": [0]}),
        modern(1, "x", 12, ["orders"], {"orders": [0, 1]}),
        modern(2, "x", 15, ["orders"], {"orders": [0]}, {"orders": [1]}),
        # No commit has the name of this topic: its id stands for it.
        modern(
            2,
            "y",
            15,
            ["orders", "lost"],
            {"orders": [1], "UNKNOWN-ID": [0]},
            {"orders": [2], "UNKNOWN-ID": [2]},
        ),
        modern(3, "x", 21, ["orders"], {"orders": [0]}, {"orders": [1]}),
    ]


def test_what_came_later_does_not_count_in_the_past() -> None:
    """For a past instant the log ends there."""
    then = bronze(offsets_log=[*CLASSIC, *MODERN])
    made = group_generations.make(then, Questions(at_ms=2000, past=True))
    assert rows_of(made, schema.GROUP_GENERATIONS, "group", "log_offset") == [
        ("a", 1),
        ("a", 2),
        ("k", 12),
        ("k", 15),
    ]


def test_what_cannot_be_decoded_is_kept_with_its_reason() -> None:
    """Hex and reason, and nothing that was decoded."""
    made = dead_letters.make(bronze(offsets_log=CLASSIC), NOW)
    assert rows_of(made, schema.DEAD_LETTERS) == [(0, 5, 5000, 2, "version 9", "00", "0009")]
