"""Helpers for tests of whole runs: the clock, tables and bronze as plain rows, comparisons.

Bronze must be the same for every way of reading, except for the columns in `NOT_OF_THE_INPUT`, such
as when and from where partition ends were read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame

from pipeline import schema
from pipeline.bronze import keep_spark_progress
from pipeline.inputs import Questions
from pipeline.progress import silent
from pipeline.run import make_tables
from pipeline.store import Store
from tests.pipeline.frames import Double
from tests.pipeline.golden import REPLAY_FROM_MS, frozen, in_order
from tests.pipeline.story import AT_MS, Story

Row = dict[str, Any]

NOT_OF_THE_INPUT = {
    schema.PARTITION_ENDS.name: ("sampled_at_ms", "source", "topic_id", "held_by", "held_since_ms"),
    schema.TOPIC_RECORDS.name: ("topic_id",),
}
"""Bronze columns that depend on the way of reading. Golden tables have none of them."""


@contextmanager
def clock_at(at_ms: int) -> Iterator[None]:
    """Let sources read the clock as `at_ms`; with `AT_MS`, this instant is not in the past."""
    clock = SimpleNamespace(time_ns=lambda: at_ms * 1_000_000)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("segments", "kafka"):
            patch.setattr(f"pipeline.sources.{name}.time", clock)
        yield


def questions(at_ms: int = AT_MS) -> Questions:
    """Return the questions of the golden tables."""
    return Questions(at_ms, replay_from_ms=REPLAY_FROM_MS)


def keep_progress(store: Store, story: Story) -> None:
    """Store the progress of the story's Spark query, which no source reads."""
    keep_spark_progress(store, story.progress)


def read_table(store: Store, table: schema.Table) -> DataFrame:
    """Return a table as last written, in Parquet."""
    return store.read_table(table)


def plain_rows(frame: DataFrame, table: schema.Table) -> list[Row]:
    """Return the rows of a frame in key order, in the form of the golden files."""
    rows = [
        {
            name: value.isoformat() if isinstance(value, date) else value
            for name, value in row.asDict(recursive=True).items()
        }
        for row in frame.select(table.names).collect()
    ]
    return in_order(table, rows)


def bronze_rows(store: Store) -> dict[str, list[Row]]:
    """Return all bronze rows, without columns that depend on the way of reading."""
    found = {}
    for table in schema.BRONZE:
        if table in (schema.OFFSET_TIMES, schema.SHARE_STATE):  # the story has none
            continue
        rows = plain_rows(store.read_bronze(table), table)
        away = NOT_OF_THE_INPUT.get(table.name, ())
        found[table.name] = [
            {name: value for name, value in row.items() if name not in away} for row in rows
        ]
    return found


def assert_golden(store: Store, which: str, tables: Sequence[schema.Table] = schema.TABLES) -> None:
    """Compare all rows and columns of the tables with the golden ones."""
    wrong = []
    for table in tables:
        made = plain_rows(read_table(store, table), table)
        wrong += [f"{table.name}: {text}" for text in differences(made, frozen(which, table.name))]
    assert not wrong, "\n".join(wrong)


def make_all(store: Store, at_ms: int = AT_MS) -> None:
    """Make all tables from the bronze of a store."""
    make_tables(store, questions(at_ms), None, silent)


def differences(made: Sequence[Row], wanted: Sequence[Row], most: int = 8) -> list[str]:
    """Describe the first differences of two lists of rows in key order."""
    said = []
    if len(made) != len(wanted):
        said.append(f"{len(made)} rows, not {len(wanted)}")
        extra = [row for row in made if row not in wanted][:2]
        lacking = [row for row in wanted if row not in made][:2]
        said += [f"too much: {extra}", f"missing: {lacking}"]
        return said
    for one, other in zip(made, wanted, strict=True):
        assert list(one) == list(other)
        away = {
            name: (value, other[name])
            for name, value in one.items()
            if not _same(value, other[name])
        }
        if away:
            said.append(f"{list(other.values())[:4]}: (made, golden) {away}")
    return said[:most]


def _same(value: Any, other: Any) -> bool:
    if type(value) is not type(other):
        return False
    return bool((Double(value) if isinstance(value, float) else value) == other)
