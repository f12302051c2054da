"""Opening after every kind of stop: torn tails, bad bytes, damaged indexes, crash points."""

from __future__ import annotations

import pytest

from storage.errors import StorageError
from storage.log_config import LogConfig
from storage.memory_disk import Crash, MemoryDisk
from storage.partition_log import PartitionLog
from tests.legacy_entries import legacy_entry
from tests.unit.storage.support import (
    DIRECTORY,
    NOW_MS,
    all_batches,
    batch,
    flip,
    open_log,
    overwrite,
    values_of,
)

SMALL = LogConfig(segment_bytes=700, index_interval_bytes=100)
LOG = f"{DIRECTORY}/{0:020d}.log"


def written(disk: MemoryDisk, count: int, config: LogConfig | None = None) -> PartitionLog:
    """Return an open log with the values 0, 1, 2, ..."""
    log = open_log(disk, config)
    for number in range(count):
        log.append(batch(b"%02d" % number, timestamp_ms=NOW_MS + number), NOW_MS)
    return log


def expected(count: int) -> list[tuple[int, bytes | None]]:
    """Return the records of a log of `count` values."""
    return [(number, b"%02d" % number) for number in range(count)]


def test_an_unclean_stop_loses_nothing_that_was_written() -> None:
    """After a kill the log has every acknowledged record, and indexes are rebuilt."""
    disk = MemoryDisk()
    written(disk, 40, SMALL)
    disk.processes_died()
    log = open_log(disk, SMALL)
    assert log.recovery_reports == []
    assert values_of(log) == expected(40)
    assert [s.base_offset for s in log.segments][:2] == [0, 9]
    assert log.append(batch(b"40"), NOW_MS).base_offset == 40


def test_every_torn_tail_is_cut_and_reported() -> None:
    """A torn last batch is truncated wherever it is torn, and the truncation is reported."""
    disk = MemoryDisk()
    written(disk, 3)
    whole = disk.read_file(LOG)
    size = len(whole) // 3
    for torn in range(1, size):
        overwrite(disk, LOG, whole[: 2 * size + torn])
        log = open_log(disk)
        (report,) = log.recovery_reports
        assert (report.topic, report.partition, report.offset) == ("t", 0, 2)
        assert report.bytes_cut == torn
        assert "torn" in report.reason
        assert values_of(log) == expected(2)
        assert disk.size(LOG) == 2 * size


def test_every_flipped_byte_is_found() -> None:
    """A flipped byte anywhere in the middle batch truncates the log there.

    Only the leader epoch, which no CRC covers and no reader relies on, may differ.
    """
    disk = MemoryDisk()
    written(disk, 3)
    whole = disk.read_file(LOG)
    size = len(whole) // 3
    for position in range(size, 2 * size):
        if 12 <= position - size < 16:
            continue
        overwrite(disk, LOG, whole)
        flip(disk, LOG, position)
        log = open_log(disk)
        (report,) = log.recovery_reports
        assert report.offset == 1
        assert report.bytes_cut == 2 * size
        assert values_of(log) == expected(1)
        assert log.append(batch(b"1"), NOW_MS).base_offset == 1


def test_zeros_behind_the_end_are_cut() -> None:
    """A tail of zeros, preallocated or half-written, is truncated."""
    disk = MemoryDisk()
    written(disk, 2)
    overwrite(disk, LOG, disk.read_file(LOG) + bytes(4096))
    log = open_log(disk)
    assert log.recovery_reports[0].bytes_cut == 4096
    assert values_of(log) == expected(2)


def test_a_bad_batch_takes_the_segments_behind_it() -> None:
    """The first bad batch and everything after it are removed, and each file is reported."""
    disk = MemoryDisk()
    log = written(disk, 40, SMALL)
    segments = len(log.segments)
    flip(disk, f"{DIRECTORY}/{9:020d}.log", 80)
    again = open_log(disk, SMALL)
    assert len(again.recovery_reports) == segments - 1
    assert again.recovery_reports[0].file == f"{9:020d}.log"
    assert again.log_end_offset == 10
    assert values_of(again) == expected(10)
    assert values_of(open_log(disk, SMALL)) == expected(10)


def test_the_recovery_point_bounds_the_scan() -> None:
    """Segments entirely below the recovery point are not scanned."""
    disk = MemoryDisk()
    log = written(disk, 40, SMALL)
    last_base = log.segments[-1].base_offset
    flip(disk, LOG, 80)
    again = open_log(disk, SMALL, recovery_point=last_base)
    assert again.recovery_reports == []
    assert again.log_end_offset == 40


def test_a_clean_stop_needs_no_scan() -> None:
    """After a clean stop only the batches after the last index entry are read."""
    disk = MemoryDisk()
    log = written(disk, 5000)
    log.close()
    before = disk.reads
    again = open_log(disk, clean=True)
    assert disk.reads - before < 12
    assert again.log_end_offset == 5000
    assert again.producers.entries == {}


def test_a_clean_mark_that_lies_is_noticed() -> None:
    """A torn tail is truncated even with a clean shutdown mark."""
    disk = MemoryDisk()
    written(disk, 3).close()
    overwrite(disk, LOG, disk.read_file(LOG)[:-1])
    log = open_log(disk, clean=True)
    assert log.recovery_reports[0].offset == 2
    assert values_of(log) == expected(2)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "short", "torn", "empty", "wrong"])
