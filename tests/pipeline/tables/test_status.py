"""Table `status`: Burrow's published cases, its known false alarms, and every rule at its edge.

The cases have the data of core/internal/evaluator/caching_test.go of linkedin/Burrow: the commits,
the lag that Burrow saw at each commit, the lag and the time of the evaluation, and its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl
import pytest

from pipeline import schema
from pipeline.inputs import HOUR_MS, MINUTE_MS, Questions
from pipeline.tables import data_loss_forecast, group_members, lag, status
from tests.pipeline.frames import bronze, rows_of
from tests.pipeline.tables.log_rows import (
    Row,
    commit,
    epoch,
    generation,
    member,
    modern_assignment,
    modern_member,
    removal,
)

AT_MS = 1000 * HOUR_MS
SECOND_MS = 1000


class Case(NamedTuple):
    """A case of Burrow: `commits` are (seconds, offset, lag), `now` is in seconds."""

    commits: Sequence[tuple[float, int, int]]
    now: float
    lag: int
    burrow: str
    since: tuple[float, int] | None = None
    """Time and resulting log end of records after the last commit."""


def _steps(lags: Iterable[int], *, step: int = 1000) -> list[tuple[float, int, int]]:
    """Return commits at 100 s, 200 s ...: the offset rises by `step` from 1000."""
    return [(100.0 * number, 1000 + step * (number - 1), lag) for number, lag in enumerate(lags, 1)]


_FROM_ZERO, _FROM_FIFTY = (0, 50, 100, 150, 200), (50, 100, 150, 200, 250)
# Fifteen commits, one per second, each with lag 0.
_PACE = tuple((float(second), 792748079 + second, 0) for second in range(15))
_HALVES = [
    (50.0 * number, 500 * number, 25 * (number - 2)) for number in range(2, 12)
]  # case 11: in Burrow's test every second commit has no lag, here each commit has a lag

BURROW = {
    "00 zero lag once": Case(_steps(_FROM_ZERO), 600, 200, "OK"),
    "01 as silent as it committed": Case(_steps(_FROM_ZERO), 900, 200, "OK"),
    "02 silent for longer": Case(_steps(_FROM_ZERO), 1000, 200, "STOP"),
    "03 the same, never without lag": Case(_steps(_FROM_FIFTY), 1000, 250, "STOP"),
    "04 one offset, zero lag once": Case(_steps(_FROM_ZERO, step=0), 600, 200, "OK"),
    "05 one offset, lag rises": Case(_steps((100, 150, 200, 250, 300), step=0), 600, 300, "STALL"),
    "06 one offset, lag stays": Case(_steps((100,) * 5, step=0), 600, 100, "STALL"),
    "07 back and forth": Case(
        [(100, 1000, 100), (200, 2000, 150), (300, 3000, 200), (400, 2000, 1250), (500, 4000, 300)],
        600, 300, "REWIND",
    ),
    "08 no lag now": Case(_steps(_FROM_FIFTY), 1000, 0, "OK"),
    "09 records came at once": Case(_PACE, 31.6, 931, "STOP", (15, 792749024)),
    "10 a record came just now": Case(_PACE, 31.6, 1, "OK", (26, 792748094)),
    "11 lag not known of each": Case(_HALVES, 600, 200, "OK"),
}  # fmt: skip


def _bronze_of(name: str, case: Case, *, live: bool = False) -> tuple[list[Row], list[Row], Row]:
    """Return a case as rows of offsets log, topic records and partition end, on its own topic."""
    shift_ms = AT_MS - round(case.now * SECOND_MS)
    log, records = [], []
    for number, (second, offset, unread) in enumerate(case.commits):
        at_ms = shift_ms + round(second * SECOND_MS)
        log.append(commit(name, at_ms, number + 10, f"{name}-0", offset))
        records.append(_record(name, offset + unread - 1, at_ms - 1))
    last = case.commits[-1][1]
    if case.since is not None:
        second, log_end = case.since
        records.append(_record(name, last, shift_ms + round(second * SECOND_MS)))
        records.append(_record(name, log_end - 1, shift_ms + round(second * SECOND_MS)))
    if live:
        log.insert(0, generation(name, shift_ms, 1, 1, member("m", {name: [0]})))
    return log, records, _end(name, last + case.lag)


def _record(topic: str, offset: int, at_ms: int) -> Row:
    return {"topic": topic, "partition": 0, "offset": offset, "timestamp_ms": at_ms,
            "record_bytes": 10}  # fmt: skip


def _end(topic: str, log_end: int) -> Row:
    return {"topic": topic, "partition": 0, "log_start": 0, "log_end": log_end,
            "high_watermark": log_end, "sampled_at_ms": AT_MS, "source": "log"}  # fmt: skip


def test_burrows_own_cases_come_out_as_burrow_says() -> None:
    """Every case of Burrow has Burrow's verdict, except those listed in `repaired`."""
    live = {f"{name} (live)": BURROW[name] for name in BURROW if BURROW[name].burrow == "STOP"}
    log: list[Row] = []
    records: list[Row] = []
    ends: list[Row] = []
    for name, case in {**BURROW, **live}.items():
        of_case = _bronze_of(name, case, live=name in live)
        log += of_case[0]
        records += of_case[1]
        ends.append(of_case[2])
    frames = bronze(offsets_log=log, topic_records=records, partition_ends=ends)
    questions = Questions(AT_MS, window_ms=1000 * SECOND_MS, patience_ms=10 * SECOND_MS)
    made = status.make(frames, questions)
    found = {
        topic: verdict
        for topic, verdict in rows_of(made, schema.STATUS, "topic", "status")
        if topic is not None
    }
    repaired = {
        # Between earlier commits, records waited for at most 100 s. Now they have waited for 400
        # s.
        "01 as silent as it committed": "STOP",
        # The lag was 0 at the first commit, and records have waited for 400 s since.
        "04 one offset, zero lag once": "STALL",
        # The rewind began at offset 3000. The group has passed this offset again: it has committed
        # 4000.
        "07 back and forth": "OK",
        # A live member owns the partition and makes no progress, so the status is STALL instead of
        # STOP.
        "02 silent for longer (live)": "STALL",
        "03 the same, never without lag (live)": "STALL",
        "09 records came at once (live)": "STALL",
    }
    expected = {name: case.burrow for name, case in BURROW.items()} | repaired
    assert found == expected


