"""Appends: validation, offsets, timestamps, and failed writes."""

from __future__ import annotations

import struct

import pytest

from protocol.batch import EncodedBatch, iterate_records
from protocol.batch_header import crc_is_valid, read_header
from protocol.compression import Compression
from protocol.crc32c import crc32c
from protocol.errors import ErrorCode
from storage.errors import MessageTooLargeError, StorageError
from storage.log_config import LogConfig
from storage.memory_disk import MemoryDisk
from tests.unit.storage.support import (
    DIRECTORY,
    NOW_MS,
    all_batches,
    batch,
    keyed,
    marker,
    open_log,
    own,
    values_of,
)


def refused(data: bytes, config: LogConfig | None = None) -> StorageError:
    """Return the error for these bytes, and check that nothing was written."""
    disk = MemoryDisk()
    log = open_log(disk, config)
    with pytest.raises(StorageError) as caught:
        log.append(data, NOW_MS)
    assert log.log_end_offset == 0
    assert not disk.exists(DIRECTORY)
    return caught.value


def with_crc(data: bytearray) -> bytes:
    """Return the batch with a correct CRC."""
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


def test_offsets_and_leader_epoch_are_written_into_the_header() -> None:
    """A batch gets the next offset and the leader epoch, and its CRC stays valid."""
    log = open_log(MemoryDisk())
    log.begin_leader_epoch(7)
    first = log.append(memoryview(batch(b"a", b"b")), NOW_MS)
    second = log.append(batch(b"c"), NOW_MS)
    assert (first.base_offset, second.base_offset, log.log_end_offset) == (0, 2, 3)
    assert first.log_append_time_ms == -1
    headers = all_batches(log)
    assert [(h.base_offset, h.leader_epoch) for h in headers] == [(0, 7), (2, 7)]
    data = log.read(0, 1 << 20)
    assert all(crc_is_valid(data, header) for header in headers)


def test_nothing_is_on_the_disk_before_the_first_record() -> None:
    """A partition without any append has no directory."""
    disk = MemoryDisk()
    log = open_log(disk)
    assert log.read(0, 100) == b""
    assert disk.operations == []
    log.append(batch(), NOW_MS)
    assert disk.read_file(f"{DIRECTORY}/partition.metadata").startswith(b"version: 0\ntopic_id: ")
    assert disk.read_file(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n1\n0 0\n"


def test_an_append_is_one_write() -> None:
    """An append to an existing log costs one disk operation."""
    disk = MemoryDisk()
    log = open_log(disk)
    log.append(batch(), NOW_MS)
    before = len(disk.operations)
    log.append(batch(b"a" * 1000), NOW_MS)
    assert [name for name, _ in disk.operations[before:]] == ["append"]


@pytest.mark.parametrize("compression", list(Compression))
def test_batches_are_stored_as_they_came(compression: Compression) -> None:
    """With compression.type=producer the client's bytes are stored, whatever the codec."""
    log = open_log(MemoryDisk())
    data = batch(b"a" * 500, b"b" * 500, compression=compression)
    log.append(data, NOW_MS)
    stored = log.read(0, 1 << 20)
    assert stored[17:] == data[17:]


def test_another_compression_type_recompresses() -> None:
    """A topic with another compression.type stores the records with that codec."""
    log = open_log(MemoryDisk(), LogConfig(compression_type="gzip"))
    log.append(batch(b"a" * 500, compression=Compression.ZSTD), NOW_MS)
    data = log.read(0, 1 << 20)
    header = read_header(data)
    assert header.compression is Compression.GZIP
    assert crc_is_valid(data, header)
    assert [r.value for r in iterate_records(data, header)] == [b"a" * 500]


def test_uncompressed_topics_unpack() -> None:
    """With compression.type=uncompressed compressed batches are stored without compression."""
    log = open_log(MemoryDisk(), LogConfig(compression_type="uncompressed"))
    log.append(batch(b"a" * 500, compression=Compression.LZ4), NOW_MS)
    header = all_batches(log)[0]
    assert header.compression is Compression.NONE
    assert values_of(log) == [(0, b"a" * 500)]


def test_log_append_time_stamps_the_batch() -> None:
    """With LogAppendTime the batch has the broker's time and the corresponding attribute."""
    log = open_log(MemoryDisk(), LogConfig(message_timestamp_type="LogAppendTime"))
    result = log.append(batch(timestamp_ms=5), NOW_MS)
    assert result.log_append_time_ms == NOW_MS
    data = log.read(0, 1 << 20)
    header = read_header(data)
    assert header.log_append_time
    assert header.max_timestamp_ms == NOW_MS
    assert crc_is_valid(data, header)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (b"short", ErrorCode.INVALID_RECORD),
        (batch() + batch(), ErrorCode.INVALID_RECORD),
        (batch()[:-1], ErrorCode.INVALID_RECORD),
        (batch(control=True), ErrorCode.INVALID_RECORD),
        (batch()[:16] + b"\x01" + batch()[17:], ErrorCode.INVALID_RECORD),
        (batch()[:16] + b"\x09" + batch()[17:], ErrorCode.CORRUPT_MESSAGE),
        (batch()[:8] + bytes(4) + batch()[12:], ErrorCode.CORRUPT_MESSAGE),
        (batch()[:-1] + b"X", ErrorCode.CORRUPT_MESSAGE),
        (batch()[:7] + b"\x05" + batch()[8:], ErrorCode.INVALID_RECORD),
        (batch(producer_id=1, producer_epoch=0), ErrorCode.INVALID_RECORD),
    ],
)
def test_bad_batches_are_refused(data: bytes, code: ErrorCode) -> None:
    """A request must have exactly one complete, valid data batch of format 2 at offset 0."""
    assert refused(data).code is code


