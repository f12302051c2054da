"""Read the times of records: of all records, of the few that the tables need, or of none.

The option `--time` selects one of these (`exact`, `sampled`, `none`). The tables need the time of
the first unread record of every reader that lags. They also need the log end at two kinds of
times: the start of the window, and the last commit in each tenth of the window (rule 7 of
`pipeline.tables.status`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from pipeline import schema
from pipeline.decode.kinds import COMMIT
from pipeline.inputs import Questions
from pipeline.schema.arrow import arrow_schema
from pipeline.sources.sampling import Place, Point, Sample, Wanted, sample

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from pipeline.sources.source import Source
    from pipeline.store import Store

INSTANTS_MOST = 24
"""The maximum number of commits per partition at which a run asks for the log end."""

_SLICES = 10
_PLACE = ("topic", "partition")
_KEY = ("group", *_PLACE)


class Read(NamedTuple):
    """The offset after the last record that was read, and the timestamp of this record."""

    next_offset: int
    timestamp_ms: int | None


def sample_times(source: Source, store: Store, ends: DataFrame, asked: Questions) -> Sample:
    """Ask for the times of records, and replace `offset_times` in bronze.

    `ends` are the partition ends of this run.
    """
    rows = {(row["topic"], row["partition"]): row for row in ends.collect()}
    first_ms = min((row["sampled_at_ms"] for row in rows.values()), default=asked.at_ms)
    asked = replace(asked, past=asked.at_ms < first_ms)
    offsets, instants = _positions(store, ends, asked)
    read = _read(store, rows)
    wanted = {
        place: wanted_of(
            row, asked, offsets.get(place, set()), instants.get(place, set()), read.get(place)
        )
        for place, row in rows.items()
        if row["last_stable_offset"] is not None and row["log_start"] is not None
    }
    with source.times() as times:
        made = sample(times, wanted, _known(store, rows))
        store.reads.size_bytes += times.fetched_bytes
    store.replace_bronze(schema.OFFSET_TIMES, _frame(store, made.points, rows))
    return made


def wanted_of(
    end: Mapping[str, Any] | Row,
    asked: Questions,
    offsets: set[int],
    commits: set[int],
    read: Read | None,
) -> Wanted:
    """Return what the tables need to know about a partition with this row of partition ends.

    `offsets` are positions of readers, `commits` the times of their commits that matter.
    """
    return Wanted(
        end["log_start"],
        end["last_stable_offset"],
        end["sampled_at_ms"],
        _instants(asked, commits),
        tuple(sorted(offsets)),
        *(read or ()),
    )


def _instants(asked: Questions, commits: set[int]) -> tuple[int, ...]:
    """Return the instants whose log end a partition needs, in order.

    Of the commits, at most `INSTANTS_MOST` count, evenly chosen, the last one included.
    """
    instants = {asked.at_ms - asked.window_ms}
    if asked.past:
        instants.add(asked.at_ms)
    if asked.replay_from_ms is not None:
        instants.add(asked.replay_from_ms - 1)
    stride = max(1, -(-len(commits) // INSTANTS_MOST))
    return tuple(sorted(instants | set(sorted(commits, reverse=True)[::stride])))


def _positions(
    store: Store, ends: DataFrame, asked: Questions
) -> tuple[Mapping[Place, set[int]], Mapping[Place, set[int]]]:
    """Return the positions of readers that lag, and the times of their commits that matter.

    Positions are those of groups, share groups and Spark queries, also with the allowed lag added.
    """
    log = store.read_bronze(schema.OFFSETS_LOG)
    commits = log.filter((F.col("kind") == COMMIT) & F.col("problem").isNull())
    if asked.past:
        commits = commits.filter(F.col("log_timestamp_ms") <= asked.at_ms)
    last = F.max_by(F.struct("tombstone", "committed_offset", "topic_id"), "log_offset")
    of_end = ends.select(
        *_PLACE, F.col("last_stable_offset").alias("end"), F.col("topic_id").alias("current_id")
    )
    is_own = F.col("topic_id").isNull() | F.coalesce(
        F.col("topic_id") == F.col("current_id"), F.lit(True)
    )
    lagging = (
        commits.groupBy(*_KEY)
        .agg(last.alias("last"))
        .select(*_KEY, "last.*")
        .join(F.broadcast(of_end), [*_PLACE])
        .filter(~F.col("tombstone") & is_own)
        .filter(F.col("committed_offset") + asked.allowed_lag < F.col("end"))
        .select(*_KEY, "committed_offset")
        .persist()
    )
    try:
        offsets = _sets(lagging, F.col("committed_offset"))
        at_ms = F.col("commit_timestamp_ms")
        spans = [
            commits.filter(at_ms > asked.at_ms - span_ms)
            .join(F.broadcast(lagging.select(*_KEY)), [*_KEY])
            .groupBy(*_KEY, F.floor((asked.at_ms - at_ms) * _SLICES / span_ms))
            .agg(F.max(at_ms).alias("at"))
            for span_ms in {asked.window_ms, min(asked.patience_ms, asked.window_ms)}
        ]
        # The position before the current one shows how long the reader usually lets records wait.
        current = F.broadcast(lagging.withColumnRenamed("committed_offset", "current"))
        earlier = commits.join(current, [*_KEY]).filter("committed_offset <> current")
        spans.append(earlier.groupBy(*_KEY).agg(F.max(at_ms).alias("at")))
        instants: defaultdict[Place, set[int]] = defaultdict(set)
        for span in spans:
            for place, times in _sets(span, F.col("at")).items():
                instants[place] |= times
    finally:
        lagging.unpersist()
    batches = store.read_bronze(schema.SPARK_PROGRESS).groupBy("query_id", *_PLACE)
    states = store.read_bronze(schema.SHARE_STATE).filter("start_offset IS NOT NULL")
    for last_of_reader in (
        batches.agg(F.max_by("end_offset", "batch_id").alias("position")),
        states.groupBy(*_KEY).agg(F.max_by("start_offset", "log_offset").alias("position")),
    ):
        for place, taken in _sets(last_of_reader, F.col("position")).items():
            offsets[place] |= taken
    if asked.allowed_lag:
        for taken in offsets.values():
            taken |= {offset + asked.allowed_lag for offset in taken}
    return offsets, instants


def _sets(frame: DataFrame, value: Column) -> defaultdict[Place, set[int]]:
    """Return the values of each partition."""
    sets: defaultdict[Place, set[int]] = defaultdict(set)
    for row in frame.groupBy(*_PLACE).agg(F.collect_set(value).alias("values")).collect():
        sets[row["topic"], row["partition"]] = set(row["values"])
    return sets


def _read(store: Store, rows: Mapping[Place, Row]) -> dict[Place, Read]:
    """Return how far the records of each existing partition were read by earlier runs."""
    if not store.has_bronze(schema.TOPIC_RECORDS):
        return {}
    records = store.read_bronze(schema.TOPIC_RECORDS).groupBy(*_PLACE, "topic_id")
    reached = records.agg(
        (F.max("offset") + 1).alias("next"), F.max_by("timestamp_ms", "offset").alias("at")
    )
    return {
        (row["topic"], row["partition"]): Read(row["next"], row["at"])
        for row in reached.collect()
        if (end := rows.get((row["topic"], row["partition"]))) is not None
        and row["topic_id"] in (None, end["topic_id"])
        and row["next"] <= (end["log_end"] or 0)
    }


def _known(store: Store, rows: Mapping[Place, Row]) -> dict[Place, list[Point]]:
    """Return the points that earlier runs found, of existing partitions."""
    known: defaultdict[Place, list[Point]] = defaultdict(list)
    kept = store.read_bronze(schema.OFFSET_TIMES)
    names = (
        "topic", "partition", "topic_id", "offset", "from_ms", "timestamp_ms", "record_bytes",
    )  # fmt: skip
    columns = kept.select(*names).toArrow().to_pydict()
    for topic, number, topic_id, *point in zip(*(columns[name] for name in names), strict=True):
        row = rows.get((topic, number))
        if row is not None and row["topic_id"] == topic_id:
            known[topic, number].append(Point(*point))
    return known


def _frame(
    store: Store, points: Mapping[Place, list[Point]], rows: Mapping[Place, Row]
) -> DataFrame:
    columns = [
        (*place, offset, until_ms, size_bytes, rows[place]["topic_id"], from_ms)
        for place, some in points.items()
        for offset, from_ms, until_ms, size_bytes in some
    ]
    table = schema.OFFSET_TIMES
    arrays = [list(values) for values in zip(*columns, strict=True)] or [[] for _ in table.names]
    fields = arrow_schema(table)
    made = pa.table(
        [pa.array(values, field.type) for values, field in zip(arrays, fields, strict=True)],
        schema=fields,
    )
    return store.spark.createDataFrame(made)
