"""A run from input to tables, in batch or as a stream: bronze first, then every table.

The tables are computed from bronze alone, so equal input gives equal tables for every kind of
source.
"""

from __future__ import annotations

import json
import math
import shutil
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
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
from pipeline.shards import (
    ROWS_PER_SHARD,
    Work,
    advance,
    make_files,
    make_pieces,
    shards_for,
    table_of,
)
from pipeline.sources.source import InputError, Source, is_outage
from pipeline.state import State, keep_state, last_state, link_commits
from pipeline.store import STATE, Store

LARGE_GROUP_RECORDS = 500_000
"""A group with at least this many records gets a note, because one worker holds all of them in
memory."""

STATE_RECORDS = 100_000
STATE_BATCHES = 32
"""The number of records or batches of bronze after the last state from which on a run makes a new
one. A run reads at most these and the state; making a state takes as long as reading it."""

STEP_RECORDS = 500_000
"""The most records of a partition of the offsets log, and so of a group, that a worker holds at
once, besides the state."""

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

    `time` is a value of `--time`. `ask` is called after reading, so that an instant of "now" is not
    before the time at which the partition ends were read.
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
    store.merge_bronze()
    state = store.state()
    if state is not None and not _is_usable(state, questions, groups):
        state = None
    makes_states = groups is None and not questions.past and store.states is not None
    new = store.read_new(state).count()
    if makes_states and new > STEP_RECORDS:
        state = _advanced(store, questions, state, tell)
        new = store.read_new(state).count()
    records = new + (0 if state is None else state.rows)
    shards = shards_for(store.spark, records + store.read_bronze(schema.TOPIC_RECORDS).count())
    if records >= LARGE_GROUP_RECORDS:
        for note in _large_groups(store, state):
            tell(f"note: {note}")
    tell(f"tables: making them in {shards} parts from {records} records of the offsets log")
    work = Work(questions, groups, shards, state)
    folder = store.folder_for_files()
    if folder is None:
        _write_by_spark(store, make_pieces(store, work), tell)
        return
    is_due = new >= STATE_RECORDS or len(store.new_batches(state)) >= STATE_BATCHES
    staging = store.staging_for(STATE) if makes_states and is_due else None
    if state is not None:
        link_commits(state, folder)
    counts = make_files(store, work, folder, staging)
    for table in schema.TABLES:
        store.put_table(table, folder)
        earlier = 0 if state is None or table != schema.OFFSET_COMMITS else state.events
        tell(f"table {table.name}: {counts.get(table.name, 0) + earlier} rows")
    if staging is not None:
        _keep(store, work, counts, staging, folder, tell)


def _advanced(store: Store, questions: Questions, state: State | None, tell: Tell) -> State | None:
    """Return a state after which no partition of the offsets log has many new records.

    A worker holds all records of a group, so many records are reduced in several steps.
    """
    for until in _steps(store, state):
        count = store.read_new(state).count() + (0 if state is None else state.rows)
        work = Work(questions, None, shards_for(store.spark, count), state, until)
        staging, folder = store.staging_for(STATE), store.staging_for(schema.OFFSET_COMMITS.name)
        assert staging is not None
        assert folder is not None
        if state is not None:
            link_commits(state, folder)
        state = _keep(store, work, advance(store, work, folder, staging), staging, folder, tell)
        shutil.rmtree(folder)
    return state


def _steps(store: Store, state: State | None) -> list[dict[int, int]]:
    """Return next offsets by partition that divide the new records; none if they are few."""
    new = store.read_new(state).groupBy("log_partition")
    most = new.count().agg(F.max("count")).first()
    steps = math.ceil(((most and most[0]) or 0) / STEP_RECORDS)
    if steps <= 1:
        return []
    shares = [step / steps for step in range(1, steps)]
    offsets = new.agg(F.percentile_approx("log_offset", shares, 10_000)).collect()
    return [{row[0]: row[1][step] for row in offsets} for step in range(len(shares))]


def _keep(
    store: Store, work: Work, counts: Mapping[str, int], staging: Path, tables: Path, tell: Tell
) -> State:
    """Keep the state whose rows are in `staging`, and return it."""
    before, states = work.state, store.states
    assert states is not None
    known = [] if before is None else before.batches
    events = 0 if before is None else before.events
    state = State(
        folder="",
        next_offsets={**next_offsets(store, before), **(work.until or {})},
        batches=store.batch_names(schema.OFFSETS_LOG) if work.until is None else known,
        rows=counts.get(schema.OFFSETS_LOG.name, 0),
        events=counts.get(schema.OFFSET_COMMITS.name, 0) + events,
        first_log_ms=_first_log_ms(store, before),
        at_ms=work.questions.at_ms,
        window_ms=work.questions.window_ms,
    )
    keep_state(states, staging, state, tables)
    tell(f"state: {state.rows} records of the offsets log")
    kept = last_state(states)
    assert kept is not None
    return kept


def _is_usable(state: State, questions: Questions, groups: str | None) -> bool:
    """Return whether tables made from the state are those made from all of bronze."""
    is_later = not questions.past and questions.at_ms >= state.at_ms
    return is_later and groups is None and questions.window_ms <= state.window_ms


def _large_groups(store: Store, state: State | None) -> list[str]:
    """Return a note for each large group with the memory that its worker needs."""
    counts = store.read_log(state).groupBy("group").count()
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
    row = {
        "at_ms": questions.at_ms,
        "window_ms": questions.window_ms,
        "cluster_id": before["cluster_id"] if before else source and source.cluster_id,
        "input": before["input"] if before else source and source.input,
        "groups": groups,
        "first_log_ms": _first_log_ms(store, store.state()),
        "read_ms": sampled_ms(store),
        "time": _time_of(store),
        "bytes_read": None if source is None else store.reads.size_bytes,
        "time_requests": None if source is None else store.reads.requests,
        "notes": list(dict.fromkeys([*(before["notes"] if before else ()), *notes])),
    }
    columns = schema.COVERAGE.spark()
    rows = [tuple(row[name] for name in schema.COVERAGE.names)]
    store.write_coverage(store.spark.createDataFrame(rows, columns))


def _first_log_ms(store: Store, state: State | None) -> int | None:
    """Return the time of the oldest record of the offsets log in bronze; None without any."""
    row = store.read_new(state).agg(F.min("log_timestamp_ms")).first()
    times = [None if row is None else row[0], None if state is None else state.first_log_ms]
    return min((time for time in times if time is not None), default=None)


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
    log = store.read_log(store.state()).filter(F.col("problem").isNotNull())
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