def _false_alarms() -> tuple[list[Row], list[Row], list[Row], dict[str, str]]:
    """Return rows for wrong verdicts that users reported to Burrow, and the right verdicts."""
    log: list[Row] = []
    records: list[Row] = []
    ends: list[Row] = []
    right: dict[str, str] = {}

    def tell(
        name: str, verdict: str, commits: Sequence[tuple[float, int]],
        written: Sequence[tuple[float, int]], *groups: Row,
    ) -> None:  # fmt: skip
        """Add commits as (minutes ago, offset), and records as (minutes ago, log end)."""
        right[name] = verdict
        log.extend(groups)
        for number, (minutes, offset) in enumerate(commits, 100):
            at_ms = AT_MS - round(minutes * MINUTE_MS)
            log.append(commit(name, at_ms, number, f"{name}-0", offset))
        for minutes, log_end in written:
            records.append(_record(name, log_end - 1, AT_MS - round(minutes * MINUTE_MS)))
        ends.append(_end(name, max(log_end for _, log_end in written)))

    def live(name: str) -> Row:
        return generation(name, AT_MS - 900 * MINUTE_MS, 1, 1, member("m", {name: [0]}))

    def empty(name: str, minutes: float) -> Row:
        return generation(name, AT_MS - round(minutes * MINUTE_MS), 2, 2)

    # Burrow issues 171, 182: the second commit came so soon after the first that Burrow dropped it.
    tell("#171", "OK", [(10.001, 1), (10, 2)], [(11, 1), (10.5, 2)])
    # Burrow issues 287, 446: Burrow reported the lag of the last commit (10) even after the lag
    # had changed.
    tell("#287 it stopped", "STOP", [(m, 1000 - m) for m in range(50, 29, -1)],
         [(51, 980), (20, 56000)])  # fmt: skip
    tell("#446 it came back", "OK", [*[(m, 1000 - m) for m in range(50, 29, -1)], (1, 56000)],
         [(51, 980), (20, 56000)])  # fmt: skip

    # Burrow issues 94, 140, 185: no records were written, so consumers had no offset to commit.
    tell("#94", "OK", [(5000, 10), (4990, 20)], [(5001, 10), (4991, 20)])
    tell("#140", "OK", [(57, 5), (29, 90)], [(58, 5), (30, 90)])
    # Burrow issue 185: the first record in days was written a second ago. One group has members,
    # the other has none.
    tell("#185", "OK", [(5000, 10), (4990, 20)], [(4991, 20), (0.016, 21)])
    tell("#185 with a member", "OK", [(5000, 10), (4990, 20)], [(4991, 20), (0.016, 21)],
         live("#185 with a member"))  # fmt: skip

    # Burrow issue 237: a member commits in bursts, after every record, and works for a longer time
    # between the bursts.
    tell("#237", "OK", [(2 - m / 50, 7952519 + 10 * m) for m in range(22)], [(3, 7954626)],
         live("#237"))  # fmt: skip

    # Burrow issue 303: records and commits came every two hours, then the commits stopped. The
    # status is STOP once a record has waited longer than the patience.
    slow = [(400, 10), (280, 20), (160, 30)]
    tell("#303 standalone", "STOP", slow, [(161, 30), (3, 31)])
    tell("#303 standalone, waits for less", "OK", slow, [(161, 30), (1, 31)])
    tell("#303 empty", "STOP", slow, [(161, 30), (3, 31)], empty("#303 empty", 150))
    tell("#303 empty, waits for less", "OK", slow, [(161, 30), (1, 31)],
         empty("#303 empty, waits for less", 150))  # fmt: skip

    # The group is empty for a moment, as during a deployment.
    tell("restarting", "OK", slow, [(161, 30), (50, 31)], empty("restarting", 1))
    # Burrow issue 24: ten commits in a fifth of a second must not set the expected interval between
    # commits.
    tell("#24", "OK", [(0.01 - m / 3000, 10 + m) for m in range(10)], [(1, 25)])
    return log, records, ends, right


