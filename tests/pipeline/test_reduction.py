"""Tables made from a reduced log and new rows equal those made from the whole log."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import schema
from pipeline.inputs import MINUTE_MS, Questions
from pipeline.reduction import reduced
from pipeline.tables import makers
from tests.pipeline.frames import Row, bronze, frame, rows_of
from tests.pipeline.tables import log_rows

START_MS = 1_700_000_000_000
WINDOW_MS = 10 * MINUTE_MS
PLACES = ("t-0", "t-1", "u-0")
COMMIT, REMOVE, REBALANCE, WRITE, RECREATE = range(5)

events = st.tuples(
    st.sampled_from((COMMIT, COMMIT, COMMIT, WRITE, REMOVE, REBALANCE, RECREATE)),
    st.sampled_from(("g", "h")),
    st.sampled_from(PLACES),
    st.integers(-1, 2),
    st.integers(0, 6),
)
"""What happens, to which group and partition, the change of an offset, the minutes before."""


class History:
    """Rows of bronze, and the times at which they were written."""

    def __init__(self, happened: list[tuple[int, str, str, int, int]], has_ids: bool) -> None:
        self.log: list[Row] = []
        self.records: list[Row] = []
        self.ids = dict.fromkeys(PLACES, 0)
        self.ends = dict.fromkeys(PLACES, 0)
        self._has_ids = has_ids
        self._positions: dict[tuple[str, str], int] = {}
        self.now_ms = START_MS
        for number, event in enumerate(happened):
            self.now_ms += event[4] * MINUTE_MS
            self._add(number, *event[:4])

    def topic_id(self, place: str) -> str | None:
        """Return the current topic id of the topic."""
        return f"id-{place[0]}-{self.ids[place]}" if self._has_ids else None

    def _add(self, number: int, kind: int, group: str, place: str, change: int) -> None:
        if kind == COMMIT:
            position = max(0, self._positions.get((group, place), 0) + change)
            self._positions[group, place] = position
            topic_id = self.topic_id(place)
            made = log_rows.commit(group, self.now_ms, number, place, position, topic_id=topic_id)
            self.log.append(made)
        elif kind == REMOVE:
            self.log.append(log_rows.commit(group, self.now_ms, number, place, None))
        elif kind == REBALANCE:
            members = [log_rows.member(f"m{change}", {"t": [0, 1], "u": [0]})]
            made = log_rows.generation(group, self.now_ms, number, number, *members)
            self.log.append(made)
        elif kind == WRITE:
            topic, partition = place.split("-")
            row = {"topic": topic, "partition": int(partition), "offset": self.ends[place],
                   "timestamp_ms": self.now_ms, "record_bytes": 9,
                   "topic_id": self.topic_id(place)}  # fmt: skip
            self.records.append(row)
            self.ends[place] += 1
        else:
            for other in PLACES:
                if other[0] == place[0]:
                    self.ids[other] += 1
                    self.ends[other] = 0

    def partition_ends(self) -> list[Row]:
        """Return the current log ends of both topics."""
        return [
            {"topic": place[0], "partition": int(place[2]), "log_start": 0,
             "log_end": self.ends[place], "high_watermark": self.ends[place],
             "sampled_at_ms": self.now_ms, "topic_id": self.topic_id(place)}
            for place in PLACES
        ]  # fmt: skip


def tables(history: History, log: pl.LazyFrame, questions: Questions) -> dict[str, Any]:
    """Return the rows of all tables."""
    made = bronze(topic_records=history.records, partition_ends=history.partition_ends())
    known = replace(made, offsets_log=log)
    return {table.name: rows_of(make(known, questions), table) for table, make in makers()}


@settings(max_examples=40, deadline=None)
@given(
    happened=st.lists(events, min_size=1, max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    has_ids=st.booleans(),
    later=st.integers(0, 30),
)
def test_a_reduced_log_gives_the_same_tables(
    happened: list[tuple[int, str, str, int, int]], cuts: list[int], has_ids: bool, later: int
) -> None:
    """However often a log is reduced, also with recreated topics, the tables are the same."""
    history = History(happened, has_ids)
    questions = Questions(history.now_ms + later * MINUTE_MS, window_ms=WINDOW_MS)
    wanted = tables(history, frame(schema.OFFSETS_LOG, history.log), questions)
    bounds = [0, *sorted(min(cut, len(happened)) for cut in cuts), len(happened)]
    known = frame(schema.OFFSETS_LOG)
    for begin, end in pairwise(bounds):
        at_ms = START_MS + sum(event[4] for event in happened[:begin]) * MINUTE_MS
        new = [row for row in history.log if begin <= row["log_offset"] < end]
        state = reduced(known, at_ms - WINDOW_MS)
        known = pl.concat([state, frame(schema.OFFSETS_LOG, new)]).collect().lazy()
    made = tables(history, known, questions)
    for name, rows in wanted.items():
        if name != schema.OFFSET_COMMITS.name:
            assert made[name] == rows, name


def test_the_number_of_reduced_rows_does_not_grow() -> None:
    """Each offset keeps at most three commits from before the window."""
    counts = []
    for rows in (100, 1000):
        log = [
            log_rows.commit("g", START_MS + number * MINUTE_MS, number, "t-0", number // 3)
            for number in range(rows)
        ]
        since_ms = START_MS + (rows - 5) * MINUTE_MS
        kept = reduced(frame(schema.OFFSETS_LOG, log), since_ms).collect()
        counts.append(len(kept))
        assert kept["earlier_commits"].sum() == rows - len(kept)
    assert counts == [7, 7]
