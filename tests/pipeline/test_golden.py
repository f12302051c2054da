"""The tables equal the golden ones, computed by a model in plain Python (`model.py`).

The tables are made from segment files for now, and from the bronze of this run for a past instant.
Tables depend on bronze alone, so `test_ways_in.py` compares only bronze for other ways of reading,
which is cheaper.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline import run, schema
from pipeline.bronze import read_offsets_log
from pipeline.progress import silent
from pipeline.run import make_tables, run_batch
from pipeline.sources.segments import LogDirSource
from pipeline.store import Store
from tests.pipeline.golden import NOW, THEN, THEN_MS, frozen, modelled
from tests.pipeline.scenes import tell
from tests.pipeline.story import AT_MS, Story
from tests.pipeline.ways import (
    assert_golden,
    clock_at,
    differences,
    keep_progress,
    make_all,
    plain_rows,
    questions,
    read_table,
)

SEGMENTS = Path(__file__).parents[1] / "data" / "segments"


@pytest.fixture(scope="module")
def story() -> Story:
    """Return the story."""
    return tell()


@pytest.fixture(scope="module")
def from_files(
    spark: SparkSession, story: Story, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Store]:
    """Return the story's log directory, and the store of a batch run on it."""
    room = tmp_path_factory.mktemp("story")
    story.write(room / "log")
    store = Store(spark, str(room / "out"))
    keep_progress(store, story)
    with clock_at(AT_MS):
        run_batch(LogDirSource(spark, str(room / "log")), store, questions, None, silent)
    return room / "log", store


@pytest.mark.parametrize("which", [NOW, THEN])
def test_the_model_says_what_is_frozen(story: Story, which: str) -> None:
    """The model still computes the golden rows."""
    for name, rows in modelled(story, which).items():
        assert differences(rows, frozen(which, name)) == []


def test_no_table_is_empty_and_every_column_says_something() -> None:
    """Every table has golden rows, and nearly every column a non-null value."""
    silent_columns = {
        ("data_loss_forecast", "retention_ms"),
        ("data_loss_forecast", "slack_ms"),
        ("data_loss_forecast", "loss_at_ms"),
        ("group_members", "problem"),
    }
    for table in schema.TABLES:
        rows = frozen(NOW, table.name) + frozen(THEN, table.name)
        mute = {name for name in table.names if all(row[name] is None for row in rows)}
        assert {(table.name, name) for name in mute} <= silent_columns


def test_from_segment_files(from_files: tuple[Path, Store]) -> None:
    """Tables made from segment files equal the golden ones."""
    assert_golden(from_files[1], NOW)


@pytest.mark.nightly
def test_from_bronze_of_an_earlier_run_for_a_past_instant(
    spark: SparkSession,
    from_files: tuple[Path, Store],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tables for a past instant, made from the bronze of an earlier run, equal the golden ones.

    They are made in seven shards, not two, and written by Spark, not by workers, to cover these as
    well.
    """
    store = Store(spark, str(tmp_path))
    store.use_bronze_of(from_files[1])
    monkeypatch.setattr(run, "shards_for", lambda session, rows: 7)
    monkeypatch.setattr(store, "folder_for_files", lambda: None)
    make_all(store, THEN_MS)
    assert_golden(store, THEN)


@pytest.mark.nightly
def test_of_some_groups_only(
    spark: SparkSession, from_files: tuple[Path, Store], tmp_path: Path
) -> None:
    """With `--groups`, the rows of matching groups are unchanged, and others are left out."""
    store = Store(spark, str(tmp_path))
    store.use_bronze_of(from_files[1])
    pattern = "healthy|l.*|modern|spark:.*|日本.*"
    make_tables(store, questions(), pattern, silent)
    for table in schema.TABLES:
        if table == schema.DEAD_LETTERS:
            continue  # dead letters belong to no group
        wanted = [row for row in frozen(NOW, table.name) if re.fullmatch(pattern, row["group"])]
        assert differences(plain_rows(read_table(store, table), table), wanted) == []


@pytest.mark.nightly
def test_the_segments_of_a_real_kafka(spark: SparkSession, tmp_path: Path) -> None:
    """Offsets, members and instance ids of Kafka's segments are those that Kafka's tools listed."""
    store = Store(spark, str(tmp_path))
    read_offsets_log(LogDirSource(spark, str(SEGMENTS)), store, silent)
    make_all(store)
    offsets = plain_rows(read_table(store, schema.CURRENT_OFFSETS), schema.CURRENT_OFFSETS)
    people = plain_rows(read_table(store, schema.GROUP_MEMBERS), schema.GROUP_MEMBERS)
    last: dict[str, int] = {}
    computed = {}
    generations = read_table(store, schema.GROUP_GENERATIONS)
    for row in plain_rows(generations, schema.GROUP_GENERATIONS):
        last[row["group"]] = row["log_offset"]
        if row["assigned_ms"] is not None:
            computed[row["group"], row["generation"]] = row["assigned_ms"]
    # All members left before an assignment was computed for the last epoch.
    dump = (SEGMENTS / "__consumer_offsets-3.dump.txt").read_text()
    epochs = re.findall(r'"assignmentEpoch":(\d+),"assignmentTimestamp":(\d+)', dump)
    assert [int(epoch) for epoch, _ in epochs] == [2, 3]
    assert computed == {("g-modern", int(epoch)): int(time) for epoch, time in epochs}
    for row in people:
        if row["assignment_epochs"]:
            sizes = {one["topic"]: len(one["partitions"]) for one in row["assigned"]}
            assert sizes == {one["topic"]: len(one["epochs"]) for one in row["assignment_epochs"]}
    assert {row["group"] for row in people if row["assignment_epochs"]} == {"g-modern"}
    for group, told in json.loads((SEGMENTS / "expected.json").read_text()).items():
        held = {
            f"{row['topic']}-{row['partition']}": (row["committed_offset"], row["metadata"])
            for row in offsets
            if row["group"] == group
        }
        assert held == {
            place: (one["offset"], one["metadata"]) for place, one in told["offsets"].items()
        }
        there = [
            row for row in people if row["group"] == group and row["log_offset"] == last.get(group)
        ]
        instances = [row["group_instance_id"] for row in there]
        assert len(there) == told["members"], group
        assert sorted(one for one in instances if one) == told["instances"]


def test_a_wrong_row_is_told() -> None:
    """The comparison finds a wrong value, a wrong type, an extra row and a missing row."""
    rows = frozen(NOW, "lag")
    assert differences(rows, rows) == []
    assert differences(rows[1:], rows)
    assert differences([*rows, rows[0]], rows)
    assert "lag" in differences([{**rows[0], "lag": -1}, *rows[1:]], rows)[0]
    rates = frozen(NOW, "rates")
    assert differences([{**rates[0], "velocity": 1}, *rates[1:]], rates)
