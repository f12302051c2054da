"""Reads: batch boundaries, limits, several segments, few descriptors, timestamps."""

from __future__ import annotations

import pytest

from protocol.batch import Record, build_batch
from protocol.batch_header import read_header
from protocol.errors import ErrorCode
from storage.errors import OffsetOutOfRangeError, StorageError
from storage.log_config import LogConfig
from storage.memory_disk import MemoryDisk
from storage.partition_log import PartitionLog
from storage.timestamp_search import TimestampedOffset
from tests.unit.storage.support import (
    DIRECTORY,
    NOW_MS,
    all_batches,
    all_bytes,
    batch,
    files_in,
    headers_of,
    open_log,
    values_of,
)

SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=200)


def filled(disk: MemoryDisk, count: int, config: LogConfig = SMALL) -> PartitionLog:
    """Return a log of `count` batches of two records, with timestamps that rise by 10 ms."""
    log = open_log(disk, config)
    for number in range(count):
        log.append(batch(b"a%d" % number, b"b", timestamp_ms=NOW_MS - 10_000 + 10 * number), NOW_MS)
    return log


@pytest.mark.parametrize("reopened", [False, True])
def test_every_offset_leads_to_its_batch(reopened: bool) -> None:
    """A read starts with the batch that has the offset, before and after a clean stop."""
    disk = MemoryDisk()
    log = filled(disk, 120)
    assert len(log.segments) > 4
    if reopened:
        log.close()
        log = open_log(disk, SMALL, clean=True)
    for offset in [*range(240), *range(239, -1, -7)]:
        header = read_header(log.read(offset, 1))
        assert header.base_offset <= offset <= header.last_offset
    assert [h.base_offset for h in all_batches(log)] == list(range(0, 240, 2))


@pytest.mark.parametrize("max_bytes", [1, 80, 81, 200, 555, 1999, 5000])
def test_reads_end_on_batch_boundaries_within_the_limit(max_bytes: int) -> None:
    """A read returns whole batches within the limit, except a first batch that is too large."""
    log = filled(MemoryDisk(), 60)
    offset = 0
    while offset < log.log_end_offset:
        data = log.read(offset, max_bytes)
        headers = headers_of(data)
        assert headers[0].base_offset == offset
        assert headers[-1].end == len(data)
        assert len(data) <= max_bytes or len(headers) == 1
        bounded = log.read(offset, max_bytes, at_least_one=False)
        assert bounded == (data if len(data) <= max_bytes else b"")
        offset = headers[-1].next_offset


@pytest.mark.parametrize("up_to", [0, 1, 2, 3, 50, 51, 119, 120])
def test_up_to_hides_what_is_not_wholly_below(up_to: int) -> None:
    """A read below `up_to` returns only batches that end below this offset."""
    log = filled(MemoryDisk(), 60)
    parts = []
    offset = 0
    while data := log.read(offset, 300, up_to=up_to):
        parts += [header.base_offset for header in headers_of(data)]
        offset = parts[-1] + 2
    assert parts == list(range(0, up_to - 1, 2))


def test_offsets_outside_the_log_are_out_of_range() -> None:
    """An offset below the log start or above the log end gets OFFSET_OUT_OF_RANGE.

    A read at the log end is empty.
    """
    log = filled(MemoryDisk(), 5)
    assert log.read(10, 100) == b""
    for offset in (-1, 11):
        with pytest.raises(OffsetOutOfRangeError) as caught:
            log.read(offset, 100)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_read_error_is_a_storage_error() -> None:
    """A read error gives KAFKA_STORAGE_ERROR until the disk works again."""
    disk = MemoryDisk()
    log = filled(disk, 3)
    disk.unreadable.add(f"{DIRECTORY}/{0:020d}.log")
    for ask in (lambda: log.read(0, 9), lambda: log.offset_for_timestamp(0), log.max_timestamp):
        with pytest.raises(StorageError) as caught:
            ask()
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    disk.unreadable.clear()
    assert log.read(0, 9)


def test_descriptors_are_bounded() -> None:
    """However many segments are read, few files are open."""
    disk = MemoryDisk()
    filled(disk, 200).close()
    log = open_log(disk, SMALL, clean=True, max_open_files=3)
    assert len(log.segments) > 8
    assert len(all_bytes(log)) == log.size_bytes
    assert len(disk.open_files) <= 3
    log.append(batch(), NOW_MS)
    log.close()
    assert len(disk.open_files) == 0


def test_sequential_reads_do_not_search() -> None:
    """A sequential read costs a single pread."""
    disk = MemoryDisk()
    log = filled(disk, 1000, LogConfig())
    offset = headers_of(log.read(0, 4000))[-1].next_offset
    before = disk.reads
    log.read(offset, 1 << 20)
    assert disk.reads - before == 1


