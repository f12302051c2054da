"""Table `rebalances`: each special case is a separate group in one frame, computed by hand."""

from __future__ import annotations

from datetime import date
from typing import Any

from pipeline import schema
from pipeline.inputs import HOUR_MS, MINUTE_MS, Questions
from pipeline.tables import rebalances
from tests.pipeline.frames import bronze, rows_of
from tests.pipeline.tables.log_rows import (
    epoch,
    generation,
    member,
    modern_assignment,
    modern_member,
    removal,
)

DAY = date(1970, 1, 1)
NOW = Questions(at_ms=20 * HOUR_MS)

RECORDS = [
    # Group `plain` is created (which is not a rebalance), then two members join and the first
    # leaves.
    generation("plain", 100, 1, 0),
    generation("plain", 1000, 2, 1, member("m1", {"t": [0, 1]})),
    generation("plain", 2000, 3, 2, member("m1", {"t": [0]}), member("m2", {"t": [1]})),
    generation("plain", 3000, 4, 3, member("m2", {"t": [0, 1, 2]}), protocol="sticky"),
    generation("plain", 4000, 5, 4),
    removal("plain", 5000, 6),
    # After the removal of the group, every member counts as joined, even a member with the same id.
    generation("plain", 6000, 7, 1, member("m2", {"t": [0]})),
    # A dynamic member that restarts gets a new member id, but has the same client id and host. It
    # keeps its partition and the lead. A member from another host does not count as a restart.
    generation(
        "again", 1000, 10, 7, member("old", {"t": [0]}, client_id="c"), member("gone", {"t": [1]})
    ),
    generation(
        "again", 2000, 11, 8,
        member("new", {"t": [0]}, client_id="c"),
        member("other", {"t": [1]}, client_id="client-gone", client_host="/10.0.0.2"),
    ),
    # The static member returns within a generation, which needs no rebalance.
    generation("static", 1000, 20, 3, member("s-1", {"t": [0]}, group_instance_id="s")),
    generation("static", 1500, 21, 3, member("s-2", {"t": [0]}, group_instance_id="s")),
    generation("static", 2000, 22, 4, member("s-2", {"t": [0, 1]}, group_instance_id="s")),
    # The assignments are unreadable, so the members are known but not their partitions.
    generation("opaque", 1000, 30, 1, member("m1", None)),
    generation("opaque", 2000, 31, 2, member("m1", None), member("m2", None)),
]  # fmt: skip

EVENTS = [
    # Generation 1 has two events; the event whose end is nearest to the record counts.
    {"event_offset": 1, "group": "plain", "generation": 1, "trigger": "member.joined",
     "reason": "first life", "started_ms": 700, "ended_ms": 1001},
    {"event_offset": 2, "group": "plain", "generation": 1, "trigger": "member.joined",
     "reason": "second life", "started_ms": 5500, "ended_ms": 6000},
    {"event_offset": 3, "group": "plain", "generation": 2, "trigger": "member.joined",
     "reason": None, "started_ms": 1900, "ended_ms": 2000},
    {"event_offset": 4, "group": "another", "generation": 3, "trigger": "member.left",
     "reason": None, "started_ms": 1, "ended_ms": 2},
]  # fmt: skip

MODERN = [
    modern_member("k", 1000, 11, "x", "t"),
    epoch("k", 1000, 12, 1),
    modern_assignment("k", 1000, 13, "x", 1, {"t": [0, 1]}),
    modern_member("k", 2000, 14, "y", "t"),
    epoch("k", 2000, 15, 2),
    modern_assignment("k", 2000, 16, "x", 2, {"t": [0]}),
    modern_assignment("k", 2100, 17, "y", 2, {"t": [1]}),
]