def test_what_burrow_was_wrong_about_comes_out_right() -> None:
    """False, late and lasting alarms that users reported to Burrow do not occur."""
    log, records, ends, right = _false_alarms()
    frames = bronze(offsets_log=log, topic_records=records, partition_ends=ends)
    made = status.make(frames, Questions(at_ms=AT_MS))
    found = rows_of(made, schema.STATUS, "topic", "status", "lag", "produced_since_commit")
    of_partitions = {row[0]: row[1:] for row in found if row[0] is not None}
    assert {name: row[0] for name, row in of_partitions.items()} == right
    # The lag is the current lag, 56 000 - 970. 55 020 of these records came after the last commit.
    assert of_partitions["#287 it stopped"][1:] == (55030, 55020)
    assert of_partitions["#446 it came back"][1:] == (0, 0)


def _rule_rows() -> tuple[list[Row], list[Row], list[Row]]:
    """Return one group per rule, at its edge.

    Topic `t` has 1000 records, ten per minute, the last one at the instant.
    """
    start_ms = AT_MS - 99 * MINUTE_MS
    records = [
        _record("t", 10 * minute + 9, start_ms + minute * MINUTE_MS) for minute in range(100)
    ]

    def commits(group: str, *places: tuple[int, int | None], topic: str = "t") -> list[Row]:
        return [
            commit(group, AT_MS - minutes * MINUTE_MS, 10 + number, f"{topic}-0", offset)
            for number, (minutes, offset) in enumerate(places)
        ]

    def owner(group: str, topic: str = "t", partition: int = 0) -> Row:
        return generation(group, start_ms, 1, 1, member("m", {topic: [partition]}))

    log = [
        # Group `rewound` goes back from 500 to 100 and does not reach 500 again: its last commit
        # is 300.
        owner("rewound"), *commits("rewound", (30, 500), (20, 100), (10, 300)),
        # Group `rewound before` went back with its first commit in the window. Its commit of 500
        # is older.
        owner("rewound before"), *commits("rewound before", (70, 500), (50, 100), (10, 300)),
        # Group `reborn`: the offset was removed before the lower commit, so this is not a rewind.
        owner("reborn"), *commits("reborn", (40, 990), (30, None), (20, 100), (1, 999)),
        # Group `silent` has a live member, but no commit in the whole window.
        owner("silent"), *commits("silent", (75, 100), (60, 200)),
        # Group `stuck` made progress every minute, and has had the same offset for nine minutes.
        # Group `slow` makes progress rarely, with a rising lag.
        owner("stuck"), *commits("stuck", (11, 300), (10, 320), (9, 340), (5, 340), (1, 340)),
        owner("slow"), *commits("slow", (50, 300), (6, 400), (1, 400)),
        # Group `steady` has a constant lag.
        owner("steady"), *commits("steady", (50, 300), (30, 500), (10, 700)),
        # No member owns the partition of group `orphan`. No member of group `left behind`
        # subscribes to the topic.
        owner("orphan", "t", 1), *commits("orphan", (45, 300), (40, 400)),
        owner("left behind", "u"), *commits("left behind", (45, 300), (40, 400)),
        # The member of group `opaque` has an unreadable assignment, so it may own the partition.
        generation("opaque", start_ms, 1, 1, member("m", None)),
        *commits("opaque", (45, 300), (40, 400)),
        # Group `expired` has not committed for more than a week.
        *[commit("expired", AT_MS - 170 * HOUR_MS, 5, "t-0", 3)],
        # Group `fresh` owns a partition without a commit. The topic of group `no topic` does not
        # exist.
        owner("fresh"), *commits("no topic", (5, 3), topic="gone"),
        # Group `removed` and its offset were removed, so it has no row.
        *commits("removed", (9, 3), (8, None)), removal("removed", AT_MS - 1, 50),
        # Group `mixed` has two partitions, one with a rewind.
        generation("mixed", start_ms, 1, 1, member("m", {"t": [0, 1]})),
        *commits("mixed", (30, 500), (20, 100)),
        *[commit("mixed", AT_MS, 30, "t-1", 5)],
    ]  # fmt: skip
    ends = [_end("t", 1000), {**_end("t", 5), "partition": 1}]
    return log, records, ends


