"""Table `rates` with round numbers: in a window of 100 s, 1000 offsets are 10 per second."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline import schema
from pipeline.inputs import Questions
from pipeline.tables import rates
from tests.pipeline.frames import bronze, rows_of
from tests.pipeline.tables.offset_rows import AT_MS, batch, commit, ends, generation, records

WINDOW_MS = 100_000


def reader(topic: str) -> tuple[str, str, int]:
    """Return the key of a reader of partition 0."""
    return ("g", topic, 0)


def log(topic: str, *places: tuple[int, int]) -> list[dict[str, Any]]:
    """Return records of partition 0."""
    return records(topic, 0, *places)


COMMITS = (
    # The position at the start of the window is the offset of the last commit before.
    commit(1, reader("shrinking"), 0, -100_000),
    commit(2, reader("shrinking"), 100, -80_000),
    commit(3, reader("shrinking"), 900, -40_000),
    commit(4, reader("growing"), 100, -80_000),
    commit(5, reader("growing"), 300, -40_000),
    commit(6, reader("steady"), 100, -80_000),
    commit(7, reader("steady"), 420, -40_000),
    commit(8, reader("one_percent"), 0, -80_000),
    commit(9, reader("one_percent"), 79_360, -40_000),
    commit(10, reader("idle"), 1, -150_000),
    commit(11, reader("once"), 50, -1000),
    commit(12, reader("rewound"), 100, -80_000),
    commit(13, reader("rewound"), 60, -40_000),
    commit(14, reader("trimmed"), 5500, -10_000),
    commit(15, reader("trimmed"), 5600, -10_000),
    commit(16, reader("control"), 1, -80_000),
    commit(17, reader("control"), 2, -40_000),
    commit(18, reader("empty"), 0, -10),
    commit(19, reader("unseen"), 4, -10),
    generation(20, "g", -9000, [(["young"], {"young": [0]})]),
    commit(21, reader("stopped"), 0, -99_000),
    commit(22, reader("stopped"), 90, -95_000),
    commit(23, reader("stopped"), 100, -90_000),
)
RECORDS = (
    *log("growing", (0, -200_000), (1000, -50)),
    *log("shrinking", (499, -200_000), (999, -50)),
    *log("steady", (0, -200_000), (500, -50)),
    *log("one_percent", (0, -200_000), (100_000, -50)),
    *log("idle", (0, -200_000)),
    *log("once", (0, -200_000), (100, -50)),
    *log("rewound", (0, -200_000), (500, -50)),
    *log("young", (0, -50_000), (999, -1)),
    *log("trimmed", (5000, -50_000), (5999, -10)),
    *log("control", (0, -200_000)),
    *log("stopped", (0, -200_000), (100, -90_000), (1000, -50)),
)
ENDS = (
    ends("growing", 0, 0, 1001),
    ends("shrinking", 0, 0, 1000),
    ends("steady", 0, 0, 501),
    ends("one_percent", 0, 0, 100_001),
    ends("idle", 0, 0, 1),
    ends("once", 0, 0, 101),
    ends("rewound", 0, 0, 501),
    ends("young", 0, 0, 1000),
    ends("trimmed", 0, 5000, 6000),
    ends("control", 0, 0, 2),
    ends("empty", 0, 0, 0),
    ends("unseen", 0, 0, 9),
    ends("stopped", 0, 0, 1001),
)
# Columns: topic, produced, consumed, velocity, lag, catch up, trend.
EXPECTED = [
    # The only offset read in the window is a control record: 1 offset in 80 s is too little to
    # count as a change.
    ("control", 0.0, 0.0125, 0.0, 0, 0.0, "steady"),
    ("empty", 0.0, None, None, 0, 0.0, "idle"),
    ("growing", 10.0, 2.5, 7.5, 701, None, "growing"),
    ("idle", 0.0, 0.0, 0.0, 0, 0.0, "idle"),
    ("once", 1.0, None, None, 51, None, "unknown"),
    # Both rates differ by 8 of 1000 records/s. This is less than one percent and counts as no
    # difference.
    ("one_percent", 1000.0, 992.0, 0.0, 20_641, None, "steady"),
    ("rewound", 5.0, -0.5, 5.5, 441, None, "growing"),
    ("shrinking", 5.0, 9.0, -4.0, 100, 25.0, "shrinking"),
    # A difference of 1 record/s counts as no difference, so the reader never catches up.
    ("steady", 5.0, 4.0, 0.0, 81, None, "steady"),
    # Records have waited for 90 s without any progress, so the consumed rate is 0.
    ("stopped", 10.0, 0.0, 10.0, 901, None, "growing"),
    # Records before -50000 ms may be missing, so the produced rate is measured over the last 50 s.
    ("trimmed", 20.0, 10.0, 10.0, 400, None, "growing"),
    ("unseen", None, None, None, 5, None, "unknown"),
    # The topic is younger than the window: 1000 records in 50 s.
    ("young", 20.0, None, None, None, None, "unknown"),
]


@pytest.mark.parametrize("allowed_lag", [0, 10, 10_000])
def test_rates_in_the_window(allowed_lag: int) -> None:
    """Each reader has the expected rates; a Spark query's batches count as commits do.

    Rates are the same for every allowed lag.
    """
    made = bronze(
        offsets_log=COMMITS,
        topic_records=RECORDS,
        partition_ends=ENDS,
        spark_progress=[batch("growing", 0, 100, -80_000), batch("growing", 1, 300, -40_000)],
    )
    expected = [("g", topic, 0, WINDOW_MS, *more) for topic, *more in EXPECTED]
    expected.append(("spark:q1", "growing", 0, WINDOW_MS, *EXPECTED[2][1:]))
    questions = Questions(AT_MS, window_ms=WINDOW_MS, patience_ms=30_000, allowed_lag=allowed_lag)
    assert rows_of(rates.make(made, questions), schema.RATES) == expected


def test_rates_at_a_past_instant() -> None:
    """Records and commits after the instant do not count."""
    made = bronze(
        offsets_log=[*COMMITS[3:5], commit(30, reader("growing"), 900, 500)],
        topic_records=[*RECORDS[:2], *log("growing", (2000, 500))],
        partition_ends=[ends("growing", 0, 0, 2001)],
    )
    questions = Questions(AT_MS, past=True, window_ms=WINDOW_MS)
    assert rows_of(rates.make(made, questions), schema.RATES) == [
        ("g", "growing", 0, WINDOW_MS, 10.0, 2.5, 7.5, 701, None, "growing")
    ]
