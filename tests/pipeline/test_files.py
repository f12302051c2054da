"""Files of tables that workers write, and pieces of frames."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

from pipeline import files, schema
from pipeline.files import may_have_offsets, write_no_rows, write_parts, write_rows
from pipeline.pieces import PACKED, ROWS_PER_PIECE, by_shard, cut, pack, pack_batch
from pipeline.schema.arrow import arrow_schema, polars_schema
from pipeline.store import DELTA, Store
from tests.pipeline.frames import frame
from tests.pipeline.ways import read_table

GENERATIONS, LAG = schema.GROUP_GENERATIONS, schema.LAG
DAYS = (date(2026, 11, 22), date(2026, 11, 23), None)


def test_rows_lie_in_the_folders_of_their_days(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads the files of all days and of null, and no temporary file is left."""
    rows = [{"group": f"g{number}", "day": DAYS[number % 3]} for number in range(9)]
    for shard in range(2):
        some = frame(GENERATIONS, rows[shard::2]).collect()
        for _ in range(2):  # Spark may repeat a task
            write_rows(GENERATIONS, some, tmp_path / "tables" / GENERATIONS.name, f"part-{shard}")
    assert not list(tmp_path.rglob(".*"))
    found = read_table(Store(spark, str(tmp_path)), GENERATIONS).collect()
    assert sorted(row["group"] for row in found) == [f"g{number}" for number in range(9)]
    assert {(row["group"], row["day"]) for row in found} == {tuple(one.values()) for one in rows}


@pytest.mark.parametrize("table", [GENERATIONS, LAG])
def test_a_table_without_rows_is_a_table(
    table: schema.Table, spark: SparkSession, tmp_path: Path
) -> None:
    """A table without rows gets a file with its columns only."""
    write_rows(table, frame(table).collect(), tmp_path / table.name, "part-0")
    assert not (tmp_path / table.name).exists()
    write_no_rows(table, tmp_path / "tables" / table.name)
    assert read_table(Store(spark, str(tmp_path)), table).collect() == []


def test_a_table_takes_the_place_of_the_one_before(spark: SparkSession, tmp_path: Path) -> None:
    """A new table has its own files only, without those of an interrupted run."""
    store = Store(spark, str(tmp_path / "out"))
    for groups in (["old", "older"], ["new"], []):
        folder = store.folder_for_files()
        assert folder is not None
        assert not list(folder.iterdir())
        rows = frame(LAG, [{"group": group} for group in groups]).collect()
        for number, row in enumerate(rows.iter_slices(1)):
            write_rows(LAG, row, folder / LAG.name, f"part-{number}")
        store.put_table(LAG, folder)
        assert sorted(row["group"] for row in read_table(store, LAG).collect()) == sorted(groups)
        write_rows(LAG, frame(LAG, [{"group": "stopped"}]).collect(), folder / LAG.name, "part-0")


def test_files_outside_of_some_offsets_are_left_out(tmp_path: Path) -> None:
    """The footer tells which offsets a file has, if its rows are of one partition of the log."""
    table = schema.OFFSETS_LOG
    for name, numbers in (("one", (3, 3)), ("two", (3, 4))):
        places = zip(numbers, (10, 20), strict=True)
        rows = [{"log_partition": number, "log_offset": offset} for number, offset in places]
        write_rows(table, frame(table, rows).collect(), tmp_path, name)
    nowhere: dict[int, int] = {}
    bounds = (
        (nowhere, nowhere), ({3: 20}, nowhere), ({3: 21}, nowhere), ({4: 21}, {3: 11}),
        (nowhere, {3: 10}),
    )  # fmt: skip
    found = [may_have_offsets(tmp_path / "one", start, end) for start, end in bounds]
    assert found == [True, True, False, True, False]
    assert all(may_have_offsets(tmp_path / "two", start, end) for start, end in bounds)


def test_only_spark_can_write_elsewhere(spark: SparkSession, tmp_path: Path) -> None:
    """Only Spark can write to other file systems and in Delta's format."""
    assert Store(spark, "http://127.0.0.1/lake").folder_for_files() is None
    assert Store(spark, str(tmp_path), DELTA).folder_for_files() is None
    assert Store(spark, (tmp_path / "a b").as_uri()).folder_for_files() is not None