def test_unknown_codecs_are_refused() -> None:
    """A batch with an unknown codec is refused."""
    data = bytearray(batch())
    data[22] |= 5
    assert refused(with_crc(data)).code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_the_topic_decides_the_timestamp_type() -> None:
    """A batch with LogAppendTime loses this attribute in a CreateTime topic."""
    data = bytearray(batch())
    data[22] |= 8
    log = open_log(MemoryDisk())
    log.append(with_crc(data), NOW_MS)
    stored = log.read(0, 1 << 20)
    assert stored[17:] == batch()[17:]


@pytest.mark.parametrize(("position", "value"), [(57, 0), (57, 2), (23, 7), (57, -1)])
def test_inconsistent_counts_are_refused(position: int, value: int) -> None:
    """The record count must agree with the last offset delta, even with a valid CRC."""
    data = bytearray(batch())
    struct.pack_into(">i", data, position, value)
    assert refused(with_crc(data)).code is ErrorCode.INVALID_RECORD


def test_too_large_batches_are_refused() -> None:
    """A batch above max.message.bytes is refused, and so is a batch above segment.bytes."""
    assert refused(batch(b"x" * 200), LogConfig(max_message_bytes=200)).code is (
        ErrorCode.MESSAGE_TOO_LARGE
    )
    log = open_log(MemoryDisk(), LogConfig(segment_bytes=100))
    with pytest.raises(StorageError) as caught:
        log.append(batch(b"x" * 200), NOW_MS)
    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_timestamps_out_of_range_are_refused() -> None:
    """CreateTime must be within message.timestamp.before/after.max.ms of the broker's clock."""
    assert refused(batch(timestamp_ms=NOW_MS + 3600001)).code is ErrorCode.INVALID_TIMESTAMP
    config = LogConfig(message_timestamp_before_max_ms=1000)
    error = refused(batch(b"a", b"b", timestamp_ms=NOW_MS - 1001), config)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [0, 1]
    log = open_log(MemoryDisk(), config)
    log.append(batch(timestamp_ms=NOW_MS - 1000), NOW_MS)
    assert log.log_end_offset == 1


def test_compacted_topics_refuse_records_without_key() -> None:
    """A record without a key in a compacted topic is reported by its index."""
    config = LogConfig(cleanup_policy=("compact",))
    error = refused(keyed((b"k", b"1"), (None, b"2")), config)
    assert error.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in error.record_errors] == [1]


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_records_that_do_not_parse_are_refused(policy: str) -> None:
    """Invalid records with a valid CRC are refused."""
    data = bytearray(batch())
    data[61:] = b"\x02" * (len(data) - 61)
    config = LogConfig(cleanup_policy=(policy,))
    assert refused(with_crc(data), config).code is ErrorCode.INVALID_RECORD


def test_the_largest_timestamp_is_that_of_the_records() -> None:
    """A largest timestamp of -1, as in sarama before 1.45.1, is corrected before storing."""
    data = bytearray(batch(b"a", timestamp_ms=NOW_MS))
    struct.pack_into(">q", data, 35, -1)
    log = open_log(MemoryDisk())
    log.append(with_crc(data), NOW_MS)
    assert log.read(0, 1 << 20)[17:] == batch(b"a", timestamp_ms=NOW_MS)[17:]
    found = log.offset_for_timestamp(NOW_MS)
    assert found is not None
    assert (found.offset, found.timestamp) == (0, NOW_MS)


