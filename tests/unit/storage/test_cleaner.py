"""Compaction: kept and removed records, crash points of the swap, small steps."""

from __future__ import annotations

import pytest

from protocol.batch import Record, build_batch
from protocol.batch_header import crc_is_valid, iterate_batches
from protocol.compression import Compression
from storage.cleaner import Cleaning, CleaningResult, dirty_bytes
from storage.errors import StorageError
from storage.log_config import LogConfig
from storage.maintenance import maintenance_steps
from storage.memory_disk import Crash, MemoryDisk
from storage.own_logs import OwnLogs
from storage.partition_log import PartitionLog
from tests.unit.storage.cleaning import CONFIG, clean, contents, finished, latest
from tests.unit.storage.support import (
    DIRECTORY,
    NOW_MS,
    all_batches,
    all_bytes,
    all_records,
    batch,
    files_in,
    flip,
    keyed,
    open_log,
    open_manager,
)


def workload(disk: MemoryDisk, config: LogConfig = CONFIG, count: int = 40) -> PartitionLog:
    """Return a rolled log of ten keys, written many times; every seventh record is a tombstone."""
    log = open_log(disk, config)
    for number in range(count):
        value = None if number % 7 == 6 else b"%d" % number
        log.append(keyed((b"k%d" % (number % 10), value), (b"x", b"%d" % number)), NOW_MS)
    log.roll(NOW_MS)
    return log


def test_the_last_record_per_key_stays_at_its_offset() -> None:
    """Superseded records are removed; other records keep offset, key, value and timestamp."""
    log = workload(MemoryDisk())
    before = contents(log)
    table = latest(log)
    bytes_before = log.size_bytes
    result = clean(log)
    after = contents(log)
    assert set(after) < set(before)
    last = {key: offset for offset, key, _ in before}
    assert sorted(offset for offset, _, _ in after) == sorted(last.values())
    assert latest(log) == table
    assert result.bytes_before == bytes_before
    assert result.bytes_after == log.size_bytes < bytes_before / 2
    assert result.first_dirty_offset == log.log_end_offset
    data = all_bytes(log)
    assert all(crc_is_valid(data, header) for header in iterate_batches(data))


def test_every_offset_can_still_be_read() -> None:
    """A read at a removed offset starts with the next batch."""
    log = workload(MemoryDisk())
    clean(log)
    offsets = [offset for offset, _, _ in contents(log)]
    for offset in range(log.log_end_offset):
        data = log.read(offset, 1)
        if offset > offsets[-1]:
            assert data == b""
        else:
            assert next(iterate_batches(data)).last_offset >= offset


def test_the_active_segment_is_never_cleaned() -> None:
    """Records in the active segment stay, and do not supersede records in sealed segments."""
    log = workload(MemoryDisk())
    for number in range(3):
        log.append(keyed((b"x", b"active%d" % number)), NOW_MS)
    sealed_x = [offset for offset, key, _ in contents(log) if key == b"x"][-4]
    clean(log)
    kept = [offset for offset, key, _ in contents(log) if key == b"x"]
    assert kept == [sealed_x, 80, 81, 82]


def test_batches_kept_whole_are_copied_byte_for_byte() -> None:
    """A batch without superseded records is copied without decoding."""
    log = open_log(MemoryDisk(), CONFIG)
    data = keyed((b"a", b"1" * 50), (b"b", b"2" * 50), compression=Compression.ZSTD)
    log.append(data, NOW_MS)
    log.append(keyed((b"c", b"3")), NOW_MS)
    log.roll(NOW_MS)
    before = all_bytes(log)
    clean(log)
    assert all_bytes(log) == before


