"""Segments written by Kafka (the reference version and 4.1), compared with Kafka's dumps.

`tests/data/segments` and `tests/data/segments-4.1` have the same history of groups.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from protocol.batch import iterate_records
from protocol.batch_header import crc_is_valid, iterate_batches
from storage.cleaner import CleaningResult
from storage.local_disk import LocalDisk
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.own_logs import own_pass
from storage.portable_disk import PortableDisk
from tests.unit.storage.support import NOW_MS, all_bytes, all_records, headers_of

DATA = Path(__file__).parents[2] / "data"
PARTITIONS = sorted(path.name for path in (DATA / "segments").iterdir() if path.is_dir())


@pytest.fixture(params=["segments", "segments-4.1"])
def segments(request: pytest.FixtureRequest) -> Path:
    """Return the directory of segments and dumps of one release."""
    return DATA / str(request.param)


@pytest.fixture(params=[LocalDisk, PortableDisk])
def manager(
    request: pytest.FixtureRequest, segments: Path, tmp_path: Path, msvcrt: None
) -> LogManager:
    """Return a copy of Kafka's data directory, without clean marks so that all is recovered."""
    for name in PARTITIONS:
        shutil.copytree(segments / name, tmp_path / name, copy_function=shutil.copyfile)
    return LogManager.open(request.param(), str(tmp_path), LogConfig(), now_ms=NOW_MS)


def dumped(segments: Path, name: str, kind: str) -> list[dict[str, str]]:
    """Return the batches ("baseOffset") or records ("| offset") of a dump, as dictionaries."""
    lines = (segments / f"{name}.dump.txt").read_text().splitlines()
    head = re.compile(r"(\w+): (\S+)")
    return [dict(head.findall(line.lstrip("| "))) for line in lines if line.startswith(kind)]


@pytest.mark.parametrize("name", PARTITIONS)
def test_every_batch_is_the_dumps(segments: Path, manager: LogManager, name: str) -> None:
    """Offset, size, position, CRC, producer, epochs and flags of every batch equal the dump."""
    topic, _, partition = name.rpartition("-")
    log = manager.log(topic, int(partition))
    assert log.recovery_reports == []
    data = all_bytes(log)
    assert data == (segments / name / f"{0:020d}.log").read_bytes()
    headers = headers_of(data)
    lines = dumped(segments, name, "baseOffset")
    assert len(headers) == len(lines)
    for header, line in zip(headers, lines, strict=True):
        assert crc_is_valid(data, header)
        for key, value in (
            ("baseOffset", header.base_offset),
            ("lastOffset", header.last_offset),
            ("count", header.record_count),
            ("baseSequence", header.base_sequence),
            ("producerId", header.producer_id),
            ("producerEpoch", header.producer_epoch),
            ("partitionLeaderEpoch", header.leader_epoch),
            ("position", header.position),
            ("CreateTime", header.max_timestamp_ms),
            ("size", header.size_bytes),
            ("crc", header.crc),
        ):
            assert int(line[key]) == value, key
        assert line["isTransactional"] == str(header.is_transactional).lower()
        assert line["isControl"] == str(header.is_control).lower()


@pytest.mark.parametrize("name", PARTITIONS)
def test_every_record_is_the_dumps(segments: Path, manager: LogManager, name: str) -> None:
    """Offsets, timestamps and sizes of every record equal the dump.

    Every record is found by its timestamp.
    """
    topic, _, partition = name.rpartition("-")
    log = manager.log(topic, int(partition))
    data = all_bytes(log)
    records = [r for header in iterate_batches(data) for r in iterate_records(data, header)]
    lines = dumped(segments, name, "| offset")
    assert len(records) == len(lines)
    for record, line in zip(records, lines, strict=True):
        assert int(line["offset"]) == record.offset
        assert int(line["CreateTime"]) == record.timestamp_ms
        assert int(line["keySize"]) == (-1 if record.key is None else len(record.key))
        assert int(line["valueSize"]) == (-1 if record.value is None else len(record.value))
        found = log.offset_for_timestamp(record.timestamp_ms)
        assert found is not None
        assert found.timestamp >= record.timestamp_ms
        assert found.offset <= record.offset
    latest = log.max_timestamp()
    assert latest is not None
    assert latest.timestamp == max(record.timestamp_ms for record in records)


def test_the_directory_is_adopted_whole(manager: LogManager) -> None:
    """Topic ids, epochs and producers are read from Kafka's own files."""
    assert manager.adopted_topics == ["__consumer_offsets", "__transaction_state", "life-out"]
    assert manager.topics()["__consumer_offsets"].partition_count == 4
    log = manager.log("__consumer_offsets", 0)
    assert log.leader_epochs.entries == [(0, 0), (2, 3)]
    assert log.end_offset_of_epoch(0) == (0, 3)
    producers = manager.log("life-out", 0).producers
    assert producers.entries[1001].epoch == 3
    assert producers.entries[1001].coordinator_epoch == 0
    assert manager.log("life-out", 0).last_stable_offset == 6


def test_compaction_keeps_the_last_value_of_each_key(manager: LogManager) -> None:
    """Compacting Kafka's offsets log keeps the last value of each key."""
    removed = 0
    for partition in range(4):
        log = manager.log("__consumer_offsets", partition)
        count = len(list(all_records(log)))
        before = {record.key: record.value for record in all_records(log)}
        end = log.log_end_offset
        # The log is too small to be compacted automatically, so the test starts the pass.
        (result,) = [e for e in own_pass(manager, log, NOW_MS) if isinstance(e, CleaningResult)]
        assert result.first_dirty_offset == end
        after = list(all_records(log))
        assert {record.key: record.value for record in after} == before
        assert log.log_end_offset == end
        removed += count - len(after)
        if count > len(before):
            assert result.bytes_after < result.bytes_before
    assert removed > 0
