"""Bronze has every record once, even if the log is read several times or in different ways.

Tables are made from bronze alone, so equal bronze means equal tables.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipeline import schema
from pipeline.bronze import _known_records, read_offsets_log, read_the_rest
from pipeline.inputs import EXACT, NO_TIMES, SAMPLED, Questions
from pipeline.progress import silent
from pipeline.sources.segments import LogDirSource
from pipeline.sources.source import PartitionOffsets
from pipeline.store import Store
from protocol.batch import Record
from storage.checkpoints import topic_id_text
from tests.pipeline.logs import START_MS, commits, plain, write_segment
from tests.pipeline.report.scene import write
from tests.pipeline.story import METADATA_FILE

SEGMENTS = Path(__file__).parents[1] / "data" / "segments"
Row = tuple[Any, ...]


def rows(store: Store, table: schema.Table = schema.OFFSETS_LOG) -> list[Row]:
    """Return all rows of a bronze table in key order."""
    found = [row.asDict(recursive=True) for row in store.read_bronze(table).collect()]
    found.sort(key=lambda row: tuple(row[name] for name in table.key))
    return [tuple(row.values()) for row in found]


def batch_of(spark: SparkSession, log_dir: Path, out: Path) -> Store:
    """Return a store with the bronze of a batch run on the offsets log."""
    store = Store(spark, str(out))
    read_offsets_log(LogDirSource(spark, str(log_dir)), store, silent)
    return store


def test_the_segments_of_a_real_kafka_give_the_offsets_that_kafka_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The last commit of each group and partition is the offset that Kafka's own tool listed."""
    store = batch_of(spark, SEGMENTS, tmp_path)
    held: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows(store):
        said = dict(zip(schema.OFFSETS_LOG.names, row, strict=True))
        assert said["problem"] is None
        if said["kind"] == "offset_commit":
            key = said["group"], f"{said['topic']}-{said['partition']}"
            held.pop(key, None)
            if not said["tombstone"]:
                epoch = -1 if said["leader_epoch"] is None else said["leader_epoch"]
                held[key] = {
                    "offset": said["committed_offset"],
                    "metadata": said["metadata"],
                    "leader_epoch": epoch,
                }
    expected = json.loads((SEGMENTS / "expected.json").read_text())
    wanted = {
        (group, place): offset
        for group, told in expected.items()
        for place, offset in told["offsets"].items()
    }
    assert held == wanted


@pytest.mark.nightly
def test_damage_is_counted_and_shown_and_the_run_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A flipped byte, an unknown version and a torn tail do not stop a run, and are reported.

    The same holds for a data topic.
    """
    future = commits(6, 1)[0]
    assert future.value is not None
    future = Record(6, future.timestamp_ms, future.key, b"\x00\x09" + future.value[2:])
    batches = [plain(commits(0, 3)), plain(commits(3, 3)), plain([future]), plain(commits(7, 2))]
    damaged = bytearray(b"".join(batches))
    damaged[len(batches[0]) + 70] ^= 1
    write_segment(tmp_path / "log", [bytes(damaged), plain(commits(9, 2))[:50]])
    data = bytearray(plain(commits(0, 2)) + plain(commits(2, 2)) + plain(commits(4, 1)))
    data[len(plain(commits(0, 2))) + 70] ^= 1
    write_segment(tmp_path / "log", [bytes(data)], topic="t")
    source = LogDirSource(spark, str(tmp_path / "log"))
    store = Store(spark, str(tmp_path / "out"))
    read_offsets_log(source, store, silent)
    read_the_rest(source, store, silent)
    kept = store.read_bronze(schema.OFFSETS_LOG).orderBy("log_offset")
    told = [(row["log_offset"], row["problem"], row["tombstone"]) for row in kept.collect()]
    assert [one[0] for one in told] == [0, 1, 2, 3, 6, 7, 8]
    assert "CRC is" in told[3][1]
    assert told[3][2] is None
    assert told[4][1] == "value version 9 of an offset commit is not known"
    assert [one[1] for one in told if one[0] not in (3, 6)] == [None] * 5
    topic = [(row[2], row[4]) for row in rows(store, schema.TOPIC_RECORDS)]
    assert [offset for offset, _ in topic] == [0, 1, 4]
    ends = rows(store, schema.PARTITION_ENDS)
    assert [(row[0], row[2], row[3], row[7]) for row in ends] == [("t", 0, 5, "log")]
    notes = source.notes()
    assert any("torn tail of 50 bytes" in note for note in notes)
    assert any("1 damaged batches in topics" in note and "t-0" in note for note in notes)
    read_the_rest(source, store, silent)
    assert [(row[2], row[4]) for row in rows(store, schema.TOPIC_RECORDS)] == topic


@pytest.mark.nightly
def test_a_topic_that_was_created_again_is_read_from_its_beginning(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A recreated topic is read from its beginning into an existing `--out`, also if it is shorter.

    A log without a topic id that became shorter counts as truncated: only records after its former
    end are read.
    """
    log, store = tmp_path / "log", Store(spark, str(tmp_path / "out"))
    write_segment(log, [plain(commits(0, 3))])

    def kept(count: int, topic_id: bytes | None) -> list[tuple[str, int]]:
        path = write_segment(log, [plain(commits(0, count))], topic="t")
        metadata = path.with_name(METADATA_FILE)
        metadata.unlink(missing_ok=True)
        if topic_id is not None:
            metadata.write_text(f"version: 0\ntopic_id: {topic_id_text(topic_id)}\n")
        read_the_rest(LogDirSource(spark, str(log)), store, silent)
        found = store.read_bronze(schema.TOPIC_RECORDS).groupBy("topic_id").count().collect()
        return sorted((row["topic_id"] or "", row["count"]) for row in found)

    read_offsets_log(LogDirSource(spark, str(log)), store, silent)
    old, new = bytes([1] * 16), bytes([2] * 16)
    assert kept(50, old) == [(topic_id_text(old), 50)]
    assert kept(50, old) == [(topic_id_text(old), 50)]
    assert kept(12, new) == [(topic_id_text(old), 50), (topic_id_text(new), 12)]
    assert kept(14, new) == [(topic_id_text(old), 50), (topic_id_text(new), 14)]
    assert kept(9, new) == [(topic_id_text(old), 50), (topic_id_text(new), 14)]


