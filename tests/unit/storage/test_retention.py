"""Deletion of old segments, and DeleteRecords' log start offset."""

from __future__ import annotations

import pytest

from storage.errors import OffsetOutOfRangeError, StorageError
from storage.log_config import LogConfig
from storage.memory_disk import MemoryDisk
from storage.partition_log import PartitionLog
from storage.retention import advance_log_start_offset, delete_old_segments
from tests.unit.storage.support import DIRECTORY, NOW_MS, batch, files_in, open_log, values_of

SMALL = LogConfig(segment_bytes=210)


def filled(disk: MemoryDisk, config: LogConfig, count: int = 10) -> PartitionLog:
    """Return a log with three batches per segment, one second between batches."""
    log = open_log(disk, config)
    for number in range(count):
        log.append(batch(b"%d" % number, timestamp_ms=NOW_MS + 1000 * number), NOW_MS)
    return log


def test_time() -> None:
    """Segments are deleted, oldest first, when their newest record is older than retention.ms."""
    disk = MemoryDisk()
    log = filled(disk, SMALL._replace(retention_ms=5000))
    assert delete_old_segments(log, NOW_MS + 2000 + 5000) == []
    (deleted,) = delete_old_segments(log, NOW_MS + 2001 + 5000)
    assert (deleted.base_offset, deleted.reason) == (0, "retention.ms")
    assert log.log_start_offset == 3
    assert values_of(log)[0] == (3, b"3")
    assert files_in(disk, DIRECTORY, ".log")[0] == f"{3:020d}.log"
    with pytest.raises(OffsetOutOfRangeError):
        log.read(2, 100)


def test_time_ends_the_active_segment_too() -> None:
    """If every record has expired, the log is empty and continues at its end offset."""
    disk = MemoryDisk()
    log = filled(disk, SMALL._replace(retention_ms=5000))
    assert len(delete_old_segments(log, NOW_MS + 60_000)) == 4
    assert (log.log_start_offset, log.log_end_offset) == (10, 10)
    assert delete_old_segments(log, NOW_MS + 60_000) == []
    assert log.append(batch(b"new"), NOW_MS).base_offset == 10
    assert values_of(open_log(disk, SMALL)) == [(10, b"new")]


def test_an_emptied_log_keeps_its_end_over_a_restart() -> None:
    """The log end offset survives a restart although every record has expired."""
    disk = MemoryDisk()
    log = filled(disk, SMALL._replace(retention_ms=5000))
    delete_old_segments(log, NOW_MS + 60_000)
    log.close()
    again = open_log(disk, clean=True)
    assert (again.log_start_offset, again.log_end_offset) == (10, 10)


def test_size() -> None:
    """The oldest segments are deleted while the other segments have at least retention.bytes."""
    log = filled(MemoryDisk(), SMALL._replace(retention_bytes=250, retention_ms=-1))
    deleted = delete_old_segments(log, NOW_MS)
    assert [d.reason for d in deleted] == ["retention.bytes", "retention.bytes"]
    assert 250 <= log.size_bytes < 250 + 210


def test_no_limits_keep_everything() -> None:
    """A retention of -1 is no limit, and compacted topics have no retention by age."""
    log = filled(MemoryDisk(), SMALL._replace(retention_ms=-1))
    assert delete_old_segments(log, NOW_MS * 2) == []
    log = filled(MemoryDisk(), SMALL._replace(cleanup_policy=("compact",), retention_ms=1))
    assert delete_old_segments(log, NOW_MS * 2) == []


def test_delete_records() -> None:
    """The log start offset moves only forward, up to the log end; segments below are deleted."""
    disk = MemoryDisk()
    log = filled(disk, SMALL._replace(cleanup_policy=("compact",)))
    assert advance_log_start_offset(log, 4) == 4
    assert advance_log_start_offset(log, 1) == 4
    with pytest.raises(OffsetOutOfRangeError):
        advance_log_start_offset(log, 11)
    assert values_of(log)[0] == (4, b"4")
    (deleted,) = delete_old_segments(log, NOW_MS)
    assert deleted.reason == "below the log start offset"
    found = log.offset_for_timestamp(0)
    assert found is not None
    assert found.offset == 4
    assert open_log(disk, SMALL, log_start_offset=4).log_start_offset == 4


def test_every_failing_operation_of_retention() -> None:
    """After a disk error in a deletion the log has a suffix that can be opened and read."""
    for operation in range(40):
        disk = MemoryDisk()
        log = filled(disk, SMALL._replace(retention_ms=5000))
        disk.fail_at(operation)
        try:
            delete_old_segments(log, NOW_MS + 8000)
        except StorageError:
            again = open_log(disk, SMALL)
            assert again.recovery_reports == []
            assert values_of(again)[-1] == (9, b"9")
            start = again.log_start_offset
            assert [offset for offset, _ in values_of(again)] == list(range(start, 10))
        else:
            return
    raise AssertionError("the loop did not reach the last operation")
