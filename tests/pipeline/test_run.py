"""Failures, notes and coverage of runs."""

from __future__ import annotations

import os
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import cast

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # no stubs
from pyspark.errors import AnalysisException, SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pipeline import run, schema
from pipeline.bronze import claim_for, cluster_of
from pipeline.command import main
from pipeline.progress import silent
from pipeline.report.reading import Output
from pipeline.sources.admin import ClusterError
from pipeline.sources.segments import LogDirSource
from pipeline.sources.source import InputError
from pipeline.store import DELTA, PARQUET, Store
from protocol.batch import Record
from tests.pipeline.logs import START_MS, plain, write_segment
from tests.pipeline.logs import commits as log_commits
from tests.pipeline.report.scene import commits, write
from tests.pipeline.story import AT_MS
from tests.pipeline.tables.log_rows import commit
from tests.pipeline.ways import plain_rows, questions, read_table
from tests.support import wait_for


class _FullStore(Store):
    """A store whose first table fails with a full disk; writing the others takes some time."""

    written: list[str]

    def folder_for_files(self) -> None:
        """Return None, so that Spark writes the tables."""

    def write_table(self, table: schema.Table, frame: DataFrame) -> None:
        """Fail for the first table; record the names of the others."""
        if table == schema.TABLES[0]:
            raise OSError("No space left on device")
        time.sleep(0.2)
        self.written.append(table.name)


def test_a_table_that_fails_ends_the_run(spark: SparkSession, tmp_path: Path) -> None:
    """If a table fails, the run raises its error and starts no further tables."""
    store = _FullStore(spark, str(tmp_path))
    store.written = []
    with pytest.raises(OSError, match="No space left"):
        run.make_tables(store, questions(AT_MS), None, silent)
    assert len(store.written) < len(schema.TABLES) // 2


