"""A run from input to tables, in batch or as a stream: bronze first, then every table.

The tables are computed from bronze alone, so equal input gives equal tables for every kind of
source.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from time import monotonic

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # no stubs
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from pipeline import schema
from pipeline.bronze import add_offsets_log, next_offsets, read_offsets_log, read_the_rest
from pipeline.inputs import EXACT, Questions
from pipeline.progress import Tell
from pipeline.shards import ROWS_PER_SHARD, make_files, make_pieces, shards_for, table_of
from pipeline.sources.source import InputError, Source, is_outage
from pipeline.store import Store

LARGE_GROUP_RECORDS = 500_000
"""A group with at least this many records gets a note, because one worker holds all of them in
memory."""

_NOTED_GROUPS = 5
_NOTED_REASONS = 5
_BYTES_PER_RECORD = 1_000
"""The memory per record of a group: three million commits of one group took 2.9 GB."""

_POLL_SECONDS = 0.2
"""How often a stream with an interval looks for a new micro-batch or the end of the interval."""

_WRITERS = 2
"""The number of tables written at the same time, so that one can use the processors while the other
is planned or committed."""


def run_batch(
    source: Source | None,
    store: Store,
    ask: Callable[[], Questions],
    groups: str | None,
    tell: Tell,
    time: str = EXACT,
) -> None:
    """Read what is new (nothing without a source), then make all tables.

    `time` is a value of `--time`.
    `ask` is called after reading, so that an instant of "now" is not before the time at which the
    partition ends were read.
    """
    if source is not None:
        read_offsets_log(source, store, tell)
        read_the_rest(source, store, tell, time, ask)
    _make_all(source, store, ask(), groups, tell)


def run_stream(
    source: Source,
    store: Store,
    ask: Callable[[], Questions],
    groups: str | None,
    tell: Tell,
    interval_seconds: float | None,
    time: str = EXACT,
) -> None:
    """Read as a stream: once up to the current end, or endlessly every `interval_seconds`.

    The tables are computed at the end of the stream; with an interval, after each micro-batch, and
    every `interval_seconds` if none arrives, because lag and ages grow without commits as well.
    `ask` returns the questions at that time, `time` is a value of `--time`.
    """

    def refresh() -> None:
        read_the_rest(source, store, tell, time, ask)
        _make_all(source, store, ask(), groups, tell)

    if interval_seconds is None:
        start_stream(source, store, None, tell).awaitTermination()
        refresh()
        return
    stored = threading.Event()
    writing = threading.Lock()
    query = start_stream(source, store, interval_seconds, tell, stored.set, writing)
    try:
        refresh_on_time(query, stored, writing, interval_seconds, refresh, tell)
    finally:
        query.stop()


def refresh_on_time(
    query: StreamingQuery,
    stored: threading.Event,
    writing: threading.Lock,
    interval_seconds: float,
    refresh: Callable[[], None],
    tell: Tell,
) -> None:
    """Call `refresh` until the query ends: when `stored` is set, and every `interval_seconds`.

    The interval begins at the end of a refresh. `writing` is held during a refresh, so that all
    tables have the same micro-batches. If the cluster does not answer, the outage is reported, and
    the next refresh is tried an interval later.
    """
    due = monotonic() + interval_seconds
    while not query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type]  # takes floats
        if not stored.is_set() and monotonic() < due:
            continue
        stored.clear()
        try:
            with writing:
                refresh()
        except (InputError, PySparkException, Py4JJavaError) as error:
            if not is_outage(error):
                raise
            tell(
                f"tables: not refreshed, the cluster does not answer: {str(error).splitlines()[0]}"
            )
        # A refresh may take longer than an interval: the stream needs time between two of them.
        due = monotonic() + interval_seconds


def start_stream(
    source: Source,
    store: Store,
    interval_seconds: float | None,
    tell: Tell,
    after_each: Callable[[], None] | None = None,
    writing: AbstractContextManager[object] = nullcontext(),  # noqa: B008 - has no state
) -> StreamingQuery:
    """Start a stream that stores each micro-batch of the offsets log as a batch of bronze.

    `writing` is held while a micro-batch is stored.
    """
    started = threading.Event()
    query: StreamingQuery | None = None

    def keep(batch: DataFrame, number: int) -> None:
        started.wait()
        assert query is not None
        # The checkpoint keeps the query id, so a replayed micro-batch has the same batch name.
        name = f"stream-{query.id}-{number}"
        with writing:
            is_new = add_offsets_log(store, name, batch, next_offsets(store))
        if is_new:
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
    """Compute every table from bronze and replace the tables of the previous run."""
    with store.new_tables():
        _make_tables(store, _with_past(store, questions), groups, tell)


def _make_tables(store: Store, questions: Questions, groups: str | None, tell: Tell) -> None:
    large = (schema.OFFSETS_LOG, schema.TOPIC_RECORDS)
    records = {table.name: store.read_bronze(table).count() for table in large}
    shards = shards_for(store.spark, sum(records.values()))
    if records[schema.OFFSETS_LOG.name] >= LARGE_GROUP_RECORDS:
        for note in _large_groups(store):
            tell(f"note: {note}")
    tell(f"tables: making them in {shards} parts")
    folder = store.folder_for_files()
    if folder is None:
        _write_by_spark(store, make_pieces(store, questions, groups, shards), tell)
        return
    counts = make_files(store, questions, groups, shards, folder)
    for table in schema.TABLES:
        store.put_table(table, folder)
        tell(f"table {table.name}: {counts.get(table.name, 0)} rows")


def _large_groups(store: Store) -> list[str]:
    """Return a note for each large group with the memory that its worker needs."""
    counts = store.read_bronze(schema.OFFSETS_LOG).groupBy("group").count()
    large = counts.filter(F.col("count") >= LARGE_GROUP_RECORDS).orderBy(F.desc("count"), "group")
    return [
        f"group {row['group']} has {row['count']} records in the offsets log: the worker that makes"
        f" its tables takes about {row['count'] * _BYTES_PER_RECORD / 1e9:.1f} GB of memory"
        for row in large.limit(_NOTED_GROUPS).collect()
    ]


def _write_by_spark(store: Store, pieces: DataFrame, tell: Tell) -> None:
    """Write several tables at a time, each into the minimum number of files."""
    pieces.persist(StorageLevel.MEMORY_AND_DISK)
    pool = ThreadPoolExecutor(_WRITERS)

    def write(table: schema.Table, count: int) -> None:
        files = max(1, math.ceil(count / ROWS_PER_SHARD))
        store.write_table(table, table_of(pieces.coalesce(files), table))

    try:
        # The count computes all tables with all processors; the threads of the pool only write.
        counts: dict[str, int] = dict(pieces.groupBy("name").agg(F.sum("count")).collect())
        written = {
            table.name: pool.submit(write, table, counts.get(table.name, 0))
            for table in schema.TABLES
        }
        for name, done in written.items():
            done.result()
            tell(f"table {name}: {counts.get(name, 0)} rows")
    finally:
        # If one table fails, cancel the tables that have not been started.
        pool.shutdown(cancel_futures=True)
        pieces.unpersist()


def sampled_ms(store: Store) -> int | None:
    """Return the time at which the partition ends in bronze were read; None without any."""
    last = store.read_bronze(schema.PARTITION_ENDS).agg(F.max("sampled_at_ms")).first()
    return None if last is None else last[0]


def _time_of(store: Store) -> str | None:
    """Return how the times in bronze are known, as `--time`; None without partition ends."""
    last = store.read_bronze(schema.PARTITION_ENDS).agg(F.max("time")).first()
    return None if last is None else last[0]


def known_ms(store: Store) -> int | None:
    """Return the time of the last data in bronze; None if bronze is empty.

    Without partition ends, as in a log directory without data topics, this is the instant of the
    run that read it, or else the time of the last record.
    """
    at_ms = sampled_ms(store)
    if at_ms is None and (before := store.coverage_of_bronze()) is not None:
        at_ms = before["at_ms"]
    if at_ms is None:
        last = store.read_bronze(schema.OFFSETS_LOG).agg(F.max("log_timestamp_ms")).first()
        at_ms = None if last is None else last[0]
    return at_ms


def _with_past(store: Store, questions: Questions) -> Questions:
    """Return `questions` with `past` and `read_ms` by the times of reading the partition ends.

    `read_ms` is for bronze of another run: a stream that stopped may have read commits since.
    """
    times = store.read_bronze(schema.PARTITION_ENDS).agg(
        F.min("sampled_at_ms"), F.max("sampled_at_ms")
    )
    first_ms, last_ms = times.first() or (None, None)
    past = first_ms is not None and questions.at_ms < first_ms
    return replace(questions, past=past, read_ms=last_ms if store.reads_other_bronze else None)


def _make_all(
    source: Source | None, store: Store, questions: Questions, groups: str | None, tell: Tell
) -> None:
    """Make all tables and `coverage`, and print the notes of the run."""
    with store.new_tables():
        asked = _with_past(store, questions)
        _make_tables(store, asked, groups, tell)
        notes = [] if source is None else source.notes()
        notes = [*notes, *_undecoded(store), *_unjudged(store, past=asked.past)]
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
    """Write `coverage`; without a source, take over what the run that read bronze recorded."""
    before = store.coverage_of_bronze() if source is None else None
    log = store.read_bronze(schema.OFFSETS_LOG).agg(F.min("log_timestamp_ms")).first()
    row = {
        "at_ms": questions.at_ms,
        "window_ms": questions.window_ms,
        "cluster_id": before["cluster_id"] if before else source and source.cluster_id,
        "input": before["input"] if before else source and source.input,
        "groups": groups,
        "first_log_ms": None if log is None else log[0],
        "read_ms": sampled_ms(store),
        "time": _time_of(store),
        "bytes_read": None if source is None else store.reads.size_bytes,
        "time_requests": None if source is None else store.reads.requests,
        "notes": list(dict.fromkeys([*(before["notes"] if before else ()), *notes])),
    }
    columns = schema.COVERAGE.spark()
    rows = [tuple(row[name] for name in schema.COVERAGE.names)]
    store.write_coverage(store.spark.createDataFrame(rows, columns))


_UNJUDGED = (
    (
        "log_end IS NULL",
        "have no known log end, so that their lag is unknown: the topic was deleted, its folder was"
        " not copied, or the right to read it is missing",
    ),
    (
        "state = 'AHEAD'",
        "end below a committed offset: the topic was created again, or the log directory is not a"
        " whole copy",
    ),
)


def _unjudged(store: Store, *, past: bool) -> list[str]:
    """Return lines on the partitions whose lag is not known, with the first names.

    For a past instant, the log end is replayed by the clocks of producers, so that it may be below
    a committed offset.
    """
    names = F.sort_array(F.collect_set(F.concat_ws("-", "topic", "partition")))
    notes = []
    for condition, reason in _UNJUDGED[:1] if past else _UNJUDGED:
        rows = store.read_table(schema.LAG).filter(condition)
        count, first = rows.agg(F.size(names), F.slice(names, 1, _NOTED_GROUPS)).first() or (0, [])
        if count:
            shown = ", ".join(first) + (" and more" if count > len(first) else "")
            notes.append(f"{count} partitions ({shown}) {reason}")
    return notes


def _undecoded(store: Store) -> list[str]:
    """Return lines on how many records and batches could not be decoded, and why."""
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
