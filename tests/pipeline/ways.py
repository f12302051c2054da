"""What the tests of whole runs share: the clock, tables and bronze as plain rows, comparisons.

What an input cannot know is said here alone: when a partition was looked at and by whom
(`NOT_OF_THE_INPUT`). Everything else must be the same whichever way it was read.
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
    schema.PARTITION_ENDS.name: ("sampled_at_ms", "source", "topic_id", "held_by", "held_since_ms")
}
"""Bronze columns that tell how it was read. Golden tables have none of them."""


@contextmanager
def clock_at(at_ms: int) -> Iterator[None]:
    """Sources look at partitions at that instant: `AT_MS` is "now" then, and not in the past."""
    clock = SimpleNamespace(time_ns=lambda: at_ms * 1_000_000)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("segments", "kafka"):
            patch.setattr(f"pipeline.sources.{name}.time", clock)
        yield


def questions(at_ms: int = AT_MS) -> Questions:
    """What the golden tables answer."""
    return Questions(at_ms, replay_from_ms=REPLAY_FROM_MS)


def keep_progress(store: Store, story: Story) -> None:
    """What Spark's query of the story did; it comes from files of its own in all inputs."""
    keep_spark_progress(store, story.progress)


def read_table(store: Store, table: schema.Table) -> DataFrame:
    """A table as it was written last, in Parquet."""
    reader = store.spark.read.schema(table.spark())
    return reader.parquet(store.path("tables", table.name)).select(table.names)


def plain_rows(frame: DataFrame, table: schema.Table) -> list[Row]:
    """The rows of a frame by the table's key, as the golden files have them."""
    rows = [
        {
            name: value.isoformat() if isinstance(value, date) else value
            for name, value in row.asDict(recursive=True).items()
        }
        for row in frame.select(table.names).collect()
    ]
    return in_order(table, rows)


def bronze_rows(store: Store) -> dict[str, list[Row]]:
    """All bronze, without what depends on the way in."""
    found = {}
    for table in schema.BRONZE:
        rows = plain_rows(store.read_bronze(table), table)
        away = NOT_OF_THE_INPUT.get(table.name, ())
        found[table.name] = [
            {name: value for name, value in row.items() if name not in away} for row in rows
        ]
    return found


def assert_golden(store: Store, which: str, tables: Sequence[schema.Table] = schema.TABLES) -> None:
    """Every table that the store has is the golden one: all rows, all columns."""
    wrong = []
    for table in tables:
        made = plain_rows(read_table(store, table), table)
        wrong += [f"{table.name}: {text}" for text in differences(made, frozen(which, table.name))]
    assert not wrong, "\n".join(wrong)


def make_all(store: Store, at_ms: int = AT_MS) -> None:
    """All tables from the bronze of a store."""
    make_tables(store, questions(at_ms), None, silent)


def differences(made: Sequence[Row], wanted: Sequence[Row], most: int = 8) -> list[str]:
    """In words, the first few; rows are in the order of their keys."""
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