def test_a_healthy_group_is_shown_by_its_partition_with_the_greatest_lag() -> None:
    """The row of a healthy group has rule and evidence of the partition with the greatest lag."""
    start_ms = AT_MS - 99 * MINUTE_MS
    log = [
        generation("g", start_ms, 1, 1, member("m", {"t": [0, 1, 2]})),
        commit("g", AT_MS - 1, 10, "t-0", 5),
        commit("g", AT_MS - 1, 11, "t-1", 10),
        commit("g", AT_MS - 1, 12, "t-2", 2),
    ]
    ends = [{**_end("t", log_end), "partition": one} for one, log_end in enumerate((5, 8060, 5))]
    made = status.make(bronze(offsets_log=log, partition_ends=ends), Questions(at_ms=AT_MS))
    found = rows_of(made, schema.STATUS, "topic", "status", "rule", "lag", "evidence_offset")
    assert found[0] == (None, "OK", "t-1: on its way: 8050 records to read", 8053, 11)


def test_a_short_lived_reader_that_stopped_is_not_on_its_way() -> None:
    """A reader with too few commits to judge is reported as such, with the time left to a STOP."""
    log = [commit("g", AT_MS - 100 * SECOND_MS, 10, "t-0", 5)]
    records = [_record("t", offset, AT_MS - 90 * SECOND_MS) for offset in range(9)]
    frames = bronze(offsets_log=log, topic_records=records, partition_ends=[_end("t", 9)])
    (group, partition) = rows_of(
        status.make(frames, Questions(at_ms=AT_MS)), schema.STATUS, "status", "rule"
    )
    rule = "too early to judge: 4 records to read wait for 90 s, STOP after 360 s"
    assert (group, partition) == (("OK", f"t-0: {rule}"), ("OK", rule))


@pytest.mark.parametrize(("minutes", "verdict"), [(1, "OK"), (7, "WARN")])
def test_an_open_transaction_is_named(minutes: int, verdict: str) -> None:
    """A reader behind an open transaction is not at fault, and the rule names the transaction.

    The rule also says how many records the transaction holds back, and for how long.
    """
    log = [commit("g", AT_MS - 50 * MINUTE_MS, 10, "t-0", 3)]
    records = [_record("t", offset, AT_MS - 51 * MINUTE_MS) for offset in range(3)]
    since_ms = AT_MS - minutes * MINUTE_MS
    hold = {"last_stable_offset": 3, "held_by": "payments", "held_since_ms": since_ms}
    frames = bronze(
        offsets_log=log, topic_records=records, partition_ends=[{**_end("t", 10), **hold}]
    )
    questions = Questions(at_ms=AT_MS, window_ms=24 * HOUR_MS)
    made = rows_of(status.make(frames, questions), schema.STATUS, "topic", "status", "rule")
    rule = f"an open transaction of payments holds back 7 records for {60 * minutes} s"
    assert made[1] == ("t", verdict, rule)
    assert made[0][1] == verdict
    ages = rows_of(
        lag.make(frames, questions), schema.LAG, "lag", "oldest_unread_age_ms", "interpolation"
    )
    assert ages == [(7, minutes * MINUTE_MS, None)]


