"""Table `member_skew`: each special case is a separate group in one frame, computed by hand."""

from __future__ import annotations

from typing import Any

from pipeline import schema
from pipeline.inputs import Questions
from pipeline.tables import member_skew
from tests.pipeline.frames import bronze, frame, rows_of
from tests.pipeline.tables.log_rows import commit, generation, member, partitions, removal

# The partitions of each member of each group.
GROUPS: dict[str, dict[str, dict[str, list[int]] | None]] = {
    "even": {"m1": {"t": [0]}, "m2": {"t": [1]}},
    "skewed": {"m1": {"t": [0, 1, 2, 3]}, "m2": {"u": [0]}},
    "slow": {"m1": {"t": [0]}, "m2": {"t": [1]}, "m3": {"t": [2]}},
    "crowd": {"m1": {"t": [0]}, "m2": {}, "m3": {}},
    "uneven": {"m1": {"t": [0, 1]}, "m2": {}},
    "loaded": {"m1": {"t": [0]}, "m2": {"t": [1]}},
    "nearly": {"m1": {"t": [0, 1]}, "m2": {"t": [2]}},
    "one key": {"m1": {"t": [0, 1]}, "m2": {"t": [2]}},
    "backwards": {"m1": {"t": [0]}},
    "unread": {"m1": None},
}
# Columns: group, topic, partition, produced, consumed, lag.
RATED = [
    ("even", "t", 0, 10.0, 10.0, 5),
    ("even", "t", 1, 10.0, 10.0, 15),
    *[("skewed", "t", number, 1.0, 1.0, 0) for number in range(3)],
    ("skewed", "t", 3, 10.0, 10.0, 0),
    ("skewed", "u", 0, 13.0, 13.0, 0),
    ("slow", "t", 0, 10.0, 10.0, 0),
    ("slow", "t", 1, 10.0, 4.0, 100),
    # Fewer than two commits in the window count as no progress.
    ("slow", "t", 2, 10.0, None, 200),
    ("crowd", "t", 0, 6.0, 6.0, 3),
    ("uneven", "t", 0, 1.0, 1.0, 0),
    ("uneven", "t", 1, 1.0, 1.0, 0),
    # `m1` is overloaded, not slow.
    ("loaded", "t", 0, 100.0, 30.0, 70),
    ("loaded", "t", 1, 10.0, 10.0, 0),
    ("nearly", "t", 0, 10.0, 10.0, 0),
    ("nearly", "t", 1, 10.1, 10.1, 0),
    ("nearly", "t", 2, 10.5, 10.5, 0),
    # A negative rate counts as 0. A group's only member cannot be slower than other members.
    ("backwards", "t", 0, 1.0, -0.5, 30),
    ("one key", "t", 0, 0.0, 0.0, 0),
    ("one key", "t", 1, 0.0, 0.0, 0),
    ("one key", "t", 2, 10.0, 10.0, 0),
]