def test_what_changed_from_one_generation_to_the_next() -> None:
    """Each rebalance has the expected members, moved partitions and reason.

    The five generations of `plain` within as many seconds are a storm.
    """
    made = rebalances.make(bronze(offsets_log=[*RECORDS, *MODERN], group_events=EVENTS), NOW)
    # Columns joined, left, restarted: unknown for the first known generation of a group.
    first = (None, None, None)
    no_story = (None, None, None)

    def row(
        group: str, offset: int, at_ms: int, numbers: tuple[int, int | None],
        members: tuple[int | None, int], people: tuple[Any, Any, Any],
        partitions: tuple[Any, Any, Any, Any], changed: tuple[Any, Any], per_hour: float,
        story: tuple[Any, Any, Any] = no_story,
    ) -> tuple[Any, ...]:  # fmt: skip
        return (
            group, *numbers, at_ms, *members, *people, *partitions, *changed,
            group == "plain", per_hour, *story, 0, offset, DAY,
        )  # fmt: skip

    unread = (None, None, None, None)
    assert rows_of(made, schema.REBALANCES) == [
        row("again", 10, 1000, (7, None), (None, 2), first, (2, None, None, None), (None, None),
            1.0),
        row("again", 11, 2000, (8, 7), (2, 2), (["other"], ["gone"], ["new"]), (2, 1, 0.5, 1 / 3),
            (False, False), 2.0),
        row("k", 12, 1000, (1, None), (None, 1), first, (2, None, None, None), (None, None), 1.0),
        row("k", 15, 2000, (2, 1), (1, 2), (["y"], [], []), (2, 1, 0.5, 1 / 3), (None, None), 2.0),
        row("opaque", 30, 1000, (1, None), (None, 1), first, unread, (None, None), 1.0),
        row("opaque", 31, 2000, (2, 1), (1, 2), (["m2"], [], []), unread, (False, False), 2.0),
        # No partition had an owner in the previous generation, so no partition moved.
        row("plain", 2, 1000, (1, 0), (0, 1), (["m1"], [], []), (2, 0, 0.0, 0.0), (None, None),
            1.0, ("member.joined", "first life", 301)),
        row("plain", 3, 2000, (2, 1), (1, 2), (["m2"], [], []), (2, 1, 0.5, 1 / 3),
            (False, False), 2.0, ("member.joined", None, 100)),
        # Partition t-2 is new, t-0 moved, and t-1 stayed.
        row("plain", 4, 3000, (3, 2), (2, 1), ([], ["m1"], []), (3, 1, 1 / 3, 0.25), (True, True),
            3.0),
        row("plain", 5, 4000, (4, 3), (1, 0), ([], ["m2"], []), (3, 0, 0.0, 0.0), (None, None),
            4.0),
        row("plain", 7, 6000, (1, None), (0, 1), (["m2"], [], []), (1, 0, 0.0, 0.0), (None, None),
            5.0, ("member.joined", "second life", 500)),
        row("static", 20, 1000, (3, None), (None, 1), first, (1, None, None, None), (None, None),
            1.0),
        row("static", 22, 2000, (4, 3), (1, 1), ([], [], ["s"]), (2, 0, 0.0, 0.5), (False, False),
            2.0),
    ]  # fmt: skip


def test_a_storm_is_five_generations_within_five_minutes() -> None:
    """All generations of a storm are marked, including the first.

    `per_hour` counts the generations of the hour up to each one.
    """
    minutes = {
        # Group `storm`: five generations in exactly five minutes, and a sixth an hour later.
        "storm": [0, 1, 2, 3, 5, 62],
        # Group `breeze`: five generations in six minutes, but never five in five minutes.
        "breeze": [0, 1, 2, 3, 6],
    }
    records = [
        generation(group, minute * MINUTE_MS, number, number, member("m", {"t": [0]}))
        for group, times in minutes.items()
        for number, minute in enumerate(times, 1)
    ]
    made = rebalances.make(bronze(offsets_log=records), NOW)
    assert rows_of(made, schema.REBALANCES, "group", "generation", "storm", "per_hour") == [
        ("breeze", 1, False, 1.0),
        ("breeze", 2, False, 2.0),
        ("breeze", 3, False, 3.0),
        ("breeze", 4, False, 4.0),
        ("breeze", 5, False, 5.0),
        ("storm", 1, True, 1.0),
        ("storm", 2, True, 2.0),
        ("storm", 3, True, 3.0),
        ("storm", 4, True, 4.0),
        ("storm", 5, True, 5.0),
        # The hour before the sixth generation includes the generations at minutes 3 and 5, but not
        # the generation at minute 2.
        ("storm", 6, False, 3.0),
    ]