@pytest.mark.parametrize(
    ("position", "age"), [(2, 51 * MINUTE_MS), (3, 10 * MINUTE_MS), (4, None), (9, None)]
)
def test_a_read_uncommitted_reader_has_not_the_age_of_the_open_transaction(
    position: int, age: int | None
) -> None:
    """A reader above the last stable offset is not held back, so the transaction has no say."""
    log = [commit("g", AT_MS - SECOND_MS, 10, "t-0", position)]
    records = [_record("t", offset, AT_MS - 51 * MINUTE_MS) for offset in range(3)]
    hold = {"last_stable_offset": 3, "held_by": "p", "held_since_ms": AT_MS - 10 * MINUTE_MS}
    frames = bronze(
        offsets_log=log, topic_records=records, partition_ends=[{**_end("t", 10), **hold}]
    )
    made = lag.make(frames, Questions(at_ms=AT_MS))
    ages = rows_of(made, schema.LAG, "oldest_unread_age_ms", "interpolated_age_ms")
    assert ages == [(age, age if position < 3 else None)]


@pytest.mark.parametrize(("past", "verdict"), [(False, "WARN"), (True, "OK")])
def test_a_commit_above_the_log_end_is_a_warning(past: bool, verdict: str) -> None:
    """In half a copy of a log directory, the lag of 0 hides a reader that has stopped."""
    log = [commit("g", AT_MS - 50 * MINUTE_MS, 10, "t-0", 500)]
    records = [_record("t", offset, AT_MS - 51 * MINUTE_MS) for offset in range(3)]
    frames = bronze(offsets_log=log, topic_records=records, partition_ends=[_end("t", 3)])
    made = rows_of(
        status.make(frames, Questions(AT_MS, past=past)), schema.STATUS, "status", "rule"
    )
    assert {status for status, _ in made} == {verdict}
    if not past:
        rule = "the topic was created again, or this is no whole copy"
        assert made[1] == ("WARN", f"committed 497 above the log end: {rule}")


def _modern_group(topic_id: str) -> list[Row]:
    """Return a KIP-848 group with lag whose member owns partition 0 of the topic id."""
    start_ms = AT_MS - 99 * MINUTE_MS
    return [
        modern_member("modern", start_ms, 1, "m", "t"),
        epoch("modern", start_ms, 2, 1),
        modern_assignment("modern", start_ms, 3, "m", 1, {topic_id: [0]}),
        commit("modern", AT_MS - 45 * MINUTE_MS, 4, "t-0", 300),
        commit("modern", AT_MS - 1 * MINUTE_MS, 5, "t-0", 400),
    ]


@pytest.mark.parametrize(
    ("known_id", "rule"),
    [
        ("T-ID", "on its way: 600 records to read"),
        (None, "the owner is not known, as ids of topics have no name: 600 records to read"),
    ],
)
def test_ids_of_topics_come_from_the_input(known_id: str | None, rule: str) -> None:
    """The partition end names a topic id if commits have none; else the owner is unknown."""
    _, records, ends = _rule_rows()
    frames = bronze(
        offsets_log=_modern_group("T-ID"),
        topic_records=records,
        partition_ends=[{**ends[0], "topic_id": known_id}],
    )
    made = rows_of(status.make(frames, Questions(at_ms=AT_MS)), schema.STATUS, "status", "rule")
    assert made == [("OK", f"t-0: {rule}"), ("OK", rule)]
    (owner,) = rows_of(
        group_members.make(frames, Questions(at_ms=AT_MS)), schema.GROUP_MEMBERS, "assigned"
    )
    name = "T-ID" if known_id is None else "t"
    assert owner == ([{"topic": name, "partitions": [0]}],)