@pytest.mark.parametrize("compression", list(Compression))
def test_a_thinned_batch_keeps_its_frame(compression: Compression) -> None:
    """A batch that loses records keeps its offsets, codec, producer and sequence."""
    log = open_log(MemoryDisk(), CONFIG)
    records = [Record(i, NOW_MS + i, b"k%d" % i, b"v" * 30, [("h", b"1")]) for i in range(4)]
    log.append(
        build_batch(
            records,
            compression=compression,
            producer_id=3,
            producer_epoch=1,
            base_sequence=10,
        ).to_bytes(),
        NOW_MS,
    )
    log.append(keyed((b"k1", b"new"), (b"k3", b"new")), NOW_MS)
    log.roll(NOW_MS)
    clean(log)
    first = all_batches(log)[0]
    assert (first.base_offset, first.last_offset, first.record_count) == (0, 3, 2)
    assert (first.producer_id, first.producer_epoch, first.base_sequence) == (3, 1, 10)
    assert first.compression is compression
    assert first.max_timestamp_ms == NOW_MS + 2
    kept = all_records(log)[:2]
    assert [(r.offset, r.key, r.timestamp_ms) for r in kept] == [
        (0, b"k0", NOW_MS),
        (2, b"k2", NOW_MS + 2),
    ]
    assert kept[0].headers == [("h", b"1")]


def test_tombstones_go_after_delete_retention() -> None:
    """The first pass gives a tombstone a delete horizon, which later passes compare with the time.

    The first pass after the horizon removes the tombstone. Timestamps of records do not change.
    """
    log = open_log(MemoryDisk(), CONFIG)
    log.append(keyed((b"a", b"1"), (b"b", b"1"), timestamp_ms=NOW_MS - 77), NOW_MS)
    log.append(keyed((b"a", None), (b"c", b"1"), timestamp_ms=NOW_MS - 55), NOW_MS)
    log.roll(NOW_MS)
    clean(log)
    assert contents(log) == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1")]
    assert all_batches(log)[1].delete_horizon_ms == NOW_MS + 1000
    assert [r.timestamp_ms for r in all_records(log)] == [NOW_MS - 77, NOW_MS - 55, NOW_MS - 55]
    clean(log, now_ms=NOW_MS + 999)
    assert len(contents(log)) == 3
    clean(log, now_ms=NOW_MS + 1000)
    assert contents(log) == [(1, b"b", b"1"), (3, b"c", b"1")]
    assert [r.timestamp_ms for r in all_records(log)] == [NOW_MS - 77, NOW_MS - 55]


def test_a_live_producers_last_batch_leaves_its_header() -> None:
    """The last batch of an active producer stays as an empty batch with its sequence.

    The producer state can be rebuilt from it.
    """
    disk = MemoryDisk()
    log = open_log(disk, CONFIG)
    log.append(batch(producer_id=5, producer_epoch=0, base_sequence=0), NOW_MS)
    log.append(keyed((b"k", b"new")), NOW_MS)
    log.roll(NOW_MS)
    clean(log)
    assert [h.record_count for h in all_batches(log)] == [0, 1]
    for name in files_in(disk, DIRECTORY, ".snapshot"):
        disk.unlink(f"{DIRECTORY}/{name}")
    again = open_log(disk, CONFIG)
    data = batch(producer_id=5, producer_epoch=0, base_sequence=0)
    assert again.append(data, NOW_MS).base_offset == 0
    assert again.log_end_offset == 2


def test_the_lag_stops_compaction() -> None:
    """Records younger than min.compaction.lag.ms are not compacted."""
    log = workload(MemoryDisk(), CONFIG._replace(min_compaction_lag_ms=100))
    before = contents(log)
    assert dirty_bytes(log, 0, NOW_MS) == (0, 0)
    clean(log)
    assert contents(log) == before
    clean(log, now_ms=NOW_MS + 101)
    assert len(contents(log)) < len(before)


def test_long_keys_and_many_keys_take_more_passes() -> None:
    """A pass that cannot hold all keys stops, and the next pass continues.

    Long keys are compared completely.
    """
    log = open_log(MemoryDisk(), CONFIG)
    for number in range(30):
        log.append(keyed((b"L" * 100 + b"%d" % (number % 6), b"%d" % number)), NOW_MS)
    log.roll(NOW_MS)
    table = latest(log)
    first_dirty = 0
    passes = 0
    while first_dirty < log.log_end_offset:
        result = finished(Cleaning(log, first_dirty, NOW_MS, keys_per_pass=2))
        assert result.first_dirty_offset > first_dirty
        first_dirty = result.first_dirty_offset
        passes += 1
    assert passes > 1
    assert latest(log) == table
    assert len(contents(log)) < 30