def rounded(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Round the doubles to four digits."""
    return [tuple(round(one, 4) if isinstance(one, float) else one for one in row) for row in rows]


def test_who_has_how_much_of_the_work() -> None:
    """Each member has the expected sums, figures of its group, and verdicts."""
    members = [
        {
            "group": group, "member_id": name, "client_id": "c", "client_host": "/h",
            "assigned": partitions(assigned), "log_partition": 0, "log_offset": 1,
            "assigned_count": None if assigned is None else sum(map(len, assigned.values())),
        }
        for group, of_group in GROUPS.items()
        for name, assigned in of_group.items()
    ]  # fmt: skip
    names = ("group", "topic", "partition", "produced_per_second", "consumed_per_second", "lag")
    made = member_skew.of_members(
        frame(schema.GROUP_MEMBERS, members),
        frame(schema.RATES, [dict(zip(names, one, strict=True)) for one in RATED]).select(*names),
    )
    found = rounded(rows_of(made, schema.MEMBER_SKEW))
    assert {row[2:4] for row in found} == {("c", "/h")}
    assert [(*row[:2], *row[4:]) for row in found] == [
        # Columns: group, member, partitions, load, lag, consumed, members, idle, cv, load cv, max,
        # gini, verdicts.
        ("backwards", "m1", 1, 1.0, 30, -0.5, 1, 0, 0.0, 0.0, 1.0, 0.0, []),
        ("crowd", "m1", 1, 6.0, 3, 6.0, 3, 2, 1.4142, 1.4142, 3.0, 0.6667, []),
        ("crowd", "m2", 0, 0.0, 0, 0.0, 3, 2, 1.4142, 1.4142, 3.0, 0.6667,
         ["too_many_members", "idle"]),
        ("crowd", "m3", 0, 0.0, 0, 0.0, 3, 2, 1.4142, 1.4142, 3.0, 0.6667,
         ["too_many_members", "idle"]),
        ("even", "m1", 1, 10.0, 5, 10.0, 2, 0, 0.0, 0.0, 1.0, 0.25, []),
        ("even", "m2", 1, 10.0, 15, 10.0, 2, 0, 0.0, 0.0, 1.0, 0.25, []),
        ("loaded", "m1", 1, 100.0, 70, 30.0, 2, 0, 0.0, 0.8182, 1.8182, 0.5, []),
        ("loaded", "m2", 1, 10.0, 0, 10.0, 2, 0, 0.0, 0.8182, 1.8182, 0.5, []),
        ("nearly", "m1", 2, 20.1, 0, 20.1, 2, 0, 0.3333, 0.3137, 1.3137, None, []),
        ("nearly", "m2", 1, 10.5, 0, 10.5, 2, 0, 0.3333, 0.3137, 1.3137, None, []),
        ("one key", "m1", 2, 0.0, 0, 0.0, 2, 0, 0.3333, 1.0, 2.0, None, []),
        ("one key", "m2", 1, 10.0, 0, 10.0, 2, 0, 0.3333, 1.0, 2.0, None, ["key_skew"]),
        # One of the four partitions has 10/13 of the load, which is more than 3/4.
        ("skewed", "m1", 4, 13.0, 0, 13.0, 2, 0, 0.6, 0.0, 1.0, None,
         ["assignment_skew", "key_skew"]),
        ("skewed", "m2", 1, 13.0, 0, 13.0, 2, 0, 0.6, 0.0, 1.0, None, []),
        ("slow", "m1", 1, 10.0, 0, 10.0, 3, 0, 0.0, 0.0, 1.0, 0.4444, []),
        ("slow", "m2", 1, 10.0, 100, 4.0, 3, 0, 0.0, 0.0, 1.0, 0.4444, ["slow_member"]),
        ("slow", "m3", 1, 10.0, 200, None, 3, 0, 0.0, 0.0, 1.0, 0.4444, ["slow_member"]),
        ("uneven", "m1", 2, 2.0, 0, 2.0, 2, 1, 1.0, 1.0, 2.0, None, ["assignment_skew"]),
        ("uneven", "m2", 0, 0.0, 0, 0.0, 2, 1, 1.0, 1.0, 2.0, None, ["idle"]),
        ("unread", "m1", None, None, None, None, 1, 0, None, None, None, None, []),
    ]  # fmt: skip


def test_only_the_current_generation_counts() -> None:
    """Only members of the last generation have a row, and removed or empty groups have none."""
    records = [
        {"topic": "t", "partition": 0, "offset": offset, "timestamp_ms": 1000 * offset,
         "record_bytes": 1} for offset in range(100)
    ]  # fmt: skip
    ends = [{"topic": "t", "partition": 0, "log_start": 0, "log_end": 100, "source": "log"}]
    log = [
        generation("g", 1000, 1, 1, member("old", {"t": [0]})),
        generation("g", 2000, 2, 2, member("new", {"t": [0]})),
        commit("g", 3000, 3, "t-0", 3),
        commit("g", 99_000, 4, "t-0", 99),
        generation("empty", 1000, 5, 1, member("gone", {"t": [0]})),
        generation("empty", 2000, 6, 2),
        generation("removed", 1000, 7, 1, member("gone", {"t": [0]})),
        removal("removed", 2000, 8),
    ]
    made = member_skew.make(
        bronze(offsets_log=log, topic_records=records, partition_ends=ends),
        Questions(at_ms=100_000, window_ms=100_000),
    )
    assert rounded(rows_of(made, schema.MEMBER_SKEW)) == [
        # Record 0 is at the window's start, so 99 records count in 100 s. 96 are committed in 97 s.
        ("g", "new", "client-new", "/10.0.0.1", 1, 0.99, 1, 0.9897, 1, 0, 0.0, 0.0, 1.0, 0.0, []),
    ]