def test_each_rule_with_its_evidence() -> None:
    """Each rule gives the expected row, with its verdict and evidence."""
    log, records, ends = _rule_rows()
    frames = bronze(offsets_log=log, topic_records=records, partition_ends=ends)
    found = rows_of(status.make(frames, Questions(at_ms=AT_MS)), schema.STATUS)

    def ago(minutes: float) -> int:
        return AT_MS - round(minutes * MINUTE_MS)

    def row(
        group: str, verdict: str, rule: str, lag: int | None, commits: int, complete: float,
        first: int | None, last: int | None, lags: tuple[Any, Any, Any], produced: int | None,
        members: int | None, evidence: int | None, topic: str = "t",
    ) -> tuple[Any, ...]:  # fmt: skip
        return (
            group, topic, 0, verdict, rule, lag, 0, HOUR_MS, commits, complete,
            None if first is None else ago(first), None if last is None else ago(last), *lags,
            produced, members, evidence,
        )  # fmt: skip

    none = (None,) * 3
    expected = [
        row("expired", "OK", "expired: nobody committed for long, see abandoned_groups", 997, 0,
            0.0, None, 170 * 60, none, None, None, 5),
        row("fresh", "OK", "no commit to judge by", None, 0, 0.0, None, None, none, None, 1, None),
        row("left behind", "OK", "no member subscribes to the topic any more", 600, 2, 5 / 60, 45,
            40, (250, 200, 250), 400, 1, 11),
        row("mixed", "REWIND",
            "committed below where it was, and did not come back: 900 records to read", 900, 2,
            10 / 60, 30, 20, (200, 200, 700), 200, 1, 11),
        row("no topic", "OK", "the topic is not known", None, 1, 0.0, 5, 5, none, None, None, 10,
            topic="gone"),
        row("opaque", "STALL",
            "a live member committed nothing while 600 records to read wait for 2400 s", 600, 2,
            5 / 60, 45, 40, (250, 200, 250), 400, 1, 11),
        row("orphan", "STOP",
            "no member owns the partition while 600 records to read wait for 2400 s", 600, 2,
            5 / 60, 45, 40, (250, 200, 250), 400, 1, 11),
        row("reborn", "OK", "on its way: 1 records to read", 1, 2, 19 / 60, 20, 1, (700, 0, 700),
            10, 1, 13),
        row("rewound", "REWIND",
            "committed below where it was, and did not come back: 700 records to read", 700, 3,
            20 / 60, 30, 10, (200, 200, 700), 100, 1, 11),
        row("rewound before", "REWIND",
            "committed below where it was, and did not come back: 700 records to read", 700, 2,
            40 / 60, 50, 10, (400, 400, 600), 100, 1, 11),
        row("silent", "STALL",
            "a live member committed nothing while 800 records to read wait for 3600 s", 800, 0,
            0.0, None, 60, none, 600, 1, 11),
        row("slow", "WARN", "commits, but the lag never falls: 600 records to read", 600, 3,
            49 / 60, 50, 1, (200, 200, 590), 10, 1, 12),
        row("steady", "OK", "on its way: 300 records to read", 300, 3, 40 / 60, 50, 10,
            (200, 200, 200), 100, 1, 12),
        row("stuck", "STALL",
            "commits the same offset again with 660 records to read for 540 s", 660, 5, 10 / 60, 11,
            1, (590, 570, 650), 10, 1, 14),
    ]  # fmt: skip
    fine = [row for row in found if row[1:3] in (("t", 1), ("u", 0))]
    assert [(*row[:4], row[5]) for row in fine] == [
        ("left behind", "u", 0, "OK", None),
        ("mixed", "t", 1, "OK", 0),
        ("orphan", "t", 1, "OK", None),
    ]
    assert [row for row in found if row[1] is not None and row not in fine] == expected
    # The row of a group has the rule of its worst partition and sums over all partitions.
    assert [row for row in found if row[0] == "mixed" and row[1] is None] == [
        ("mixed", None, None, "ERR",
         "t-0: REWIND, committed below where it was, and did not come back: 900 records to read",
         900, 0, HOUR_MS, 3, 0.0, ago(30), ago(0), *none, 200, 1, 11),
    ]  # fmt: skip