def test_an_own_batch_is_written_as_it_was_built() -> None:
    """A batch built by the broker is not parsed again.

    The batch gets base offset and leader epoch and is written in one write.
    """
    disk = MemoryDisk()
    log = open_log(disk)
    log.append(batch(b"x"), NOW_MS)
    log.begin_leader_epoch(7)
    built = own(batch(b"a", b"b"))
    header = built.header._replace(crc=99)
    before = len(disk.operations)
    result = log.append_own(EncodedBatch(header, bytes(len(built.body))), NOW_MS)
    assert len(disk.operations) == before + 1
    assert (result.base_offset, log.log_end_offset) == (1, 3)
    stored = log.read(1, 1 << 20)
    assert read_header(stored[:21] + built.body) == header._replace(base_offset=1, leader_epoch=7)
    assert not any(stored[21:])


def test_own_batches_may_be_control_batches_but_not_too_large() -> None:
    """The broker may append control batches, but not above `max.message.bytes`."""
    log = open_log(MemoryDisk())
    log.append_own(own(batch(b"a")), NOW_MS)
    log.append_own(marker(1, 0, commit=True), NOW_MS)
    assert [header.is_control for header in all_batches(log)] == [False, True]
    with pytest.raises(MessageTooLargeError):
        log.append_own(own(batch(b"x" * 2_000_000)), NOW_MS)


@pytest.mark.parametrize("torn", [False, True])
def test_a_failed_write_leaves_no_trace(torn: bool) -> None:
    """After a failed write on a full disk, the next append gets the same offset and position.

    The same holds after a restart.
    """
    disk = MemoryDisk()
    log = open_log(disk)
    log.append(batch(b"1"), NOW_MS)
    disk.fail_at(0, torn=torn)
    with pytest.raises(StorageError) as caught:
        log.append(batch(b"lost"), NOW_MS)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "No space left" in str(caught.value)
    assert values_of(log) == [(0, b"1")]
    log.append(batch(b"2"), NOW_MS)
    assert values_of(log) == [(0, b"1"), (1, b"2")]
    again = open_log(disk)
    assert not again.recovery_reports
    assert values_of(again) == [(0, b"1"), (1, b"2")]


def test_every_failing_operation_of_an_append_is_harmless() -> None:
    """If any disk operation of an append or roll fails, acknowledged records stay."""
    config = LogConfig(segment_bytes=150)
    for operation in range(60):
        disk = MemoryDisk()
        log = open_log(disk, config)
        disk.fail_at(operation, torn=True)
        stored = []
        for number in range(8):
            value = b"%d" % number
            try:
                result = log.append(batch(value), NOW_MS)
            except StorageError:
                continue
            stored.append((result.base_offset, value))
        assert len(stored) >= 7
        assert values_of(log) == stored
        was_pending = disk.fault_is_pending
        disk.processes_died()
        assert values_of(open_log(disk, config)) == stored
        if was_pending:
            return
    raise AssertionError("the loop did not reach the last operation")


def test_flush_messages_syncs_before_the_answer() -> None:
    """With flush.messages=1 an acknowledged record survives a power cut."""
    disk = MemoryDisk()
    log = open_log(disk, LogConfig(flush_messages=1))
    disk.sync_directory("")
    log.append(batch(b"1"), NOW_MS)
    log.append(batch(b"2"), NOW_MS)
    disk.power_cut()
    assert values_of(open_log(disk)) == [(0, b"1"), (1, b"2")]


def test_a_closed_log_refuses() -> None:
    """A closed log refuses reads and appends."""
    log = open_log(MemoryDisk())
    log.close()
    with pytest.raises(StorageError):
        log.append(batch(), NOW_MS)
    with pytest.raises(StorageError):
        log.append_own(own(batch()), NOW_MS)
    with pytest.raises(StorageError):
        log.read(0, 1)


def test_a_record_without_a_timestamp_is_never_too_old() -> None:
    """A record with timestamp -1, which means none, is not checked against the limit."""
    log = open_log(MemoryDisk(), LogConfig(message_timestamp_before_max_ms=1000))
    assert log.append(batch(b"v", timestamp_ms=-1), NOW_MS).base_offset == 0
    with pytest.raises(StorageError, match="invalid timestamp"):
        log.append(batch(b"v", timestamp_ms=NOW_MS - 1001), NOW_MS)
