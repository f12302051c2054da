"""A run from input to tables, in batch or as a stream: bronze first, then every table from it.

The tables never see where bronze came from, so equal input gives equal tables whichever way it
was read.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.streaming.query import StreamingQuery

from pipeline import schema
from pipeline.bronze import add_offsets_log, next_offsets, read_offsets_log, read_the_rest
from pipeline.inputs import Questions
from pipeline.progress import Tell
from pipeline.shards import ROWS_PER_SHARD, make_files, make_pieces, shards_for, table_of
from pipeline.sources.source import Source
from pipeline.store import Store

LARGE_GROUP_RECORDS = 500_000
"""Records of one group that are worth a note: all of them lie in the memory of one worker."""

_NOTED_GROUPS = 5
_NOTED_REASONS = 5
_BYTES_PER_RECORD = 1_000
"""Measured: three million commits of one group took 2.9 GB."""

_WRITERS = 2
"""Tables written at the same time: while one is planned or ends, another has the processors."""


def run_batch(
    source: Source | None,
    store: Store,
    ask: Callable[[], Questions],
    groups: str | None,
    tell: Tell,
) -> None:
    """Read what is new (nothing if there is no source), then make all tables.

    `ask` is called when all is read, so that an instant of "now" is not before the ends of
    partitions that were looked at.
    """
    if source is not None:
        read_offsets_log(source, store, tell)
        read_the_rest(source, store, tell)
    _make_all(source, store, ask(), groups, tell)


def run_stream(
    source: Source,
    store: Store,
    ask: Callable[[], Questions],
    groups: str | None,
    tell: Tell,
    interval_seconds: float | None,
) -> None:
    """Read as a stream: what is there now, or without an end every `interval_seconds`.

    Tables are computed again at the end of what was there, or after each micro-batch; `ask` gives
    their questions.
    """

    def refresh() -> None:
        read_the_rest(source, store, tell)
        _make_all(source, store, ask(), groups, tell)

    if interval_seconds is None:
        start_stream(source, store, None, tell).awaitTermination()
        refresh()
        return
    query = start_stream(source, store, interval_seconds, tell, after_each=refresh)
    try:
        query.awaitTermination()
    finally:
        query.stop()


def start_stream(
    source: Source,
    store: Store,
    interval_seconds: float | None,
    tell: Tell,
    after_each: Callable[[], None] | None = None,
) -> StreamingQuery:
    """Start to keep the offsets log micro-batch by micro-batch, each one a batch of bronze."""
    started = threading.Event()
    query: StreamingQuery | None = None

    def keep(batch: DataFrame, number: int) -> None:
        started.wait()
        assert query is not None
        # A checkpoint keeps its query's id: a replayed micro-batch has the name it had before.
        if add_offsets_log(store, f"stream-{query.id}-{number}", batch, next_offsets(store)):
            tell(f"micro-batch {number}: kept")
        if after_each is not None:
            after_each()

    writer = source.offsets_log_stream().writeStream.foreachBatch(keep)
    writer = writer.option("checkpointLocation", store.path("checkpoint"))
    if interval_seconds is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{round(interval_seconds * 1000)} milliseconds")
    query = writer.start()
    started.set()
    return query


def make_tables(store: Store, questions: Questions, groups: str | None, tell: Tell) -> None:
    """Make every table from bronze and put it in the place of the one before."""
    large = (schema.OFFSETS_LOG, schema.TOPIC_RECORDS)
    records = {table.name: store.read_bronze(table).count() for table in large}
    shards = shards_for(store.spark, sum(records.values()))
    if records[schema.OFFSETS_LOG.name] >= LARGE_GROUP_RECORDS:
        for note in _large_groups(store):
            tell(f"note: {note}")
    tell(f"tables: making them in {shards} parts")
    asked = _with_past(store, questions)
    folder = store.folder_for_files()
    if folder is None:
        _write_by_spark(store, make_pieces(store, asked, groups, shards), tell)
        return
    counts = make_files(store, asked, groups, shards, folder)
    for table in schema.TABLES:
        store.put_table(table, folder)
        tell(f"table {table.name}: {counts.get(table.name, 0)} rows")


def _large_groups(store: Store) -> list[str]:
    """What a worker will need for groups with many records, said before it may run out."""
    counts = store.read_bronze(schema.OFFSETS_LOG).groupBy("group").count()
    large = counts.filter(F.col("count") >= LARGE_GROUP_RECORDS).orderBy(F.desc("count"), "group")
    return [
        f"group {row['group']} has {row['count']} records in the offsets log: the worker that makes"
        f" its tables takes about {row['count'] * _BYTES_PER_RECORD / 1e9:.1f} GB of memory"
        for row in large.limit(_NOTED_GROUPS).collect()
    ]


def _write_by_spark(store: Store, pieces: DataFrame, tell: Tell) -> None:
    """Write each table in as few files as its rows ask for, some tables at a time."""
    pieces.persist(StorageLevel.MEMORY_AND_DISK)
    pool = ThreadPoolExecutor(_WRITERS)

    def write(table: schema.Table, count: int) -> None:
        files = max(1, math.ceil(count / ROWS_PER_SHARD))
        store.write_table(table, table_of(pieces.coalesce(files), table))

    try:
        # Counting makes them all, with all processors; what is left is to write them.
        counts: dict[str, int] = dict(pieces.groupBy("name").agg(F.sum("count")).collect())
        written = {
            table.name: pool.submit(write, table, counts.get(table.name, 0))
            for table in schema.TABLES
        }
        for name, done in written.items():
            done.result()
            tell(f"table {name}: {counts.get(name, 0)} rows")
    finally:
        # What is not begun when a table fails is not wanted any more.
        pool.shutdown(cancel_futures=True)
        pieces.unpersist()


def _with_past(store: Store, questions: Questions) -> Questions:
    """Whether the instant lies before the partitions were looked at."""
    first = store.read_bronze(schema.PARTITION_ENDS).agg(F.min("sampled_at_ms")).first()
    sampled_ms = None if first is None else first[0]
    return replace(questions, past=sampled_ms is not None and questions.at_ms < sampled_ms)


def _make_all(
    source: Source | None, store: Store, questions: Questions, groups: str | None, tell: Tell
) -> None:
    """All tables, and `coverage`; its notes are said as well."""
    make_tables(store, questions, groups, tell)
    notes = [*(source.notes() if source is not None else ()), *_undecoded(store)]
    for note in notes:
        tell(f"note: {note}")
    _write_coverage(store, source, questions, groups, notes)


def _write_coverage(
    store: Store,
    source: Source | None,
    questions: Questions,
    groups: str | None,
    notes: list[str],
) -> None:
    """Write `coverage`; without a source it is what the run that read bronze said of its own."""
    before = store.coverage_of_bronze() if source is None else None
    ends = store.read_bronze(schema.PARTITION_ENDS).agg(F.max("sampled_at_ms")).first()
    log = store.read_bronze(schema.OFFSETS_LOG).agg(F.min("log_timestamp_ms")).first()
    row = {
        "at_ms": questions.at_ms,
        "window_ms": questions.window_ms,
        "cluster_id": before["cluster_id"] if before else source and source.cluster_id,
        "input": before["input"] if before else source and source.input,
        "groups": groups,
        "first_log_ms": None if log is None else log[0],
        "read_ms": None if ends is None else ends[0],
        "notes": list(dict.fromkeys([*(before["notes"] if before else ()), *notes])),
    }
    columns = schema.COVERAGE.spark()
    rows = [tuple(row[name] for name in schema.COVERAGE.names)]
    store.write_coverage(store.spark.createDataFrame(rows, columns))


def _undecoded(store: Store) -> list[str]:
    """Records and batches of the offsets log that could not be decoded: how many, and why."""
    log = store.read_bronze(schema.OFFSETS_LOG).filter(F.col("problem").isNotNull())
    reasons = log.groupBy("problem").count().orderBy(F.desc("count"), "problem").collect()
    if not reasons:
        return []
    count = sum(row["count"] for row in reasons)
    return [
        f"{count} records or batches of the offsets log could not be decoded:",
        *(
            f"  {row['count']} x {json.dumps(row['problem'], ensure_ascii=False)}"
            for row in reasons[:_NOTED_REASONS]
        ),
    ]