def _timeline(minutes: float) -> tuple[list[Row], list[Row], list[Row]]:
    """Return an hour of ten records per second and a commit every five seconds for each group.

    All groups are healthy until `minutes` ago; each has its own topic. Group `healthy` stays so.
    """
    cause = round(minutes * 60)
    records, log, ends = [], [], []
    members = {"zombie": 1, "repeats": 1, "slow": 1, "healthy": 1, "empty": 0}
    for group in (*members, "standalone"):
        if group in members:
            log.append(generation(group, AT_MS - 90 * MINUTE_MS, 1, 1, member("m", {group: [0]})))
        if group == "empty":
            log.append(generation(group, AT_MS - cause * SECOND_MS, 5000, 2))
        for ago in range(3600, 0, -5):
            end = 10 * (3600 - ago)
            records += [_record(group, end + number, AT_MS - ago * SECOND_MS) for number in (0, 49)]
            late = max(0, cause - ago)
            reads = {"slow": end - 5 * late, "repeats": end - 10 * late, "healthy": end}
            if late and group not in reads:
                continue
            at_ms = AT_MS - ago * SECOND_MS - 1
            log.append(commit(group, at_ms, 4000 - ago, f"{group}-0", reads.get(group, end)))
        ends.append({**_end(group, 36_000), "retention_ms": 30 * MINUTE_MS})
    return log, records, ends


@pytest.mark.parametrize("window_hours", [1, 24])
@pytest.mark.parametrize("minutes", [1, 3, 9])
def test_an_alarm_comes_within_three_minutes_of_its_cause(minutes: int, window_hours: int) -> None:
    """A group that was healthy for an hour is reported at once, also with a long window.

    Before, the group is not said to be on its way. The forecast of loss knows that such a reader
    does not catch up.
    """
    log, records, ends = _timeline(minutes)
    frames = bronze(offsets_log=log, topic_records=records, partition_ends=ends)
    questions = Questions(at_ms=AT_MS, window_ms=window_hours * HOUR_MS)
    rows = rows_of(status.make(frames, questions), schema.STATUS, "topic", "status", "rule")
    found = {topic: (verdict, rule) for topic, verdict, rule in rows if topic is not None}
    alarms = {"zombie": "STALL", "repeats": "STALL", "slow": "WARN", "empty": "STOP",
              "standalone": "STOP", "healthy": "OK"}  # fmt: skip
    if minutes == 1:
        alarms = dict.fromkeys(alarms, "OK")
    assert {topic: verdict for topic, (verdict, _) in found.items()} == alarms
    assert {topic for topic, (_, rule) in found.items() if "on its way" in rule} <= {"healthy"}
    losses = rows_of(
        data_loss_forecast.make(frames, questions), schema.DATA_LOSS_FORECAST, "topic", "verdict",
        "catch_up_seconds",
    )  # fmt: skip
    if minutes > 1:
        stopped = {"zombie", "repeats", "empty", "standalone"}
        assert {row for row in losses if row[0] in stopped} == {
            (topic, "at_risk", None) for topic in stopped
        }


def _readers(
    cases: Mapping[str, tuple[float, Sequence[float], Sequence[float]]],
) -> tuple[list[Row], list[Row], list[Row]]:
    """Return rows of live readers that commit at ten steps up to the instant.

    A case has the seconds of a step, the records written before each step, and the lags.
    """
    log, records, ends = [], [], []
    for name, (seconds, written, lags) in cases.items():
        log.append(generation(name, AT_MS - 20 * HOUR_MS, 1, 1, member("m", {name: [0]})))
        log_end = 10_000
        for number, (count, unread) in enumerate(zip(written, lags, strict=True)):
            at_ms = AT_MS - round((len(lags) - 1 - number) * seconds * SECOND_MS)
            before, log_end = log_end, log_end + int(count)
            records += [
                _record(name, offset, at_ms - round((log_end - offset) * seconds / count * 1000))
                for offset in range(before, log_end)
            ]
            log.append(commit(name, at_ms, 10 + number, f"{name}-0", log_end - int(unread)))
        ends.append(_end(name, log_end))
    return log, records, ends


def test_a_small_rise_of_the_lag_is_no_warning() -> None:
    """Jitter, beats with the producer's batches and growing traffic are OK; a slow reader is not.

    A reader that is slower by one percent is reported once it is late by more than the patience.
    """
    ramp = [100 + 20 * step for step in range(10)]
    cases: dict[str, tuple[float, Sequence[float], Sequence[float]]] = {
        "jitter": (11.9, [100] * 10, [1] * 9 + [2]),
        "few records": (11.9, [1] * 10, [1] * 9 + [2]),
        "beats": (11.9, [100] * 10, [10 + 9 * step for step in range(10)]),
        "ramp": (11.9, ramp, [count * 5 / 12 for count in ramp]),
        "jitter, hour": (300, [100] * 10, [1] * 9 + [2]),
        "slow": (11.9, [100] * 10, [10 + 15 * step for step in range(10)]),
        "slow for hours": (300, [100] * 10, [90 + step for step in range(10)]),
    }
    log, records, ends = _readers(cases)
    frames = bronze(offsets_log=log, topic_records=records, partition_ends=ends)
    made = rows_of(status.make(frames, Questions(at_ms=AT_MS)), schema.STATUS, "topic", "status")
    found = {topic: verdict for topic, verdict in made if topic is not None}
    warned = {"slow", "slow for hours"}
    assert found == {name: "WARN" if name in warned else "OK" for name in cases}