def test_the_memory_for_a_large_group_is_told_first(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note on a large group, with the memory of its worker, precedes the making of tables."""
    write(tmp_path, "bronze", schema.OFFSETS_LOG, commits("big", "t", 9, 0, range(4)))
    monkeypatch.setattr(run, "LARGE_GROUP_RECORDS", 4)
    monkeypatch.setattr(run, "_BYTES_PER_RECORD", 1_000_000_000)
    monkeypatch.setattr(run, "make_files", lambda *_: {})
    said: list[str] = []
    run.make_tables(Store(spark, str(tmp_path)), questions(), None, said.append)
    assert said[0] == (
        "note: group big has 4 records in the offsets log: the worker that makes its tables takes"
        " about 4.0 GB of memory"
    )
    assert said[1].startswith("tables: making them")


@pytest.mark.nightly
def test_coverage_says_what_a_run_saw(spark: SparkSession, tmp_path: Path) -> None:
    """`coverage` has cluster, input and damage; a run on the bronze of this run repeats them."""
    log = tmp_path / "log"
    write_segment(log, [plain(log_commits(0, 2)), b"no batch, for " + bytes(99)])
    (log / "meta.properties").write_text("version=1\ncluster.id=AbC\nnode.id=1\n")
    store = Store(spark, str(tmp_path / "out"))
    source = LogDirSource(spark, str(log))
    run.run_batch(source, store, lambda: questions(AT_MS), "g", silent)
    (row,) = plain_rows(read_table(store, schema.COVERAGE), schema.COVERAGE)
    assert (row["at_ms"], row["cluster_id"], row["input"]) == (AT_MS, "AbC", str(log))
    assert (row["groups"], row["first_log_ms"]) == ("g", START_MS)
    assert row["notes"] == [
        "__consumer_offsets-0: a torn tail of 113 bytes was left out",
        "1 partitions (t-0) have no known log end, so that their lag is unknown: the topic was"
        " deleted, its folder was not copied, or the right to read it is missing",
    ]
    again = Store(spark, str(tmp_path / "again"))
    again.use_bronze_of(store)
    run.run_batch(None, again, lambda: questions(AT_MS + 1), None, silent)
    (copied,) = plain_rows(read_table(again, schema.COVERAGE), schema.COVERAGE)
    assert copied == {**row, "at_ms": AT_MS + 1, "groups": None}
    assert LogDirSource(spark, str(without_meta(tmp_path))).cluster_id is None


def without_meta(folder: Path) -> Path:
    """Return a folder with partitions but without meta.properties."""
    write_segment(folder / "copied", [plain(log_commits(0, 2))])
    return folder / "copied"


class _Query:
    """A query that ends after some polls and stores a micro-batch before the first one."""

    def __init__(self, polls: int, stored: threading.Event) -> None:
        self._left = polls
        stored.set()

    def awaitTermination(self, _: float) -> bool:  # noqa: N802 - as in Spark
        """Return whether the query has ended."""
        self._left -= 1
        return self._left < 0


@pytest.mark.parametrize(("interval", "refreshes"), [(0.0, 3), (60.0, 1)])
def test_tables_are_refreshed_on_time_without_commits(interval: float, refreshes: int) -> None:
    """Tables are refreshed after a micro-batch, and after each interval without one.

    An outage of the cluster does not end the stream, but another error does.
    """
    stored, writing = threading.Event(), threading.Lock()
    said: list[str] = []
    errors: list[Exception] = [
        ClusterError("b:1", "TimeoutException", "Call(callName=fetchMetadata) timed out")
    ]
    count = 0

    def refresh() -> None:
        nonlocal count
        count += 1
        assert writing.locked()
        if errors:
            raise errors.pop()

    def watch() -> None:
        query = cast("StreamingQuery", _Query(3, stored))
        run.refresh_on_time(query, stored, writing, interval, refresh, said.append)

    watch()
    assert count == refreshes
    assert said == [
        "tables: not refreshed, the cluster does not answer: --bootstrap-server b:1:"
        " Call(callName=fetchMetadata) timed out"
    ]
    errors.append(ClusterError("b:1", "TopicAuthorizationException", "Not authorized"))
    with pytest.raises(ClusterError, match="Not authorized"):
        watch()


def test_a_slow_refresh_is_not_followed_by_another_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interval begins at the end of a refresh, else a slow one would leave no time to read."""
    now = [100.0]
    monkeypatch.setattr(run, "monotonic", lambda: now[0])
    ended: list[float] = []

    def refresh() -> None:
        now[0] += 50
        ended.append(now[0])

    stored = threading.Event()
    query = cast("StreamingQuery", _Query(3, stored))
    run.refresh_on_time(query, stored, threading.Lock(), 30, refresh, silent)
    assert ended == [150]


@pytest.mark.nightly
@pytest.mark.real_time
def test_a_stream_sees_lag_without_commits(spark: SparkSession, tmp_path: Path) -> None:
    """Records that no consumer reads raise the lag in the tables of a running stream."""
    log, store = tmp_path / "log", Store(spark, str(tmp_path / "out"))
    write_segment(log, [plain(log_commits(0, 3))])
    write_segment(log, [plain([Record(0, START_MS, None, b"v")])], topic="t")

    def lag_is(lag: int) -> bool:
        try:
            return [row["lag"] for row in read_table(store, schema.LAG).collect()] == [lag]
        except (AnalysisException, SparkRuntimeException, Py4JJavaError):
            return False  # there is no table yet, or it is being replaced

    def stream() -> None:
        source = LogDirSource(spark, str(log))
        run.run_stream(source, store, questions, None, silent, 1.0)

    thread = threading.Thread(target=stream, daemon=True)
    thread.start()
    try:
        wait_for(lambda: lag_is(0), "the tables are made", 120, 0.2)
        more = plain([Record(offset, START_MS, None, b"v") for offset in range(1, 842)])
        write_segment(log, [more], 1, topic="t")
        wait_for(lambda: lag_is(840), "the lag is that of the new records", 60, 0.2)
    finally:
        for query in spark.streams.active:
            query.stop()
        thread.join()


def write_bronze(folder: Path, *, sampled_ms: int) -> None:
    """Write bronze of a group that had read all but the last record, a second before."""
    records = [
        {"topic": "t", "partition": 0, "offset": offset, "timestamp_ms": sampled_ms - 1000}
        for offset in range(3)
    ]
    end = {"topic": "t", "partition": 0, "log_start": 0, "log_end": 3, "sampled_at_ms": sampled_ms}
    log = [commit("g", sampled_ms - 2000 + offset, offset, "t-0", offset) for offset in range(3)]
    write(folder, "bronze", schema.OFFSETS_LOG, log)
    write(folder, "bronze", schema.TOPIC_RECORDS, records)
    write(folder, "bronze", schema.PARTITION_ENDS, [end])


@pytest.mark.nightly
def test_old_bronze_is_judged_as_of_its_sample(spark: SparkSession, tmp_path: Path) -> None:
    """Without `--at`, a run on bronze is about the time at which its log ends were read."""
    write_bronze(tmp_path, sampled_ms=AT_MS)
    out = tmp_path / "out"
    assert main(["run", "--parquet", str(tmp_path), "--out", str(out)]) == 0
    output = Output(out)
    assert {(row["status"], row["lag"]) for row in output.rows(schema.STATUS)} == {("OK", 1)}
    assert output.at_ms == AT_MS
    (row,) = output.rows(schema.LAG)
    assert row["oldest_unread_age_ms"] == 1000


def test_the_time_of_bronze_without_log_ends(spark: SparkSession, tmp_path: Path) -> None:
    """Without data topics, old bronze is judged as of its run, or else of its last record."""
    store = Store(spark, str(tmp_path / "out"))
    store.use_bronze_of(Store(spark, str(tmp_path)))
    assert run.known_ms(store) is None
    write(tmp_path, "bronze", schema.OFFSETS_LOG, [commit("g", AT_MS - 9, 1, "t-0", 5)])
    assert run.known_ms(store) == AT_MS - 9
    write(tmp_path, "tables", schema.COVERAGE, [{"at_ms": AT_MS}])
    assert run.known_ms(store) == AT_MS
    end = {"topic": "t", "partition": 0, "sampled_at_ms": AT_MS + 9}
    write(tmp_path, "bronze", schema.PARTITION_ENDS, [end])
    assert run.known_ms(store) == AT_MS + 9


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("first", "second", "is_refused"),
    [
        (("A", "in"), ("A", "moved"), False),
        (("A", "in"), ("B", "in"), True),
        (("A", "in"), (None, "in"), True),
        ((None, "in"), ("A", "in"), True),
        ((None, "in"), (None, "in"), False),
        ((None, "in"), (None, "moved"), True),
    ],
)
def test_an_output_is_for_one_cluster(
    first: tuple[str | None, str],
    second: tuple[str | None, str],
    is_refused: bool,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    """Bronze of one cluster does not take records of another one, nor of one without an id."""
    store = Store(spark, str(tmp_path))
    claim_for(store, *first)
    with pytest.raises(InputError, match="name another --out") if is_refused else nullcontext():
        claim_for(store, *second)
    assert cluster_of(store) == (first if is_refused else second)


def test_the_file_with_the_cluster_is_written_once_and_may_be_damaged(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill does not damage the file, and a damaged file is an error that says what to do."""
    store, file = Store(spark, str(tmp_path)), tmp_path / "bronze" / "_cluster.json"
    claim_for(store, "A", "in")
    with monkeypatch.context() as patch:
        patch.setattr(store, "write_text", dies)
        claim_for(store, "A", "in")
        patch.undo()
        patch.setattr(store, "_delete", dies)
        with pytest.raises(KeyboardInterrupt):
            claim_for(store, "A", "moved")
    assert cluster_of(store) == ("A", "in")
    claim_for(store, "A", "moved")
    assert cluster_of(store) == ("A", "moved")
    checksum = file.with_name(f".{file.name}.crc")
    assert checksum.exists()
    for text in ("", "nonsense", "7", '["A"]'):
        for is_checked in (True, False):
            file.write_text(text)
            if not is_checked:
                checksum.unlink(missing_ok=True)
            with pytest.raises(InputError, match=r"_cluster\.json is damaged: delete it"):
                claim_for(store, "A", "in")
    file.unlink()
    claim_for(store, "A", "in")
    assert cluster_of(store) == ("A", "in")


@pytest.mark.nightly
def test_the_command_checks_the_cluster(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log directory of another cluster is refused, also if `--out` is of an older release."""
    log, out = tmp_path / "log", tmp_path / "out"
    write_segment(log, [plain(log_commits(0, 2))])
    write(out, "bronze", schema.OFFSETS_LOG, [])
    write(out, "tables", schema.COVERAGE, [{"cluster_id": "A", "input": "b:1"}])
    (log / "meta.properties").write_text("cluster.id=B\n")
    assert main(["run", "--log-dir", str(log), "--out", str(out)]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith(
        f"--out {out}: its bronze is of cluster A (b:1), and this input is of cluster B"
        f" ({log}): name another --out"
    )


@pytest.mark.nightly
def test_a_run_that_dies_leaves_the_tables_of_the_run_before(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables change all at once, and a reader that has opened them keeps its set for a run more."""
    write_bronze(tmp_path / "before", sampled_ms=AT_MS)
    store = Store(spark, str(tmp_path / "out"))
    store.use_bronze_of(Store(spark, str(tmp_path / "before")))

    def instants(output: Output) -> set[int]:
        rows = [row for table in (schema.LAG, schema.COVERAGE) for row in output.rows(table)]
        assert output.rows(schema.STATUS)
        return {row["at_ms"] for row in rows}

    def run_at(at_ms: int) -> None:
        run.run_batch(None, store, lambda: questions(at_ms), None, silent)

    run_at(AT_MS)
    opened = Output(tmp_path / "out")
    for name in ("put_table", "write_coverage", "write_text", "_point_to"):
        with monkeypatch.context() as patch:
            patch.setattr(store, name, dies)
            with pytest.raises(KeyboardInterrupt):
                run_at(AT_MS + 1)
        assert instants(Output(tmp_path / "out")) == {AT_MS}
    run_at(AT_MS + 2)
    assert instants(opened) == {AT_MS}
    assert instants(Output(tmp_path / "out")) == {AT_MS + 2}
    assert [row["at_ms"] for row in store.read_table(schema.LAG).collect()] == [AT_MS + 2]
    run_at(AT_MS + 3)


def test_versions_are_kept_for_ten_minutes(spark: SparkSession, tmp_path: Path) -> None:
    """A version goes ten minutes after it was replaced, and that of a killed run at once."""
    store = Store(spark, str(tmp_path))

    def make(minutes: float, killed: bool = False) -> list[int]:
        """Make a version, with all earlier ones older by `minutes`; return those that are kept."""
        for mark in tmp_path.glob("versions/*/_complete"):
            aged = mark.stat().st_mtime - 60 * minutes
            os.utime(mark, (aged, aged))
        with pytest.raises(KeyboardInterrupt) if killed else nullcontext(), store.new_tables():
            (tmp_path / "versions" / store.tables.rpartition("/")[2]).mkdir(parents=True)
            if killed:
                raise KeyboardInterrupt
        return sorted(int(path.name) for path in (tmp_path / "versions").iterdir())

    assert [make(0), make(0), make(0, killed=True)] == [[1], [1, 2], [1, 2, 3]]
    assert make(9) == [1, 2, 4]
    assert make(2) == [2, 4, 5]
    assert make(60) == [5, 6]


def dies(*_: object) -> None:
    """End as a killed process does."""
    raise KeyboardInterrupt


@pytest.mark.nightly
def test_a_bronze_table_that_is_replaced_is_never_lost(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that dies while it replaces a bronze table leaves the old rows or the new ones."""
    store = Store(spark, str(tmp_path))

    def put(offset: int) -> None:
        store.add_bronze_rows(schema.SPARK_PROGRESS, [("q", None, "t", 0, offset, offset, AT_MS)])

    def offsets() -> list[int]:
        return sorted(row["batch_id"] for row in store.read_bronze(schema.SPARK_PROGRESS).collect())

    put(1)
    for name, kept in (("_rename", [1]), ("_delete", [1, 2])):
        with monkeypatch.context() as patch:
            patch.setattr(store, name, dies)
            with pytest.raises(KeyboardInterrupt):
                put(2)
        assert offsets() == kept
    put(3)
    assert offsets() == [1, 2, 3]
    assert len(list((tmp_path / "bronze" / "spark_progress").glob("batch=*"))) == 1


def test_names_that_are_no_numbers_are_ignored(spark: SparkSession, tmp_path: Path) -> None:
    """A desktop's file and the link of a killed run do not end a run; the link is removed."""
    store = Store(spark, str(tmp_path))
    ends = spark.createDataFrame([], schema.PARTITION_ENDS.spark())
    for _ in range(2):
        store.replace_bronze(schema.PARTITION_ENDS, ends)
        with store.new_tables():
            (tmp_path / "versions").mkdir(exist_ok=True)
        for folder in ("versions", "versions/zzz", "bronze/partition_ends"):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / ".DS_Store").touch()
        (tmp_path / "versions" / "zzz" / "_complete").touch()
        (tmp_path / ".tables.000000000009").symlink_to("versions/000000000009")
    assert store.read_bronze(schema.PARTITION_ENDS).collect() == []
    with store.new_tables():
        pass
    assert not list(tmp_path.glob(".tables.*"))
    assert (tmp_path / "tables").readlink().name == "000000000003"
    assert (tmp_path / "versions" / "zzz").exists()
    (tmp_path / "tables").unlink()
    assert store.tables.endswith("000000000003")


def test_an_output_has_one_format(spark: SparkSession, tmp_path: Path) -> None:
    """Tables of one format are not replaced by those of the other one."""
    places = {name: str(tmp_path / name) for name in ("new", "parquet", "old", "delta")}
    with Store(spark, places["parquet"]).new_tables():
        pass
    write(tmp_path / "old", "tables", schema.LAG, [])
    (tmp_path / "delta" / "tables" / "status" / "_delta_log").mkdir(parents=True)
    refused = {("parquet", DELTA), ("old", DELTA), ("delta", PARQUET)}
    for name, place in places.items():
        for table_format in (PARQUET, DELTA):
            store = Store(spark, place, table_format)
            is_refused = (name, table_format) in refused
            said = pytest.raises(InputError, match="another --out")
            with said if is_refused else nullcontext():
                store.check_format()


def test_old_tables_are_removed_where_there_are_no_links(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On an object store, the folder `tables` of an older release does not stay."""
    write(tmp_path, "tables", schema.LAG, [])
    store = Store(spark, str(tmp_path))
    monkeypatch.setattr(store, "_local", lambda _: None)
    with store.new_tables():
        assert (tmp_path / "tables").exists()
    assert not (tmp_path / "tables").exists()
    assert store.tables.endswith("versions/000000000001")


@pytest.mark.parametrize(("past", "count"), [(False, 2), (True, 1)])
def test_a_past_instant_has_no_note_on_commits_above_the_log_end(
    past: bool, count: int, spark: SparkSession, tmp_path: Path
) -> None:
    """Late clocks of producers put a replayed log end below a commit, which is no fault."""
    place = {"group": "g", "partition": 0, "source": "group"}
    lags = [{**place, "topic": "t", "state": "AHEAD", "log_end": 3},
            {**place, "topic": "gone", "state": "NO_TOPIC"}]  # fmt: skip
    write(tmp_path, "tables", schema.LAG, lags)
    notes = run._unjudged(Store(spark, str(tmp_path)), past=past)
    assert len(notes) == count
    assert notes[0].startswith("1 partitions (gone-0) have no known log end")
