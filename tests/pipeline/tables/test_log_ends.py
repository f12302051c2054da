"""The log end replayed from records, at instants that are easily computed wrong."""

from __future__ import annotations

import polars as pl

from pipeline.tables.log_ends import ends_at
from tests.pipeline.frames import bronze

# Columns: topic, partition, offset, timestamp.
RECORDS = (
    ("plain", 0, 0, 1000),
    ("plain", 0, 1, 2000),
    ("plain", 0, 2, 2000),
    ("plain", 1, 0, 9000),
    ("shuffled", 0, 0, 1000),
    ("shuffled", 0, 1, 5000),
    ("shuffled", 0, 2, 3000),
    ("cleaned", 0, 7, 1000),
    ("cleaned", 0, 10, 4000),
    ("timeless", 0, 0, None),
    ("timeless", 0, 1, None),
)
# Columns: topic, partition, instant, expected log end, reason.
QUESTIONS = (
    ("plain", 0, 999, 0, "before the first record of a log that began at 0"),
    ("plain", 0, 1000, 1, "a record of this very instant counts"),
    ("plain", 0, 1999, 1, "between two records"),
    ("plain", 0, 2000, 3, "two records of one instant"),
    ("plain", 0, 2000, 3, "the same question twice has two answers"),
    ("plain", 0, 99999, 3, "after the last record"),
    ("plain", 1, 8999, 0, "the other partition has records of its own"),
    ("plain", 0, None, None, "no instant"),
    ("shuffled", 0, 3000, 3, "record 2 is there, so record 1 is, whatever its producer's clock"),
    ("shuffled", 0, 5000, 3, "a late timestamp of an earlier record moves nothing"),
    ("cleaned", 0, 999, None, "records before the first known one may be gone"),
    ("cleaned", 0, 3999, 8, "offsets have gaps"),
    ("cleaned", 0, 4000, 11, "after the gap"),
    ("timeless", 0, 5000, None, "records without timestamps cannot be replayed"),
    ("empty", 0, 5000, 0, "never written to"),
    ("trimmed", 0, 5000, None, "all records gone"),
    ("nowhere", 0, 5000, None, "no such topic"),
)


def test_the_log_end_is_the_running_maximum_of_the_records() -> None:
    """Each instant gets its log end, and other columns stay unchanged."""
    made = bronze(
        topic_records=[
            {"topic": topic, "partition": partition, "offset": offset, "timestamp_ms": at_ms}
            for topic, partition, offset, at_ms in RECORDS
        ],
        partition_ends=[
            {"topic": "empty", "partition": 0, "log_start": 0, "log_end": 0},
            {"topic": "trimmed", "partition": 0, "log_start": 5, "log_end": 5},
        ],
    )
    instants = pl.LazyFrame(
        [(why, topic, partition, at_ms) for topic, partition, at_ms, _, why in QUESTIONS],
        schema={"why": pl.String, "topic": pl.String, "partition": pl.Int32, "t_ms": pl.Int64},
        orient="row",
    )
    answered = ends_at(made, instants).collect()
    assert answered.columns == ["why", "topic", "partition", "t_ms", "log_end"]
    expected = [(why, topic, part, at_ms, end) for topic, part, at_ms, end, why in QUESTIONS]
    assert sorted(answered.rows(), key=str) == sorted(expected, key=str)