@pytest.mark.parametrize("base", [0, 36])
def test_damaged_indexes_are_made_anew(suffix: str, damage: str, base: int) -> None:
    """A missing, short, torn, empty or wrong index is rebuilt by a scan."""
    disk = MemoryDisk()
    log = written(disk, 40, SMALL)
    log.close()
    path = f"{DIRECTORY}/{base:020d}{suffix}"
    good = disk.read_file(path)
    entry = 8 if suffix == ".index" else 12
    if damage == "missing":
        disk.unlink(path)
    elif damage == "short":
        overwrite(disk, path, good[:-entry])
    elif damage == "torn":
        overwrite(disk, path, good[:-3])
    elif damage == "empty":
        overwrite(disk, path, b"")
    else:
        overwrite(disk, path, bytes(4) + b"\x00\x00\xff\xff" * (len(good) // 4 - 1))
    again = open_log(disk, SMALL, clean=True)
    assert again.recovery_reports == []
    assert values_of(again) == expected(40)
    for offset in range(40):
        assert again.read(offset, 1)
    if suffix == ".index" or damage in ("missing", "torn"):
        found = again.offset_for_timestamp(NOW_MS + 38)
        assert found is not None
        assert found.offset == 38
    again.close()
    if suffix == ".index":
        assert disk.read_file(path) == good


def test_leftovers_are_swept() -> None:
    """Indexes without a log and files of an unfinished compaction are removed; other files stay."""
    disk = MemoryDisk()
    written(disk, 3).close()
    names = ("00000000000000000099.index", "00000000000000000000.log.cleaned", "x.deleted")
    for name in names:
        overwrite(disk, f"{DIRECTORY}/{name}", b"x")
    overwrite(disk, f"{DIRECTORY}/notes.txt", b"mine")
    log = open_log(disk, clean=True)
    assert values_of(log) == expected(3)
    left = disk.listdir(DIRECTORY)
    assert "notes.txt" in left
    assert not set(names) & set(left)


def test_a_log_start_beyond_the_end_begins_anew() -> None:
    """If the log ends below its start offset, it continues empty at the start offset."""
    disk = MemoryDisk()
    written(disk, 3)
    log = open_log(disk, log_start_offset=10)
    assert (log.log_start_offset, log.log_end_offset) == (10, 10)
    assert log.recovery_reports[0].reason.startswith("the log ends before")
    assert log.append(batch(), NOW_MS).base_offset == 10


@pytest.mark.parametrize("torn", [False, True])
def test_every_crash_point_of_append_and_roll(torn: bool) -> None:
    """After a crash in any append or roll the log has all acknowledged records.

    The log may also have one more batch.
    """
    points = 0
    for operation in range(500):
        disk = MemoryDisk()
        disk.crash_at(operation, torn=torn)
        answered = 0
        try:
            log = open_log(disk, SMALL)
            for number in range(30):
                log.append(batch(b"%02d" % number), NOW_MS)
                answered += 1
            log.close()
        except Crash:
            points += 1
        else:
            assert points > 50
            return
        disk.processes_died()
        again = open_log(disk, SMALL)
        assert values_of(again) in (expected(answered), expected(answered + 1))
        again.append(batch(b"next"), NOW_MS)
        assert values_of(again)[-1] == (again.log_end_offset - 1, b"next")
    raise AssertionError("the loop did not reach the last operation")


def test_every_crash_point_of_recovery() -> None:
    """After a crash in any operation of a recovery, the next recovery has the same result."""
    points = 0
    for operation in range(200):
        disk = MemoryDisk()
        written(disk, 40, SMALL)
        flip(disk, f"{DIRECTORY}/{9:020d}.log", 80)
        disk.crash_at(operation, torn=True)
        try:
            open_log(disk, SMALL)
        except Crash:
            points += 1
        else:
            assert points > 10
            return
        disk.processes_died()
        again = open_log(disk, SMALL)
        assert values_of(again) == expected(10)
    raise AssertionError("the loop did not reach the last operation")


def test_power_cut_keeps_what_was_flushed() -> None:
    """A power cut loses only records after the last flush."""
    disk = MemoryDisk()
    log = written(disk, 20, SMALL)
    log.flush()
    disk.sync_directory("")
    for number in range(20, 40):
        log.append(batch(b"%02d" % number), NOW_MS)
    disk.power_cut()
    again = open_log(disk, SMALL)
    count = again.log_end_offset
    assert count >= 20
    assert values_of(again) == expected(count)


def test_a_disk_that_cannot_be_read_at_the_start() -> None:
    """The error for a partition that cannot be opened names the partition and the reason."""
    disk = MemoryDisk()
    written(disk, 3)
    disk.unreadable.add(LOG)
    with pytest.raises(StorageError, match=r"t-0 cannot be opened: .*read error"):
        open_log(disk)


def test_old_formats_can_be_opened_and_read() -> None:
    """A log of formats 0 and 1 is recovered and can be read by offset."""
    disk = MemoryDisk()
    log = written(disk, 1)
    log.close()
    old = b"".join(legacy_entry(number % 2, number, b"v" * 5) for number in range(8))
    overwrite(disk, LOG, old)
    log = open_log(disk)
    assert log.recovery_reports == []
    assert log.log_end_offset == 8
    assert log.read(7, 1) == old[-len(legacy_entry(1, 7, b"v" * 5)) :]
    log.append(batch(b"new"), NOW_MS)
    assert log.read(8, 100)
    flip(disk, LOG, 20)
    assert open_log(disk).log_end_offset == 0
    assert all_batches(open_log(disk)) == []
