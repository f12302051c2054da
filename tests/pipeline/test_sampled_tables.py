"""Tables with `--time sampled` say what they say with all records, within the stated errors."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import polars as pl
import pytest

from pipeline import schema
from pipeline.decode.arrow import decode_arrow
from pipeline.inputs import SAMPLED, Bronze, Questions, merged
from pipeline.schema.arrow import polars_schema
from pipeline.sources.datasource import OffsetsLogSource, TopicLogSource
from pipeline.sources.sampling import Place, Sample, sample
from pipeline.sources.segments import LogDirSource, LogTimes
from pipeline.tables import makers
from pipeline.times import wanted_of
from tests.pipeline.golden import THEN_MS
from tests.pipeline.scenes import tell
from tests.pipeline.story import AT_MS
from tests.pipeline.ways import clock_at, questions

Frames = dict[str, pl.LazyFrame]
MAKERS = {table.name: make for table, make in makers()}


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the story's log directory."""
    room = tmp_path_factory.mktemp("story") / "log"
    tell().write(room)
    return room


@pytest.fixture(scope="module")
def frames(log_dir: Path) -> Frames:
    """Return the bronze of the story with all records, read without Spark."""
    rows: Frames = {one.name: pl.LazyFrame(schema=polars_schema(one)) for one in schema.BRONZE}
    log = pl.concat([frame(decode_arrow(batch)) for batch in read(OffsetsLogSource, path=log_dir)])
    topics = sorted(log.get_column("topic").drop_nulls().unique())
    records = read(TopicLogSource, path=log_dir, topics=json.dumps(topics))
    rows["offsets_log"] = log.lazy()
    rows["topic_records"] = pl.concat([frame(batch) for batch in records]).drop("damage").lazy()
    with pytest.MonkeyPatch.context() as patch, clock_at(AT_MS):
        patch.setattr(schema.Table, "spark", lambda _: None)  # needs a session
        spark: Any = SimpleNamespace(dataSource=MagicMock(), createDataFrame=lambda rows, _: rows)
        made: Any = LogDirSource(spark, str(log_dir)).partition_ends(topics)
    ends = polars_schema(schema.PARTITION_ENDS)
    rows["partition_ends"] = pl.LazyFrame(made, ends, orient="row")
    rows["spark_progress"] = pl.LazyFrame(
        tell().progress, polars_schema(schema.SPARK_PROGRESS), orient="row"
    )
    return rows


def frame(batch: Any) -> pl.DataFrame:
    """Return an Arrow batch as a frame."""
    made = pl.from_arrow(batch)
    assert isinstance(made, pl.DataFrame)
    return made


def read(source: Any, **options: object) -> Iterator[Any]:
    """Yield what a data source reads."""
    reader = source({name: str(value) for name, value in options.items()}).reader(None)
    for part in reader.partitions():
        yield from reader.read(part)


def sampled(log_dir: Path, frames: Frames, asked: Questions) -> tuple[Bronze, Sample]:
    """Return bronze with sampled times, and what was asked for."""
    ends = frames["partition_ends"].collect()
    rows = {(row["topic"], row["partition"]): row for row in ends.to_dicts()}
    offsets, instants = positions(frames, asked)
    wanted = {
        place: wanted_of(row, asked, offsets[place], instants[place], None)
        for place, row in rows.items()
    }
    made = sample(LogTimes(str(log_dir)), wanted, {})
    points = [
        (*place, offset, until_ms, size_bytes, rows[place]["topic_id"], from_ms)
        for place, some in made.points.items()
        for offset, from_ms, until_ms, size_bytes in some
    ]
    columns = polars_schema(schema.OFFSET_TIMES)
    data_end = [made.data_ends.get((row["topic"], row["partition"])) for row in ends.to_dicts()]
    known = ends.with_columns(
        time=pl.lit(SAMPLED), data_end=pl.Series(data_end, dtype=pl.Int64)
    ).lazy()
    return bronze_of(
        {
            **frames,
            "topic_records": frames["topic_records"].clear(),
            "offset_times": pl.LazyFrame(points, columns, orient="row"),
            "partition_ends": known,
        }
    ), made


def bronze_of(frames: Mapping[str, pl.LazyFrame]) -> Bronze:
    """Return the input of the tables."""
    return Bronze(**merged(frames))


def positions(
    frames: Frames, asked: Questions
) -> tuple[defaultdict[Place, set[int]], defaultdict[Place, set[int]]]:
    """Return all positions of readers, and the commits of the window, by partition."""
    offsets: defaultdict[Place, set[int]] = defaultdict(set)
    instants: defaultdict[Place, set[int]] = defaultdict(set)
    last: dict[tuple[str, Place], int] = {}
    is_commit = (pl.col("kind") == "offset_commit") & pl.col("problem").is_null()
    log = frames["offsets_log"].filter(is_commit).sort("log_offset")
    if asked.past:
        log = log.filter(pl.col("log_timestamp_ms") <= asked.at_ms)
    for row in log.collect().to_dicts():
        place = (row["topic"], row["partition"])
        last[row["group"], place] = row["committed_offset"]
        if not row["tombstone"] and row["commit_timestamp_ms"] > asked.at_ms - asked.window_ms:
            instants[place].add(row["commit_timestamp_ms"])
    for (_, place), offset in last.items():
        if offset is not None:
            offsets[place].add(offset)
    for row in frames["spark_progress"].collect().to_dicts():
        offsets[row["topic"], row["partition"]].add(row["end_offset"])
    return offsets, instants


def rows_of(bronze: Bronze, name: str, asked: Questions) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the rows of a table by group, topic and partition."""
    made = MAKERS[name](bronze, asked).collect().to_dicts()
    return {tuple(row.get(one) for one in ("group", "topic", "partition")): row for row in made}


@pytest.mark.parametrize("at_ms", [AT_MS, THEN_MS])
def test_verdicts_and_ages_are_those_of_all_records(
    log_dir: Path, frames: Frames, at_ms: int
) -> None:
    """Lags are equal, ages within their errors, and verdicts of status and forecasts equal."""
    asked = questions(at_ms)
    asked = Questions(**{**vars(asked), "past": at_ms < AT_MS})
    exact = bronze_of(frames)
    some, made = sampled(log_dir, frames, asked)
    assert made.requests < exact.topic_records.collect().height
    for name, columns in COMPARED.items():
        wanted, found = (rows_of(bronze, name, asked) for bronze in (exact, some))
        assert found.keys() == wanted.keys()
        for key, row in wanted.items():
            for column in columns:
                assert found[key][column] == row[column], (name, key, column)
    paces = rows_of(some, "rates", asked)
    for key, row in rows_of(exact, "rates", asked).items():
        for column in ("produced_per_second", "consumed_per_second"):
            pace = row[column]
            close = pace if pace is None else pytest.approx(pace, rel=0.01)
            assert paces[key][column] == close, (key, column)
    ages = rows_of(some, "lag", asked)
    for key, row in rows_of(exact, "lag", asked).items():
        age, error = row["oldest_unread_age_ms"], ages[key]["oldest_unread_age_error_ms"]
        assert (age is None) == (error is None)
        if age is not None:
            assert abs(age - ages[key]["oldest_unread_age_ms"]) <= error, (key, row, ages[key])


COMPARED = {
    "lag": ("lag", "lost", "state", "log_end"),
    "status": ("status",),
    "data_loss_forecast": ("verdict",),
    "replay_plan": ("target_offset", "change"),
    "offset_expiry_forecast": ("expires_ms",),
}
