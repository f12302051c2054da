"""Snapshots of the state that a log defines: written, found, and ignored if invalid."""

from __future__ import annotations

import pytest

from storage.errors import StorageError
from storage.memory_disk import Crash, MemoryDisk
from storage.partition_log import PartitionLog
from storage.state_snapshot import load_state, save_state
from tests.unit.storage.support import DIRECTORY, NOW_MS, flip, keyed, open_log, overwrite

PATH = f"{DIRECTORY}/state-image"


def written(disk: MemoryDisk) -> PartitionLog:
    """Return a log of two batches with a snapshot."""
    log = open_log(disk)
    log.append(keyed((b"a", b"1")), NOW_MS)
    log.append(keyed((b"a", b"2")), NOW_MS)
    save_state(log, 7, b"contents")
    return log


def test_a_snapshot_is_found_again() -> None:
    """A snapshot is found if the log is unchanged."""
    disk = MemoryDisk()
    written(disk).close()
    assert load_state(open_log(disk, clean=True), 7) == b"contents"


def test_an_empty_log_has_a_snapshot_too() -> None:
    """An empty log, which has no last batch, can also have a snapshot."""
    disk = MemoryDisk()
    log = written(disk)
    log.truncate_to(0)
    save_state(log, 7, b"")
    assert load_state(log, 7) == b""


def test_a_stale_snapshot_is_passed_over() -> None:
    """A snapshot of a log that has grown or has another last batch is ignored."""
    disk = MemoryDisk()
    log = written(disk)
    log.append(keyed((b"a", b"3")), NOW_MS)
    assert load_state(log, 7) is None
    log.truncate_to(1)
    log.append(keyed((b"a", b"4")), NOW_MS)
    assert log.log_end_offset == 2
    assert load_state(log, 7) is None


def test_another_version_is_passed_over() -> None:
    """A snapshot whose contents or frame have another version is ignored."""
    disk = MemoryDisk()
    log = written(disk)
    assert load_state(log, 8) is None
    flip(disk, PATH, 0)
    assert load_state(log, 7) is None


@pytest.mark.parametrize("position", range(2, 36))
def test_a_flipped_byte_is_seen(position: int) -> None:
    """The checksum of a snapshot covers every byte."""
    disk = MemoryDisk()
    log = written(disk)
    flip(disk, PATH, position)
    assert load_state(log, 7) is None


def test_a_half_written_snapshot_is_passed_over() -> None:
    """A torn snapshot of any length is ignored, and so is an unreadable snapshot."""
    disk = MemoryDisk()
    log = written(disk)
    whole = disk.read_file(PATH)
    for size in range(len(whole)):
        overwrite(disk, PATH, whole[:size])
        assert load_state(log, 7) is None
    disk.unreadable.add(PATH)
    assert load_state(log, 7) is None


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("power", [False, True])
def test_every_crash_point_of_a_snapshot(torn: bool, power: bool) -> None:
    """After a crash in any operation the log is intact, with a valid new snapshot or none."""
    walked = 0
    while True:
        disk = MemoryDisk()
        log = written(disk)
        log.flush()
        log.append(keyed((b"a", b"3")), NOW_MS)
        log.flush()
        disk.crash_at(walked, torn=torn)
        try:
            save_state(log, 7, b"later")
            died = False
        except Crash:
            died = True
        if power:
            disk.power_cut()
        else:
            disk.processes_died()
        again = open_log(disk)
        assert again.log_end_offset == 3
        found = load_state(again, 7)
        assert found in ((None,) if died or power else (b"later",))
        if not died:
            break
        walked += 1
    assert walked == 3


def test_a_full_disk_costs_the_snapshot_only() -> None:
    """On a full disk only the snapshot fails; the error names the partition."""
    disk = MemoryDisk()
    log = written(disk)
    log.append(keyed((b"a", b"3")), NOW_MS)
    disk.fail_at(1)
    with pytest.raises(StorageError, match="the state of t-0 cannot be kept"):
        save_state(log, 7, b"later")
    assert load_state(log, 7) is None
    log.append(keyed((b"a", b"4")), NOW_MS)