@pytest.mark.parametrize(
    ("minutes", "verdict"), [(0.5, "OK"), (3, "OK"), (4.5, "OK"), (9, "OK"), (11, "STOP")]
)
def test_a_job_that_runs_every_five_minutes_may_be_silent_for_ten(
    minutes: float, verdict: str
) -> None:
    """A group that is empty between its jobs is a STOP only after twice its usual silence."""
    log, records = [], []
    for number in range(10):
        at_ms = AT_MS - round((minutes + 5 * (9 - number)) * MINUTE_MS)
        begun_ms = at_ms - 10 * SECOND_MS
        log += [
            generation("job", begun_ms, 10 * number, 2 * number + 1, member("m", {"job": [0]})),
            commit("job", at_ms, 10 * number + 1, "job-0", 300 * (number + 1)),
            generation("job", at_ms, 10 * number + 2, 2 * number + 2),
        ]
        records += [
            _record("job", 300 * number + second, at_ms - (299 - second) * SECOND_MS)
            for second in range(300)
        ]
    records += [_record("job", 3000 + number, AT_MS - 1000 * (20 - number)) for number in range(20)]
    waits_ms = AT_MS - round(minutes * MINUTE_MS) + 1000
    records[-20]["timestamp_ms"] = waits_ms
    frames = bronze(offsets_log=log, topic_records=records, partition_ends=[_end("job", 3020)])
    made = rows_of(status.make(frames, Questions(at_ms=AT_MS)), schema.STATUS, "topic", "status")
    assert [found for topic, found in made if topic is not None] == [verdict]


def test_commits_after_the_log_ends_were_read_do_not_count() -> None:
    """A stream that stopped between a micro-batch and its refresh leaves commits above the ends."""
    log = [
        commit("g", AT_MS - 5 * SECOND_MS, 1, "t-0", 2),
        commit("g", AT_MS + SECOND_MS, 2, "t-0", 500),
    ]
    records = [_record("t", offset, AT_MS - 6 * SECOND_MS) for offset in range(3)]
    # The producer's clock is ten hours behind.
    records.append(_record("t", 700, AT_MS - 10 * HOUR_MS))
    frames = bronze(offsets_log=log, topic_records=records, partition_ends=[_end("t", 3)])

    def made(read_ms: int | None) -> list[tuple[Any, ...]]:
        questions = Questions(AT_MS, read_ms=read_ms)
        rows = rows_of(status.make(frames, questions), schema.STATUS, "topic", "status", "lag")
        return [row[1:] for row in rows if row[0] is not None]

    assert made(None) == [("WARN", 0)]
    assert made(AT_MS) == [("OK", 1)]
    ages = lag.make(frames, Questions(AT_MS, read_ms=AT_MS))
    assert frames.topic_records.select(pl.col("offset").max()).collect().item() == 2
    assert rows_of(ages, schema.LAG, "oldest_unread_age_ms") == [(6000,)]


@pytest.mark.parametrize(("window_hours", "verdict"), [(1, "STOP"), (24, "OK"), (4, "STOP")])
def test_without_a_known_wait_the_limit_is_a_tenth_of_the_window(
    window_hours: int, verdict: str
) -> None:
    """A standalone reader with one commit is judged by the window, as nothing else is known."""
    log = [commit("g", AT_MS - 90 * MINUTE_MS, 1, "t-0", 1)]
    records = [_record("t", 0, AT_MS - 91 * MINUTE_MS), _record("t", 1, AT_MS - 30 * MINUTE_MS)]
    frames = bronze(offsets_log=log, topic_records=records, partition_ends=[_end("t", 2)])
    questions = Questions(AT_MS, window_ms=window_hours * HOUR_MS)
    made = rows_of(status.make(frames, questions), schema.STATUS, "topic", "status")
    assert [found for topic, found in made if topic is not None] == [verdict]
