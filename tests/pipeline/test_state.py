"""Runs that go on from a state give the tables of one run over the whole log, also after kills."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

from pipeline import merging, run, schema
from pipeline.files import write_rows
from pipeline.inputs import DAY_MS, MINUTE_MS, Questions
from pipeline.merging import merge_batches, replaced_batches
from pipeline.sources.segments import LogDirSource
from pipeline.state import State, keep_state, last_state
from pipeline.store import Store
from protocol.batch import Record
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from storage.checkpoints import topic_id_text
from tests.pipeline.frames import frame
from tests.pipeline.logs import START_MS, plain, write_segment
from tests.pipeline.story import METADATA_FILE
from tests.pipeline.tables.log_rows import commit
from tests.pipeline.ways import clock_at, differences, plain_rows, read_table

PLACES = (("g", 0), ("g", 1), ("h", 0))
ROOT = Path(__file__).parents[2]


def offset_record(number: int) -> Record:
    """Return a commit at minute `number`; every 17th is the removal of an offset."""
    group, partition = PLACES[number % 3]
    at_ms = START_MS + number * MINUTE_MS
    key = encode_key(OffsetCommitKey(group=group, topic="t", partition=partition))
    value = OffsetCommitValue(
        offset=number // 6, leader_epoch=0, metadata="", commit_timestamp=at_ms
    )
    return Record(number, at_ms, key, encode_value(value, 4) if number % 17 else None)


def write_log(log: Path, begin: int, end: int, topic_id: int) -> int:
    """Write commits, and a topic that is new if its id is new; return the time of the end."""
    write_segment(log, [plain([offset_record(number) for number in range(begin, end)])], begin)
    written = [Record(at, START_MS + at * 3 * MINUTE_MS, b"k", b"v") for at in range(end // 3)]
    path = write_segment(log, [plain(written)], topic="t")
    path.with_name(METADATA_FILE).write_text(
        f"version: 0\ntopic_id: {topic_id_text(bytes([topic_id] * 16))}\n"
    )
    return START_MS + end * MINUTE_MS


def tables(store: Store) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of all tables and of `coverage`, without the bytes that a run has read."""
    made = {table.name: plain_rows(read_table(store, table), table) for table in schema.TABLES}
    coverage = plain_rows(read_table(store, schema.COVERAGE), schema.COVERAGE)
    return made | {"coverage": [{**row, "bytes_read": None} for row in coverage]}


def dies(*_: object) -> None:
    """End as a killed process does."""
    raise KeyboardInterrupt


def test_increments_give_the_tables_of_one_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables of the last run are those of one run, also with a kill and a new topic.

    The first run makes its state in two steps, the third one merges batches.
    """
    log, said = tmp_path / "log", list[str]()
    out, whole = Store(spark, str(tmp_path / "out")), Store(spark, str(tmp_path / "whole"))

    def make(store: Store, at_ms: int) -> None:
        def ask() -> Questions:
            return Questions(at_ms, window_ms=20 * MINUTE_MS)

        with clock_at(at_ms):
            run.run_batch(LogDirSource(spark, str(log)), store, ask, None, said.append)

    with monkeypatch.context() as patch:
        patch.setattr(run, "STATE_RECORDS", 1)
        patch.setattr(run, "STEP_RECORDS", 89)
        patch.setattr(merging, "BATCHES_LEAST", 2)
        make(out, write_log(log, 0, 90, 1))
        assert len([line for line in said if line.startswith("state: ")]) == 2
        patch.setattr(run, "STEP_RECORDS", 1000)
        make(out, write_log(log, 90, 180, 1))
        at_ms = write_log(log, 180, 240, 2)
        with monkeypatch.context() as killed:
            killed.setattr(run, "keep_state", dies)
            with pytest.raises(KeyboardInterrupt):
                make(out, at_ms)
        said.clear()
        make(out, at_ms + MINUTE_MS)
    read = [line for line in said if "from" in line and "records of the offsets log" in line]
    assert len(read) == 1
    assert int(read[0].split()[-6]) < 120
    make(whole, at_ms + MINUTE_MS)
    assert whole.state() is None
    wanted = tables(whole)
    for name, rows in tables(out).items():
        assert differences(rows, wanted[name]) == [], name
    assert len(list((tmp_path / "out" / "state").iterdir())) == 1


def test_a_past_instant_and_some_groups_are_made_from_all_of_bronze() -> None:
    """A state serves later instants and windows that are not longer, for all groups."""
    state = State("", {}, [], 0, 0, None, at_ms=1000, window_ms=100)
    questions = Questions(1000, window_ms=100)
    assert run._is_usable(state, questions, None)
    assert run._is_usable(state, Questions(2000, window_ms=50), None)
    assert not run._is_usable(state, questions, "g")
    assert not run._is_usable(state, Questions(999, window_ms=100), None)
    assert not run._is_usable(state, Questions(1000, window_ms=101), None)
    assert not run._is_usable(state, Questions(1000, past=True, window_ms=100), None)


KILLED = """
import os, signal, sys
from pathlib import Path

what, left, out, arguments = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:]
changes = ("os.rename", "os.link", "os.remove", "os.rmdir", "os.mkdir")

def kill(event, given):
    global left
    is_change = event in changes or (event == "open" and given[2] & os.O_ACCMODE)
    if is_change and str(given[0]).startswith(str(out)):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

if what == "keep":
    from pipeline.state import State, keep_state
    state = State("", {0: 9}, ["batch=1"], 2, 3, None, 7, 8)
    sys.addaudithook(kill)
    keep_state(out / "state", out / "staging", state, out / "tables")
