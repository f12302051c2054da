"""Power cuts on a disk with write reordering: synced data stays, and no data is invented.

The power is cut at every operation of a workload, with six orders of the unsynced operations. The
names of the tests have the number of operations.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

import pytest

from storage.cleaner import Cleaning
from storage.errors import StorageError
from storage.log_config import LogConfig
from storage.maintenance import flush_steps
from storage.memory_disk import Crash, MemoryDisk
from storage.state_snapshot import load_state, save_state
from storage.topic_catalogue import TopicRecord
from tests.unit.storage.support import (
    NOW_MS,
    all_records,
    batch,
    delete_topic,
    keyed,
    marker,
    open_log,
    open_manager,
    values_of,
)

ORDERS = 6
SMALL = LogConfig(segment_bytes=700, index_interval_bytes=100)


def walk(
    work: Callable[[MemoryDisk, list[object]], None],
    check: Callable[[MemoryDisk, list[object]], None],
) -> int:
    """Cut the power at every operation of `work`, in several orders; return their number.

    `work` notes the data that must survive, and `check` looks for that data.
    """
    points = 0
    while True:
        for seed in range(ORDERS):
            disk, noted = MemoryDisk(), list[object]()
            disk.crash_at(points, torn=bool(seed % 2))
            try:
                work(disk, noted)
                survived = True
            except Crash:
                survived = False
            disk.power_cut(Random(seed))
            check(disk, noted)
            if survived:
                return points
        points += 1


def test_all_69_points_of_appends_that_are_synced() -> None:
    """With flush.messages=1 every acknowledged record survives a power cut, also across rolls."""
    config = SMALL._replace(flush_messages=1)

    def work(disk: MemoryDisk, noted: list[object]) -> None:
        log = open_log(disk, config)
        for number in range(20):
            log.append(batch(b"%02d" % number), NOW_MS)
            noted.append(b"%02d" % number)

    def check(disk: MemoryDisk, noted: list[object]) -> None:
        log = open_log(disk, config)
        values = [record.value for record in all_records(log)]
        assert values[: len(noted)] == noted
        assert len(values) <= len(noted) + 1
        log.append(batch(b"next"), NOW_MS)

    assert walk(work, check) == 69


def test_all_59_points_of_appends_that_are_synced_now_and_then() -> None:
    """A power cut may lose records after the last sync, but never alters a record."""

    def work(disk: MemoryDisk, noted: list[object]) -> None:
        log = open_log(disk, SMALL)
        for number in range(24):
            log.append(batch(b"%02d" % number), NOW_MS)
            if number % 5 == 4:
                log.flush()
                noted[:] = [b"%02d" % one for one in range(number + 1)]

    def check(disk: MemoryDisk, noted: list[object]) -> None:
        values = [record.value for record in all_records(open_log(disk, SMALL))]
        assert values[: len(noted)] == noted
        assert values == sorted(values, key=lambda value: value or b"")
        assert set(values) <= {b"%02d" % number for number in range(24)}

    assert walk(work, check) == 59


def test_all_84_points_of_compaction() -> None:
    """The last value of each key survives a power cut, whichever files were written."""
    config = SMALL._replace(cleanup_policy=("compact",))

    def work(disk: MemoryDisk, noted: list[object]) -> None:
        log = open_log(disk, config)
        for number in range(24):
            log.append(keyed((b"k%d" % (number % 5), b"%02d" % number)), NOW_MS)
        log.roll(NOW_MS)
        log.flush()
        noted += [b"%02d" % number for number in range(19, 24)]
        for _ in Cleaning(log, 0, NOW_MS).run():
            pass

    def check(disk: MemoryDisk, noted: list[object]) -> None:
        latest = {record.key: record.value for record in all_records(open_log(disk, config))}
        if noted:
            assert sorted(value or b"" for value in latest.values()) == noted

    assert walk(work, check) == 84


def test_all_34_points_of_snapshots() -> None:
    """A snapshot that is valid after a power cut is complete and matches the log."""

    def work(disk: MemoryDisk, noted: list[object]) -> None:
        log = open_log(disk, SMALL)
        for number in range(4):
            log.append(batch(b"%d" % number), NOW_MS)
            save_state(log, 1, b"as of %d" % log.log_end_offset)
        log.close()

    def check(disk: MemoryDisk, noted: list[object]) -> None:
        log = open_log(disk, SMALL)
        assert load_state(log, 1) in (None, b"as of %d" % log.log_end_offset)

    assert walk(work, check) == 34


@pytest.mark.parametrize("deletes", [False, True])
def test_all_points_of_topics(deletes: bool) -> None:
    """After a power cut a created topic has its partitions, and a deleted topic is gone."""

    def work(disk: MemoryDisk, noted: list[object]) -> None:
        manager = open_manager(disk)
        manager.create_topic("t", bytes(range(16)), 2, {})
        noted.append("t")
        manager.log("t", 1).append(batch(b"v"), NOW_MS)
        if deletes:
            noted.append("maybe")
            delete_topic(manager, "t")
            noted.clear()
        manager.create_topic("u", bytes(range(1, 17)), 1, {})
        noted.append("u")

    def check(disk: MemoryDisk, noted: list[object]) -> None:
        topics = open_manager(disk).topics()
        if "maybe" not in noted:
            assert {name for name in noted if name in topics} == set(noted)
            if deletes and "u" in noted:
                assert "t" not in topics
        assert "t" not in topics or topics["t"].partition_count == 2

    assert walk(work, check) >= 20


def test_all_66_points_of_aborted_transactions() -> None:
    """After a power cut, recovery finds every aborted transaction whose records are in the log.

    Recovery skips segments before the recovery point; their indexes were synced with them.
    """
    config = SMALL._replace(segment_bytes=300, flush_messages=4)

    def work(disk: MemoryDisk, noted: list[object]) -> None:
        log = open_log(disk, config)
        for number in range(8):
            sent = batch(
                producer_id=1 + number % 2,
                producer_epoch=0,
                base_sequence=number // 2,
                transactional=True,
            )
            log.append(sent, NOW_MS)
            if number > 1:
                log.append_own(marker(1 + number % 3, 0, commit=False), NOW_MS)
            noted[:] = [log.recovery_point]

    def check(disk: MemoryDisk, noted: list[object]) -> None:
        recovery_point = int(str(noted[0])) if noted else 0
        log = open_log(disk, config, recovery_point=recovery_point)
        found = log.aborted_transactions(0, log.log_end_offset)
        replayed = open_log(disk, config)
        assert found == replayed.aborted_transactions(0, log.log_end_offset)
        assert log.log_end_offset >= recovery_point

    assert walk(work, check) == 66


class ForgetfulDisk(MemoryDisk):
    """A disk like Linux: after a failed sync the dirty pages count as written."""

    fails = False

    def sync_file(self, path: str) -> None:
        """Fail once for a log, and drop the unsynced data."""
        if self.fails and path.endswith(".log"):
            self.fails = False
            self._existing(path).forget_unsynced()
            raise OSError(errno.EIO, "I/O error", path)
        super().sync_file(path)


def test_what_is_synced_after_a_failed_sync_has_no_hole_before_it() -> None:
    """A sync after a failed sync writes the lost pages again, without a hole."""
    disk = ForgetfulDisk()
    manager = open_manager(disk)
    manager.create_topics([TopicRecord("t", b"t" * 16, 1, {})])
    for value in (b"zero", b"one", b"two"):
        log = manager.log("t", 0)
        log.append(batch(value), NOW_MS)
        disk.fails = value == b"one"
        if disk.fails:
            with pytest.raises(StorageError, match="t-0 cannot be synced"):
                list(flush_steps(log))
        else:
            list(flush_steps(log))
    disk.power_cut()
    values = values_of(open_manager(disk).log("t", 0))
    assert values == [(0, b"zero"), (1, b"one"), (2, b"two")]