def test_small_segments_are_merged() -> None:
    """A pass merges small compacted segments."""
    disk = MemoryDisk()
    log = workload(disk)
    assert len(log.segments) > 6
    clean(log)
    clean(log)
    assert len(log.segments) <= 4
    assert len(files_in(disk, DIRECTORY, ".log")) == len(log.segments)


@pytest.mark.parametrize("kind", ["kill", "power"])
@pytest.mark.parametrize("torn", [False, True])
def test_every_crash_point_of_compaction(kind: str, torn: bool) -> None:
    """After a crash at any operation, the log reads as before or after the compaction.

    The log has the same last values and only written records, and the next pass completes.
    """
    points = 0
    for operation in range(400):
        disk = MemoryDisk()
        log = workload(disk)
        log.flush()
        disk.sync_directory("")
        before, table = contents(log), latest(log)
        disk.crash_at(operation, torn=torn)
        try:
            clean(log)
        except Crash:
            points += 1
        else:
            assert points > 20
            return
        if kind == "kill":
            disk.processes_died()
        else:
            disk.power_cut()
        again = open_log(disk, CONFIG)
        assert again.recovery_reports == []
        assert latest(again) == table
        assert set(contents(again)) <= set(before)
        assert again.log_end_offset == log.log_end_offset
        assert not files_in(disk, DIRECTORY, ".cleaned")
        assert not files_in(disk, DIRECTORY, ".swap")
        clean(again)
        assert latest(again) == table
    raise AssertionError("the loop did not reach the last operation")


def test_every_failing_operation_of_compaction() -> None:
    """After a disk error in a compaction the log reads correctly, at once and after reopening."""
    for operation in range(400):
        disk = MemoryDisk()
        log = workload(disk)
        table = latest(log)
        disk.fail_at(operation, torn=True)
        try:
            clean(log)
        except StorageError:
            if log.closed:
                log = open_log(disk, CONFIG)
            assert latest(log) == table
            log.append(keyed((b"new", b"1")), NOW_MS)
        else:
            return
    raise AssertionError("the loop did not reach the last operation")


def test_appends_and_reads_go_on_between_steps() -> None:
    """During a pass the log accepts appends and reads."""
    log = workload(MemoryDisk(), CONFIG._replace(segment_bytes=100_000), count=3000)
    end = log.log_end_offset
    steps = Cleaning(log, 0, NOW_MS).run()
    count = 0
    for _ in steps:
        log.append(keyed((b"x", b"new%d" % count)), NOW_MS)
        assert log.read(0, 1)
        count += 1
    assert count > 5
    assert log.log_end_offset == end + count
    assert latest(log)[b"x"] == b"new%d" % (count - 1)


def test_a_topic_deleted_in_the_middle_stops_the_pass() -> None:
    """A pass over a log that is closed during the pass ends without a result and leaves no file."""
    disk = MemoryDisk()
    log = workload(disk, CONFIG._replace(segment_bytes=100_000), count=3000)
    steps = Cleaning(log, 0, NOW_MS).run()
    for _ in range(6):
        next(steps)
    log.abandon()
    assert list(steps) == []
    assert not files_in(disk, DIRECTORY, ".cleaned")