def test_records_of_older_releases_do_not_hide_those_of_a_new_topic(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Reading goes on after the records with the current id, else after those without an id."""
    store = Store(spark, str(tmp_path))
    ends = [("own", "NEW", 700), ("upgraded", "NEW", 700), ("shorter", "NEW", 120),
            ("cut", None, 400), ("other", "NEW", 700)]  # fmt: skip
    reached = [("own", None, 500), ("own", "NEW", 450), ("upgraded", None, 500),
               ("shorter", None, 500), ("cut", None, 500), ("other", "OLD", 500)]  # fmt: skip
    records = [
        {"topic": topic, "partition": 0, "offset": count - 1, "topic_id": topic_id}
        for topic, topic_id, count in reached
    ]
    write(tmp_path, "bronze", schema.TOPIC_RECORDS, records)
    rows = [(topic, 0, log_end, topic_id) for topic, topic_id, log_end in ends]
    columns = "topic string, partition int, log_end bigint, current_id string"
    found = _known_records(store, spark.createDataFrame(rows, columns)).collect()
    starts = {row["topic"]: row["next"] for row in found}
    assert starts == {"own": 450, "upgraded": 500, "cut": 400}


class _Dying(LogDirSource):
    """A source whose run is killed when it reads the records of topics."""

    def topic_records(self, topics: Sequence[str], starts: PartitionOffsets) -> DataFrame:
        """End as a killed process does."""
        raise KeyboardInterrupt


def test_no_log_end_is_kept_without_its_records(spark: SparkSession, tmp_path: Path) -> None:
    """A run that dies before it has read the records leaves the log ends of the run before."""
    log, store = tmp_path / "log", Store(spark, str(tmp_path / "out"))
    write_segment(log, [plain(commits(0, 3))])
    write_segment(log, [plain(commits(0, 9))], topic="t")
    read_offsets_log(LogDirSource(spark, str(log)), store, silent)
    with pytest.raises(KeyboardInterrupt):
        read_the_rest(_Dying(spark, str(log)), store, silent)
    assert rows(store, schema.PARTITION_ENDS) == []
    read_the_rest(LogDirSource(spark, str(log)), store, silent)
    assert [row[3] for row in rows(store, schema.PARTITION_ENDS)] == [9]


def test_all_records_are_read_after_runs_that_sampled_times(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Sampled times are kept for the next run, and replaced by the records once these are read."""
    log, store = tmp_path / "log", Store(spark, str(tmp_path / "out"))
    write_segment(log, [plain(commits(0, 3))])  # the last commit is 2, of t-0
    write_segment(log, [plain(commits(0, 9))], topic="t")
    source = LogDirSource(spark, str(log))
    read_offsets_log(source, store, silent)
    first_bytes = store.reads.size_bytes
    assert first_bytes > 0
    for _ in range(2):
        read_the_rest(source, store, silent, SAMPLED, lambda: Questions(START_MS + 600_000))
        offsets = {row[2]: row[3] for row in rows(store, schema.OFFSET_TIMES)}
        assert offsets.items() >= {2: START_MS + 2, 9: None}.items()
        assert not store.has_bronze(schema.TOPIC_RECORDS)
        assert store.reads.size_bytes == first_bytes
        requests, store.reads.requests = store.reads.requests, 0
    assert 0 < requests < 8
    read_the_rest(source, store, silent)
    assert rows(store, schema.OFFSET_TIMES) == []
    assert [row[2] for row in rows(store, schema.TOPIC_RECORDS)] == list(range(9))
    assert store.reads.size_bytes > first_bytes
    (end,) = rows(store, schema.PARTITION_ENDS)
    assert end[schema.PARTITION_ENDS.names.index("time")] == EXACT
    read_the_rest(source, store, silent, NO_TIMES)
    (end,) = rows(store, schema.PARTITION_ENDS)
    assert end[schema.PARTITION_ENDS.names.index("time")] == NO_TIMES