def test_rolls_by_size_time_and_index() -> None:
    """A segment ends at segment.bytes, at segment.ms after its first record, or at a full index."""
    log = filled(MemoryDisk(), 30)
    assert all(segment.size_bytes <= 2000 for segment in log.segments)
    log = open_log(MemoryDisk(), LogConfig(segment_ms=1000))
    for timestamp_ms in (NOW_MS, NOW_MS + 1000, NOW_MS + 1001):
        log.append(batch(timestamp_ms=timestamp_ms), NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    config = LogConfig(segment_index_bytes=24, index_interval_bytes=1)
    log = filled(MemoryDisk(), 10, config)
    assert len(log.segments) > 3


def test_segment_files_have_kafka_names() -> None:
    """File names have twenty digits of base offset; a roll takes a producer snapshot."""
    disk = MemoryDisk()
    log = filled(disk, 1)
    log.roll(NOW_MS)
    log.append(batch(), NOW_MS)
    log.close()
    assert disk.listdir(DIRECTORY) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000002.index",
        "00000000000000000002.log",
        "00000000000000000002.snapshot",
        "00000000000000000002.timeindex",
        "00000000000000000003.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]


def test_index_entries_are_kafkas() -> None:
    """The index files have Kafka's entries.

    An index entry has the last offset and the position of a batch; a time index entry has the
    largest timestamp so far. There is one entry per interval, and the close adds the last
    timestamp.
    """
    disk = MemoryDisk()
    log = filled(disk, 10, LogConfig(index_interval_bytes=200))
    log.close()
    headers = all_batches(open_log(disk, clean=True))
    size = headers[0].size_bytes
    every = 200 // size + 1
    index = disk.read_file(f"{DIRECTORY}/{0:020d}.index")
    expected = [(2 * n + 1, n * size) for n in range(every, 10, every)]
    assert index == b"".join(o.to_bytes(4, "big") + p.to_bytes(4, "big") for o, p in expected)
    time_index = disk.read_file(f"{DIRECTORY}/{0:020d}.timeindex")
    entries = [
        (int.from_bytes(time_index[i : i + 8], "big"), time_index[i + 11])
        for i in range(0, len(time_index), 12)
    ]
    assert (
        entries[:-1]
        == [(NOW_MS - 10_000 + 10 * n, 2 * n + 1) for n in range(every, 10, every)][
            : len(entries) - 1
        ]
    )
    assert entries[-1] == (NOW_MS - 10_000 + 90, 19)


@pytest.mark.parametrize("reopened", [False, True])
def test_offsets_are_found_by_timestamp(reopened: bool) -> None:
    """A timestamp leads to the first record at or after it, across segments."""
    disk = MemoryDisk()
    log = filled(disk, 120)
    if reopened:
        log.close()
        log = open_log(disk, SMALL, clean=True)
    first_ms = NOW_MS - 10_000
    for number in (0, 1, 17, 60, 119):
        at_ms = first_ms + 10 * number
        assert log.offset_for_timestamp(at_ms) == TimestampedOffset(at_ms, 2 * number, 0)
        assert log.offset_for_timestamp(at_ms - 5) == TimestampedOffset(at_ms, 2 * number, 0)
    assert log.offset_for_timestamp(first_ms + 1191) is None
    assert log.max_timestamp() == TimestampedOffset(first_ms + 1190, 238, 0)


def test_timestamps_out_of_order_are_found() -> None:
    """A search by time finds the first record that is late enough in unordered timestamps."""
    log = open_log(MemoryDisk(), LogConfig(index_interval_bytes=1))
    for number, delta in enumerate((0, 500, 100, 300, 500, 700, 200)):
        data = build_batch(
            [
                Record(0, NOW_MS + delta - 1, b"k", b"v"),
                Record(1, NOW_MS + delta, b"k", b"%d" % number),
            ]
        ).to_bytes()
        log.append(data, NOW_MS)
    assert log.offset_for_timestamp(NOW_MS + 50) == TimestampedOffset(NOW_MS + 499, 2, 0)
    assert log.offset_for_timestamp(NOW_MS + 500) == TimestampedOffset(NOW_MS + 500, 3, 0)
    assert log.offset_for_timestamp(NOW_MS + 501) == TimestampedOffset(NOW_MS + 699, 10, 0)
    assert log.max_timestamp() == TimestampedOffset(NOW_MS + 700, 11, 0)


def test_empty_and_append_time_logs_answer_timestamps() -> None:
    """A search by time finds nothing in an empty log.

    In a log with LogAppendTime the search finds the first offset of a batch.
    """
    assert open_log(MemoryDisk()).max_timestamp() is None
    assert open_log(MemoryDisk()).offset_for_timestamp(0) is None
    log = open_log(MemoryDisk(), LogConfig(message_timestamp_type="LogAppendTime"))
    log.append(batch(b"a", b"b", timestamp_ms=1), NOW_MS)
    assert log.offset_for_timestamp(2) == TimestampedOffset(NOW_MS, 0, 0)


def test_leader_epochs_end_where_the_next_begins() -> None:
    """Each leader epoch's end offset is known, also after a restart and without the checkpoint."""
    disk = MemoryDisk()
    log = open_log(disk)
    log.append(batch(), NOW_MS)
    log.begin_leader_epoch(3)
    log.append(batch(), NOW_MS)
    log.close()
    for _ in range(2):
        log = open_log(disk)
        assert log.leader_epoch == 3
        assert log.end_offset_of_epoch(0) == (0, 1)
        assert log.end_offset_of_epoch(2) == (0, 1)
        assert log.end_offset_of_epoch(3) == (3, 2)
        assert log.end_offset_of_epoch(4) == (-1, -1)
        assert log.end_offset_of_epoch(-1) == (-1, -1)
        if disk.exists(f"{DIRECTORY}/leader-epoch-checkpoint"):
            disk.unlink(f"{DIRECTORY}/leader-epoch-checkpoint")


@pytest.mark.parametrize("offset", [0, 1, 2, 33, 50, 119, 120])
def test_truncation_drops_what_reaches_the_offset(offset: int) -> None:
    """A truncated log ends at the offset, can be read, and accepts appends there."""
    disk = MemoryDisk()
    log = filled(disk, 60)
    log.truncate_to(offset)
    assert log.log_end_offset == offset
    kept = [h.base_offset for h in all_batches(log)]
    assert kept == list(range(0, offset - 1, 2))
    assert log.append(batch(b"new"), NOW_MS).base_offset == offset
    assert values_of(open_log(disk, SMALL))[-1] == (offset, b"new")
    assert files_in(disk, DIRECTORY, ".log")