def test_all_rows_of_a_key_come_to_one_shard() -> None:
    """All rows of a key come to one shard, from any frame and in any order, and none is lost."""
    count = 3 * ROWS_PER_PIECE + 1
    numbers = pl.DataFrame({"number": range(count)})
    rows = numbers.with_columns(group=(pl.col("number") % 100).cast(pl.String))
    rows = rows.with_columns(group=pl.when(pl.col("group") != "7").then("group"))
    key = pl.col("group")
    batches = [*cut(rows, "rows", key, 3), *cut(rows.reverse().head(500), "others", key, 3)]
    found = dict(by_shard(batches))
    assert set(found) == {0, 1, 2}
    assert pl.concat(one["rows"] for one in found.values()).sort("number").equals(rows)
    homes = [set(one["rows"]["group"]) | set(one["others"]["group"]) for one in found.values()]
    assert sum(map(len, homes)) == 100
    assert all(batch.num_rows == 1 for batch in batches)


def test_a_frame_without_rows_is_a_piece() -> None:
    """A frame without rows becomes a piece that has its columns."""
    nothing = frame(LAG).collect()
    [(shard, found)] = by_shard(pack(4, "lag", nothing))
    assert shard == 4
    assert found["lag"].schema == polars_schema(LAG)


def test_bronze_that_was_begun_is_bronze_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    """A bronze folder without a batch, as a killed run may leave it, is read as empty."""
    store = Store(spark, str(tmp_path))
    for table in (schema.OFFSETS_LOG, schema.TOPIC_RECORDS):
        assert store.bronze_files(table).collect() == []
        (tmp_path / "bronze" / table.name).mkdir(parents=True)
        assert store.bronze_files(table).collect() == []
        assert store.read_bronze(table).collect() == []


def test_rows_that_come_bit_by_bit_are_files_of_a_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frames are gathered to files of a minimum size; the last file has the rest."""
    monkeypatch.setattr(files, "ROWS_PER_FILE", 4)
    rows = frame(LAG, [{"group": f"g{number}"} for number in range(11)]).collect()
    write_parts(LAG, rows.iter_slices(3), tmp_path, "part-7")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "part-7-0.parquet",
        "part-7-1.parquet",
    ]
    first, second = (pl.read_parquet(tmp_path / f"part-7-{number}.parquet") for number in range(2))
    assert (len(first), len(second)) == (6, 5)
    assert pl.concat([first, second])["group"].equals(rows["group"])
    write_parts(LAG, [rows.clear()], tmp_path / "nothing", "part-8")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("writer", ["workers", "Spark"])
def test_packed_rows_become_bronze(
    writer: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packed rows with nested types become a batch of bronze, filtered, and only once per name."""
    store = Store(spark, str(tmp_path))
    if writer == "Spark":
        monkeypatch.setattr(store, "_empty_folder", lambda path: None)
    member = {"member_id": "m", "subscribed_topics": ["t"], "assigned": None}
    given = [
        {"log_partition": 1, "log_offset": at, "members": [member]} for at in (2**40, 7, 2**40 + 1)
    ]
    table = schema.OFFSETS_LOG
    [batch] = frame(table, given).collect().to_arrow().cast(arrow_schema(table)).to_batches()
    packed = spark.createDataFrame([tuple(pack_batch(batch).to_pylist()[0].values())], PACKED)
    wanted = pl.col("log_offset") >= 2**40
    assert store.add_packed_bronze(table, "one", packed, wanted)
    assert not store.add_packed_bronze(table, "one", packed, None)
    found = store.read_bronze(table).collect()
    assert sorted(row["log_offset"] for row in found) == [2**40, 2**40 + 1]
    for row in found:
        [told] = row["members"]
        assert (told["member_id"], told["subscribed_topics"], told["assigned"]) == (
            "m",
            ["t"],
            None,
        )
    none = wanted & (pl.col("log_partition") > 1)
    assert not store.add_packed_bronze(table, "nothing", packed, none)
    assert len(store.read_bronze(table).collect()) == 2


def test_a_batch_without_rows_adds_no_file(spark: SparkSession, tmp_path: Path) -> None:
    """A refresh of a stream without new records leaves bronze as it was."""
    store = Store(spark, str(tmp_path))
    rows = spark.createDataFrame([("t", 0, 5, 1, 9, None, None)], schema.TOPIC_RECORDS.spark())
    assert not store.add_bronze(schema.TOPIC_RECORDS, "nothing", rows.filter("offset > 5"))
    assert store.add_bronze(schema.TOPIC_RECORDS, "one", rows)
    assert not store.add_bronze(schema.TOPIC_RECORDS, "nothing", rows.filter("offset > 5"))
    assert [path.name for path in (tmp_path / "bronze").glob("*/*")] == ["batch=one"]
    assert not list((tmp_path / "staging").glob("*/*"))