def test_maintenance_compacts_by_the_dirty_ratio() -> None:
    """A maintenance round compacts a log that is half dirty, and remembers the compacted part.

    The next round leaves the log alone.
    """
    disk = MemoryDisk()
    manager = open_manager(disk)
    configs = {"cleanup.policy": "compact", "internal.segment.bytes": "600"}
    manager.create_topic("c", bytes(16), 1, configs)
    log = manager.log("c", 0)
    for number in range(40):
        log.append(keyed((b"k", b"%d" % number)), NOW_MS)
    events = [event for event in maintenance_steps(manager, NOW_MS) if event is not None]
    assert [type(event) for event in events] == [CleaningResult]
    assert [event for event in maintenance_steps(manager, NOW_MS) if event is not None] == []
    text = disk.read_file("data/cleaner-offset-checkpoint").decode()
    assert text.splitlines()[2] == f"c 0 {log.segments[-1].base_offset}"


def test_the_offsets_log_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker's internal logs are compacted by size, including the active segment."""
    monkeypatch.setattr("storage.own_logs.FLOOR_BYTES", 0)
    disk = MemoryDisk()
    manager = open_manager(disk)
    manager.create_topic("__consumer_offsets", bytes(16), 1, {"cleanup.policy": "compact"})
    log = manager.log("__consumer_offsets", 0)
    own_logs = OwnLogs(manager)
    for number in range(3000):
        log.append(keyed((b"k%d" % (number % 100), b"v" * 500)), NOW_MS)
        if number % 500 == 499:
            for _ in own_logs.steps(own_logs.due(NOW_MS), NOW_MS):
                pass
    live = 100 * log.size_bytes // len(all_batches(log))
    assert log.size_bytes < 2 * live


def test_the_log_end_is_not_forgotten_when_the_tail_is_compacted() -> None:
    """Offsets are not reused if the last records were tombstones that were removed."""
    disk = MemoryDisk()
    log = open_log(disk, CONFIG)
    log.append(keyed((b"a", b"1")), NOW_MS)
    log.append(keyed((b"a", None)), NOW_MS)
    log.roll(NOW_MS)
    clean(log)
    clean(log, now_ms=NOW_MS + 1000)
    assert contents(log) == []
    again = open_log(disk, CONFIG)
    assert again.log_end_offset == 2


def test_a_damaged_batch_is_not_given_a_right_crc() -> None:
    """Compaction stops with an error at a damaged batch and leaves the log unchanged."""
    disk = MemoryDisk()
    log = workload(disk)
    flip(disk, f"{DIRECTORY}/{0:020d}.log", 68)
    before = all_bytes(log)
    with pytest.raises(StorageError, match="wrong CRC"):
        clean(log)
    assert all_bytes(log) == before
    assert not files_in(disk, DIRECTORY, ".cleaned")


def test_maintenance_compacts_what_waited_too_long() -> None:
    """max.compaction.lag.ms triggers a compaction below the dirty ratio."""
    disk = MemoryDisk()
    manager = open_manager(disk)
    configs = {
        "cleanup.policy": "compact",
        "internal.segment.bytes": "600",
        "min.cleanable.dirty.ratio": "1",
        "max.compaction.lag.ms": "5000",
    }
    manager.create_topic("c", bytes(16), 1, configs)
    log = manager.log("c", 0)
    for number in range(40):
        log.append(keyed((b"k", b"%d" % number), timestamp_ms=NOW_MS), NOW_MS)
    manager.cleaner_offsets["c", 0] = log.segments[2].base_offset
    assert not [event for event in maintenance_steps(manager, NOW_MS + 5000) if event]
    assert [event for event in maintenance_steps(manager, NOW_MS + 5001) if event]


def test_large_logs_are_written_and_synced_in_pieces() -> None:
    """Large logs are written and synced in pieces of 1 MiB, so that no step is long."""
    disk = MemoryDisk()
    log = open_log(disk, CONFIG._replace(segment_bytes=10_000_000))
    for number in range(40):
        log.append(keyed((b"k%d" % number, b"v" * 100_000)), NOW_MS)
    log.roll(NOW_MS)
    before = all_bytes(log)
    disk.operations.clear()
    clean(log)
    cleaned = [name for name, path in disk.operations if path.endswith(".cleaned")]
    assert cleaned.count("append") == 4
    assert cleaned.count("sync") == 4
    assert all_bytes(log) == before
