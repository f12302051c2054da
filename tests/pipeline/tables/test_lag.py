"""Lag in records and in time; each special case is a separate partition in one frame."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline import schema
from pipeline.inputs import Questions
from pipeline.tables import lag
from pipeline.tables.commit_delay import commit_delays
from tests.pipeline.frames import bronze, rows_of
from tests.pipeline.tables.offset_rows import (
    AT_MS,
    batch,
    commit,
    ends,
    generation,
    records,
    removal,
)

NO_DELAY = (None, None, 0)
KINDS = {"g": "classic"}


def reader(topic: str, group: str = "g") -> tuple[str, str, int]:
    """Return the key of a reader of partition 0."""
    return (group, topic, 0)


def row(
    topic: str,
    position: tuple[int, int] | None,
    log: tuple[int | None, int | None],
    records_behind: tuple[int | None, int | None, str],
    ages: tuple[int | None, int | None, str | None],
    delays: tuple[int | None, int | None, int] = NO_DELAY,
    group: str = "g",
    partition: int = 0,
    source: str = "group",
) -> tuple[Any, ...]:
    """Return an expected row.

    `position` is (offset, commit time), `log` (start, end), `records_behind` (lag, lost, state).
    """
    offset, at = position or (None, None)
    key = (group, topic, partition, source)
    committed_ms = None if at is None else AT_MS + at
    error = None if ages[0] is None else 0  # all records are known
    times = (ages[0], error, *ages[1:])
    kind = source if source != "group" else KINDS.get(group, "simple")
    return (*key, kind, AT_MS, offset, committed_ms, *log, *records_behind, *times, *delays)


# Topic `delayed` has records 0 to 9. The first was written ten seconds before the instant, and one
# each second after that.
DELAYED = (
    # It is unknown which records the first commit covers.
    commit(60, reader("delayed"), 0, -9000),
    # This commit covers records 0 to 3, with delays of 5000 to 2000 ms.
    commit(61, reader("delayed"), 4, -5000),
    # A rewind covers no records.
    commit(62, reader("delayed"), 2, -4500),
    # This commit covers records 2 to 5, with delays of 6000 to 3000 ms: records 2 and 3 again.
    commit(63, reader("delayed"), 6, -2000),
    # This commit covers records 6 to 9, with delays of 3500 to 500 ms.
    commit(64, reader("delayed"), 10, -500),
)
DELAYED_RECORDS = records("delayed", 0, *((one, -10_000 + 1000 * one) for one in range(10)))

NOW: dict[str, list[dict[str, Any]]] = {
    "offsets_log": [
        commit(10, reader("plain"), 1, -3500),
        commit(11, reader("plain"), 2, -2500),
        commit(12, reader("done"), 0, -200),
        removal(13, reader("done"), -150),
        commit(14, reader("done"), 1, -100),
        commit(15, reader("control"), 1, -100),
        commit(16, reader("cleaned"), 5, -100),
        commit(17, reader("lost"), 4, -100),
        commit(18, reader("lost", "late"), 9, -100),
        commit(19, reader("emptied"), 3, -100),
        commit(20, reader("ahead"), 5, -100),
        commit(21, reader("nowhere"), 5, -100),
        commit(22, reader("shuffled"), 1, -100),
        commit(23, reader("timeless"), 1, -100),
        commit(24, reader("skewed"), 0, -100),
        commit(25, reader("unseen"), 2, -100),
        commit(26, reader("unseen", "reads_all"), 5, -100),
        commit(27, reader("plateau"), 5, -100),
        commit(28, reader("plateau", "before"), 2, -100),
        commit(29, reader("edge"), 0, -3_800_000),
        commit(30, reader("edge"), 1, -3_600_000),
        commit(31, reader("edge"), 2, -3_599_999),
        generation(40, "g", -9000, [(["old"], {"old": [0]})]),
        generation(41, "g", -8000, [(["x"], {"plain": [0]}), (["x"], {"fresh": [0, 1]})]),
        generation(42, "ended", -8000, [(["x"], {"fresh": [0]})]),
        generation(43, "ended", -7000, tombstone=True, members=[], protocol_type=None),
        *DELAYED,
    ],
    "topic_records": [
        *records("plain", 0, (0, -5000), (1, -4000), (2, -3000), (3, -2000)),
        *records("done", 0, (0, -5000)),
        *records("control", 0, (0, -5000)),
        *records("cleaned", 0, (2, -9000), (10, -5000), (13, -1000)),
        *records("lost", 0, (8, -9000), (9, -8000), (10, -7000), (11, -6000)),
        *records("emptied", 0, (8, -9000), (9, -8000)),
        *records("ahead", 0, (0, -5000)),
        *records("fresh", 0, (0, -5000)),
        *records("shuffled", 0, (0, -5000), (1, -1000), (2, -3000)),
        *records("timeless", 0, (0, None), (1, None), (2, None)),
        *records("skewed", 0, (0, 5000)),
        *records("plateau", 0, (0, -90_000), (4, -80_000), (5, -10_000)),
        *records("edge", 0, (0, -3_700_000), (1, -3_650_000), (2, -1000)),
        *DELAYED_RECORDS,
    ],
    "partition_ends": [
        ends("plain", 0, 0, 4),
        ends("done", 0, 0, 1),
        ends("control", 0, 0, 2),
        ends("cleaned", 0, 0, 14),
        ends("lost", 0, 10, 12),
        ends("emptied", 0, 10, 10),
        ends("ahead", 0, 0, 1),
        ends("fresh", 0, 0, 1),
        ends("shuffled", 0, 0, 3),
        ends("timeless", 0, 0, 3),
        ends("skewed", 0, 0, 1),
        ends("unseen", 0, 0, 5),
        ends("plateau", 0, 0, 6),
        ends("edge", 0, 0, 3),
        ends("delayed", 0, 0, 10),
    ],
    "spark_progress": [
        batch("plain", 9, 2, -3000),
        batch("plain", 10, 3, -1000),
    ],
}
READ = (0, 0, "exact")
UNKNOWN = (None, None, None)
EXPECTED_NOW = [
    # After compaction, record 10 is the oldest unread record. The log end is 3 at -9000 and 10 at
    # -5000, so it was 5 at -7857.
    row("cleaned", (5, -100), (0, 14), (9, 0, "OK"), (5000, 7857, "interpolated")),
    # Offset 1 is a control record: the lag is 1, but no data record is unread.
    row("control", (1, -100), (0, 2), (1, 0, "OK"), READ),
    # Sorted delays, with the two percentiles in brackets: 500 1500 2000 2500 3000 [3000] 3500 4000
    # 4000 5000 5000 [6000]
    row("delayed", (10, -500), (0, 10), (0, 0, "OK"), READ, (3000, 6000, 12)),
    # The first commit after a removal covers an unknown range.
    row("done", (1, -100), (0, 1), (0, 0, "OK"), READ),
    # The commit at the window's edge does not count, but the range of the next commit begins at
    # its offset.
    row("edge", (2, -3_599_999), (0, 3), (1, 0, "OK"), (1000, 1000, "exact"), (50_001, 50_001, 1)),
    row("emptied", (3, -100), (10, 10), (7, 7, "LOSS"), (None, 14_000, "extrapolated")),
    row("fresh", None, (0, 1), (None, None, "NO_COMMIT"), UNKNOWN),
    row("fresh", None, (None, None), (None, None, "NO_COMMIT"), UNKNOWN, partition=1),
    # Before the first known record, the log is assumed to have grown at the rate of all known
    # records, which is one per second.
    row("lost", (4, -100), (10, 12), (8, 6, "LOSS"), (None, 13_000, "extrapolated")),
    row("nowhere", (5, -100), (None, None), (None, None, "NO_TOPIC"), UNKNOWN),
    row("plain", (2, -2500), (0, 4), (2, 0, "OK"), (3000, 3000, "exact"), (1500, 1500, 1)),
    # The log end was 5 from -80000 ms until record 5 was written. The time lag counts from the end
    # of this period.
    row("plateau", (5, -100), (0, 6), (1, 0, "OK"), (10_000, 10_000, "exact")),
    # Record 1 has a later timestamp than record 2. As record 2 was written at -3000 ms, the log
    # end was above offset 1 at that time.
    row("shuffled", (1, -100), (0, 3), (2, 0, "OK"), (1000, 3000, "exact")),
    # The producer's clock is ahead: the timestamp is later than the instant, so the age counts as
    # 0.
    row("skewed", (0, -100), (0, 1), (1, 0, "OK"), (0, 0, "exact")),
    row("timeless", (1, -100), (0, 3), (2, 0, "OK"), UNKNOWN),
    row("unseen", (2, -100), (0, 5), (3, 0, "OK"), UNKNOWN),
    row("ahead", (5, -100), (0, 1), (0, 0, "AHEAD"), READ),
    # Record 9 is in the bronze table, but no longer in the log. The age of the oldest unread
    # record is unknown, the time lag is exact.
    row("lost", (9, -100), (10, 12), (3, 1, "LOSS"), (None, 8000, "exact"), group="late"),
    # The time of log end 2 is interpolated between -90000 (log end 1) and -80000 (log end 4):
    # -86667.
    row(
        "plateau",
        (2, -100),
        (0, 6),
        (4, 0, "OK"),
        (80_000, 86_667, "interpolated"),
        group="before",
    ),
    row("unseen", (5, -100), (0, 5), (0, 0, "OK"), READ, group="reads_all"),
    row(
        "plain",
        (3, -1000),
        (0, 4),
        (1, 0, "OK"),
        (2000, 2000, "exact"),
        (2000, 2000, 1),
        group="spark:q1",
        source="checkpoint",
    ),
]


def test_lag_now() -> None:
    """`lag` has the expected rows for groups and for a Spark query."""
    made = rows_of(lag.make(bronze(**NOW), Questions(AT_MS)), schema.LAG)
    assert made == sorted(EXPECTED_NOW, key=lambda one: one[:3])


THEN: dict[str, list[dict[str, Any]]] = {
    "offsets_log": [
        commit(10, reader("plain"), 1, -2000),
        commit(11, reader("plain"), 3, 500),
        commit(12, reader("marker"), 2, -4000),
        commit(13, reader("last_marker"), 2, -4000),
        commit(14, reader("ahead"), 2, -100),
        commit(15, reader("shuffled"), 1, -100),
        commit(16, reader("unborn"), 0, -10),
        commit(17, reader("forgotten"), 3, -10),
        commit(18, reader("trimmed"), 5, -10),
        commit(19, reader("trimmed", "late"), 4, -10),
        commit(20, reader("dropped"), 0, -10),
        commit(21, reader("unborn", "after"), 0, 1),
        commit(23, reader("plateau"), 2, -100),
        removal(22, reader("plain"), 600),
        generation(40, "g", 100, [(["x"], {"plain": [1]})]),
    ],
    "topic_records": [
        *records("plain", 0, (0, -5000), (1, -3000), (2, -1000), (3, 1000)),
        *records("marker", 0, (0, -5000), (2, 1000)),
        *records("last_marker", 0, (0, -5000)),
        *records("ahead", 0, (0, -5000), (1, 1000), (2, 2000)),
        *records("shuffled", 0, (0, -5000), (1, 500), (2, -1000)),
        *records("unborn", 0, (0, 1000)),
        *records("forgotten", 0, (7, 1000)),
        *records("trimmed", 0, (5, -5000), (6, -4000), (7, -3000)),
        *records("dropped", 0, (0, -5000)),
        *records("plateau", 0, (0, -150_000), (4, -140_000), (5, -70_000)),
    ],
    "partition_ends": [
        ends("plain", 0, 0, 4),
        ends("marker", 0, 0, 3),
        ends("last_marker", 0, 0, 2),
        ends("ahead", 0, 0, 3),
        ends("shuffled", 0, 0, 3),
        ends("unborn", 0, 0, 1),
        ends("forgotten", 0, 7, 8),
        ends("trimmed", 0, 6, 8),
        ends("plateau", 0, 0, 6),
    ],
    "spark_progress": [
        batch("plain", 0, 1, -1000),
        batch("plain", 1, 4, 1000),
    ],
}
EXPECTED_THEN = [
    row("ahead", (2, -100), (0, 1), (0, 0, "AHEAD"), READ),
    row("dropped", (0, -10), (None, 1), (1, None, "OK"), (5000, 5000, "exact")),
    # The log end at the instant is unknown: records before the first known record may be gone.
    row("forgotten", (3, -10), (7, None), (None, None, "NO_TOPIC"), UNKNOWN),
    # Offset 1 is a control record, so a commit of 2 is not AHEAD, with or without later records.
    row("last_marker", (2, -4000), (0, 2), (0, 0, "OK"), READ),
    row("marker", (2, -4000), (0, 2), (0, 0, "OK"), READ),
    # The commit, the removal and record 3 come after the instant and do not count.
    row("plain", (1, -2000), (0, 3), (2, 0, "OK"), (3000, 3000, "exact")),
    # As in EXPECTED_NOW, but the instant is a minute later, so each age is 60 000 ms higher.
    row("plateau", (2, -100), (0, 6), (4, 0, "OK"), (140_000, 146_667, "interpolated")),
    # Record 2 existed at the instant, so record 1 existed too, although its timestamp is later.
    row("shuffled", (1, -100), (0, 3), (2, 0, "OK"), (0, 1000, "exact")),
    # Today's log start does not show how many records were missing at the instant, so the number
    # of lost records is unknown.
    row("trimmed", (5, -10), (6, 8), (3, None, "OK"), (5000, 5000, "exact")),
    row("unborn", (0, -10), (0, 0), (0, 0, "OK"), READ),
    row(
        "trimmed",
        (4, -10),
        (6, 8),
        (4, None, "OK"),
        (None, 6000, "extrapolated"),
        group="late",
    ),
    row(
        "plain",
        (1, -1000),
        (0, 3),
        (2, 0, "OK"),
        (3000, 3000, "exact"),
        group="spark:q1",
        source="checkpoint",
    ),
]


def test_lag_at_a_past_instant() -> None:
    """For a past instant, log ends are replayed and later events do not count."""
    made = lag.make(bronze(**THEN), Questions(AT_MS, past=True))
    # The group got its first member after the instant.
    simple = [
        tuple("simple" if value == "classic" else value for value in row) for row in EXPECTED_THEN
    ]
    assert rows_of(made, schema.LAG) == sorted(simple, key=lambda one: one[:3])


def test_delays_of_many_records_are_taken_from_every_nth() -> None:
    """With a limit of 4 of 12 records, offsets 0, 3, 6 and 9 count; 3 is covered twice."""
    made = bronze(offsets_log=DELAYED, topic_records=DELAYED_RECORDS)
    delays = commit_delays(made, Questions(AT_MS), records_most=4).collect()
    assert delays.rows() == [("g", "delayed", 0, "group", 3500, 5000, 5)]


def test_a_topic_that_was_created_again() -> None:
    """Records and commits of the deleted topic of the same name do not count."""
    old, new = {"topic_id": "OLD"}, {"topic_id": "NEW"}
    made = bronze(
        offsets_log=[
            commit(1, reader("t"), 400, -9000, **old),
            commit(2, reader("t"), 2, -500, **new),
            commit(3, reader("t", "late"), 300, -400, **old),
            commit(4, reader("t", "without id"), 1, -400),
        ],
        topic_records=[
            *(
                {**row, **old}
                for row in records("t", 0, (0, -90_000), (2, -80_000), (499, -70_000))
            ),
            *({**row, **new} for row in records("t", 0, (0, -3000), (2, -2000), (3, -1000))),
        ],
        partition_ends=[ends("t", 0, 0, 4, **new)],
    )
    found = rows_of(
        lag.make(made, Questions(AT_MS)), schema.LAG, "group", "committed_offset", "lag", "state",
        "oldest_unread_age_ms",
    )  # fmt: skip
    assert found == [("g", 2, 2, "OK", 2000), ("without id", 1, 3, "OK", 2000)]


@pytest.mark.parametrize(
    ("before", "now", "kept"),
    [
        # Records 0 to 2 without an id belong to a deleted topic, because the current topic has its
        # own records 0 and 1.
        ((0, 1, 2), (0, 1), [(0, "NEW"), (1, "NEW")]),
        # The records without an id belong to the current topic, because no record with its id has
        # the same offset.
        ((0, 1), (2, 3), [(0, None), (1, None), (2, "NEW"), (3, "NEW")]),
        ((0, 1), (), [(0, None), (1, None)]),
    ],
)
def test_records_of_bronze_without_topic_ids(
    before: tuple[int, ...], now: tuple[int, ...], kept: list[tuple[int, str | None]]
) -> None:
    """Records without an id do not count from the first record of the current topic on."""
    made = bronze(
        topic_records=[
            *records("t", 0, *((offset, -90_000) for offset in before)),
            *records("t", 1, (9, -90_000)),
            *({**row, "topic_id": "NEW"} for row in records("t", 0, *((o, -1) for o in now))),
        ],
        partition_ends=[ends("t", 0, 0, 9, topic_id="NEW"), ends("t", 1, 0, 10)],
    )
    found = made.topic_records.select("partition", "offset", "topic_id").collect().rows()
    assert sorted(row[1:] for row in found if row[0] == 0) == kept
    assert [row[1:] for row in found if row[0] == 1] == [(9, None)]