elif what == "run":
    from pipeline import merging, run
    from pipeline.command import main
    run.STATE_RECORDS, run.STEP_RECORDS, merging.BATCHES_LEAST = 1, 50, 2
    sys.addaudithook(kill)
    sys.exit(main(arguments))
else:
    from pipeline import merging, schema
    merging.BATCHES_LEAST = 3
    sys.addaudithook(kill)
    merging.merge_batches(out / "bronze", out / "staging", schema.OFFSETS_LOG)
"""
"""Keeps a second state, merges batches or runs the pipeline. It is killed before the n-th change of
a file below `out`."""


def killed_at(what: str, step: int, out: Path, *arguments: str) -> bool:
    """Run `KILLED` and return whether it was killed before its change `step` of a file."""
    command = [sys.executable, "-c", KILLED, what, str(step), str(out), *arguments]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    assert code in (0, -9)
    return code != 0


def test_a_state_that_cannot_be_read_is_none(spark: SparkSession, tmp_path: Path) -> None:
    """A damaged state, one of another release, and one whose bronze was removed are not used."""
    store = Store(spark, str(tmp_path))
    staging, made = tmp_path / "staging", tmp_path / "tables"
    staging.mkdir()
    keep_state(tmp_path / "state", staging, State("", {0: 5}, [], 1, 1, None, 7, 8), made)
    assert store.state() is None
    (tmp_path / "bronze" / schema.OFFSETS_LOG.name).mkdir(parents=True)
    state = store.state()
    assert state is not None
    assert state.next_offsets == {0: 5}
    file = Path(state.folder) / "_state.json"
    for text in ('{"format": 0}', '{"form'):
        file.write_text(text)
        assert store.state() is None


def test_a_kill_between_any_two_steps_leaves_a_whole_state(tmp_path: Path) -> None:
    """After a kill, the last state is the one before or the new one, each with all its files."""
    states, staging, made = (tmp_path / name for name in ("state", "staging", "tables"))

    def prepare(number: int) -> None:
        for folder, table in ((staging, schema.OFFSETS_LOG), (made, schema.OFFSET_COMMITS)):
            rows = frame(table, [{"group": "g"}]).collect()
            write_rows(table, rows, folder / table.name, "part-0.parquet")
        assert number == len(list((made / "offset_commits").rglob("part-*")))

    prepare(1)
    keep_state(states, staging, State("", {0: 5}, [], 1, 1, None, 7, 8), made)
    seen = set()
    for step in range(99):
        prepare(1)
        is_killed = killed_at("keep", step, tmp_path)
        state = last_state(states)
        assert state is not None
        seen.add(state.next_offsets[0])
        folder = Path(state.folder)
        assert len(list((folder / "offsets_log").iterdir())) == 1
        assert len(list((folder / "offset_commits").rglob("settled*"))) == 1
        if not is_killed:
            break
        for left in staging.rglob("settled*"):
            left.unlink()
    assert seen == {5, 9}
    assert len(list(states.iterdir())) == 1


@pytest.mark.nightly
def test_a_kill_while_batches_are_merged_neither_loses_nor_doubles_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any time, the batches that count have each record once."""
    bronze = tmp_path / "bronze"
    for number in range(5):
        rows = frame(schema.OFFSETS_LOG, [commit("g", 1, number, "t-0", number)]).collect()
        write_rows(schema.OFFSETS_LOG, rows, bronze / f"batch={number}", "part.parquet")

    def offsets() -> list[int]:
        away = replaced_batches(bronze)
        batches = [batch for batch in bronze.glob("batch=*") if batch.name not in away]
        files = [file for batch in batches for file in batch.rglob("*.parquet")]
        return sorted(pl.concat(map(pl.read_parquet, files))["log_offset"])

    for step in range(99):
        is_killed = killed_at("merge", step, tmp_path)
        assert offsets() == [0, 1, 2, 3, 4]
        if not is_killed:
            break
    assert replaced_batches(bronze) == {f"batch={number}" for number in range(5)}
    monkeypatch.setattr(merging, "_KEPT_SECONDS", -1)
    merge_batches(bronze, tmp_path / "staging", schema.OFFSETS_LOG)
    assert offsets() == [0, 1, 2, 3, 4]
    assert len(list(bronze.iterdir())) == 1


@pytest.mark.nightly
def test_runs_that_are_killed_give_the_tables_of_one_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Runs that are killed before their 6th, 36th and later changes do not change the tables.

    The instant lies in the future, and the window begins in the middle of the log.
    """
    log, out, whole = (tmp_path / name for name in ("log", "out", "whole"))
    at_ms = START_MS + 20 * 365 * DAY_MS
    window_ms = at_ms - START_MS - 100 * MINUTE_MS

    def arguments(place: Path) -> list[str]:
        paths = ["--log-dir", str(log), "--out", str(place)]
        return ["run", *paths, "--at", str(at_ms), "--window", f"{window_ms}ms"]

    write_log(log, 0, 120, 1)
    assert not killed_at("run", 10_000, out, *arguments(out))
    write_log(log, 120, 240, 2)
    step = 5
    while killed_at("run", step, out, *arguments(out)):
        step += 30
    assert step > 5
    assert Store(spark, str(out)).state() is not None
    assert not killed_at("run", 10_000, whole, *arguments(whole))
    wanted = tables(Store(spark, str(whole)))
    for name, rows in tables(Store(spark, str(out))).items():
        if name != "coverage":
            assert differences(rows, wanted[name]) == [], name
