"""Idempotent producers: duplicates, gaps, fences, transactions, snapshots, expiry."""

from __future__ import annotations

import pytest

from protocol.batch_header import BatchHeader, read_header
from protocol.errors import ErrorCode
from storage.errors import StorageError
from storage.log_config import LogConfig
from storage.memory_disk import MemoryDisk
from storage.partition_log import AppendResult, PartitionLog
from storage.producer_state import SEQUENCE_MAX, ProducerState, snapshot_offsets
from tests.unit.storage.support import (
    DIRECTORY,
    NOW_MS,
    batch,
    flip,
    marker,
    open_log,
    overwrite,
    values_of,
)


def send(
    log: PartitionLog, sequence: int, *values: bytes, epoch: int = 0, producer_id: int = 7
) -> AppendResult:
    """Append a batch of an idempotent producer; return the result."""
    data = batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    return log.append(data, NOW_MS)


def repeat(log: PartitionLog, sequence: int, *values: bytes, producer_id: int = 7) -> AppendResult:
    """Append a duplicate batch, which must not be stored again; return the result."""
    end = log.log_end_offset
    result = send(log, sequence, *values, producer_id=producer_id)
    assert log.log_end_offset == end
    return result


def header_of(
    producer_id: int,
    *,
    sequence: int = 0,
    count: int = 1,
    epoch: int = 0,
    timestamp_ms: int = NOW_MS,
    transactional: bool = False,
) -> BatchHeader:
    """Return the header of a batch of an idempotent producer."""
    data = batch(
        *[b"v"] * count,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        timestamp_ms=timestamp_ms,
        transactional=transactional,
    )
    return read_header(data)


def refusal(log: PartitionLog, sequence: int, epoch: int = 0) -> ErrorCode:
    """Append a batch that the log must refuse; return the error code."""
    with pytest.raises(StorageError) as caught:
        send(log, sequence, epoch=epoch)
    return caught.value.code


def test_the_last_five_batches_are_answered_again() -> None:
    """A duplicate of the last five batches gets its first response and is stored once.

    An older duplicate is refused as out of order.
    """
    log = open_log(MemoryDisk())
    for sequence in range(0, 12, 2):
        send(log, sequence, b"a", b"b")
    for sequence in range(2, 12, 2):
        result = repeat(log, sequence, b"a", b"b")
        assert result.base_offset == sequence
    assert refusal(log, 0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 12


def test_gaps_are_out_of_order() -> None:
    """A sequence gap, or a known first sequence with another length, is refused."""
    log = open_log(MemoryDisk())
    send(log, 0)
    assert refusal(log, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    with pytest.raises(StorageError):
        send(log, 0, b"a", b"b")
    assert send(log, 1).base_offset == 1


def test_unknown_producers_may_begin_anywhere() -> None:
    """An unknown producer id may start with any sequence (KIP-360)."""
    log = open_log(MemoryDisk())
    assert send(log, 41).base_offset == 0
    assert send(log, 42).base_offset == 1


def test_after_a_batch_without_an_epoch_a_producer_may_begin_anywhere() -> None:
    """After a first batch with epoch -1 any sequence is accepted, as in Kafka 4.4.0."""
    log = open_log(MemoryDisk())
    send(log, 1, b"a", b"b", epoch=-1)
    assert send(log, 3, b"c", epoch=0).base_offset == 2
    with pytest.raises(StorageError):
        send(log, 5, b"d", epoch=1)


def test_sequences_wrap() -> None:
    """A producer's sequence 2^31-1 is followed by 0."""
    log = open_log(MemoryDisk())
    send(log, SEQUENCE_MAX - 1, b"a", b"b")
    assert send(log, 0).base_offset == 2
    repeat(log, SEQUENCE_MAX - 1, b"a", b"b")
    log = open_log(MemoryDisk())
    send(log, SEQUENCE_MAX, b"a", b"b")
    assert send(log, 1).base_offset == 2


def test_older_epochs_are_fenced() -> None:
    """A newer epoch starts at sequence 0 and fences the older epoch."""
    log = open_log(MemoryDisk())
    send(log, 0)
    assert refusal(log, 5, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    send(log, 0, epoch=1)
    assert refusal(log, 1, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert send(log, 1, epoch=1).base_offset == 2


def test_state_survives_every_kind_of_stop() -> None:
    """The last five batches are known after a kill, and the last batch after a clean stop."""
    disk = MemoryDisk()
    log = open_log(disk)
    for sequence in range(4):
        send(log, sequence)
    killed = open_log(disk)
    repeat(killed, 0)
    repeat(killed, 3)
    killed.close()
    stopped = open_log(disk, clean=True)
    repeat(stopped, 3)
    assert refusal(stopped, 9) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(stopped, 4).base_offset == 4


def test_state_is_replayed_from_the_snapshot_of_the_roll() -> None:
    """After a kill the state comes from the snapshot of the last roll and later batches."""
    disk = MemoryDisk()
    config = LogConfig(segment_bytes=300)
    log = open_log(disk, config)
    for sequence in range(10):
        send(log, sequence)
    send(log, 3, producer_id=8)
    assert len(snapshot_offsets(disk.listdir(DIRECTORY))) == 2
    again = open_log(disk, config)
    repeat(again, 9)
    repeat(again, 3, producer_id=8)
    assert send(again, 10).base_offset == 11


@pytest.mark.parametrize("damage", ["flip", "short", "missing", "ahead"])
def test_damaged_snapshots_are_ignored(damage: str) -> None:
    """A snapshot that is damaged, missing or ahead of the log is ignored."""
    disk = MemoryDisk()
    log = open_log(disk)
    for sequence in range(3):
        send(log, sequence)
    log.close()
    path = f"{DIRECTORY}/{3:020d}.snapshot"
    if damage == "flip":
        flip(disk, path, 30)
    elif damage == "short":
        overwrite(disk, path, disk.read_file(path)[:-1])
    elif damage == "missing":
        disk.unlink(path)
    else:
        disk.rename(path, f"{DIRECTORY}/{9:020d}.snapshot")
    again = open_log(disk)
    repeat(again, 2)
    assert refusal(again, 7) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    if damage in ("flip", "short"):
        assert not disk.exists(path)


def test_snapshots_have_kafkas_bytes() -> None:
    """A snapshot has version, CRC-32C, count, and 46 bytes per producer, as in Kafka."""
    state = ProducerState()
    assert len(state.encode()) == 10
    header = header_of(1001, sequence=5, count=2, epoch=2)
    state.append(header, 20, None)
    data = state.encode()
    assert len(data) == 56
    assert data[:2] == b"\x00\x01"
    assert data[6:10] == b"\x00\x00\x00\x01"
    assert int.from_bytes(data[10:18], "big") == 1001
    again = ProducerState.decode(data)
    assert again is not None
    assert again.encode() == data
    assert again.check(header) == state.check(header)
    for position in range(len(data)):
        assert ProducerState.decode(data[:position]) is None
        bad = bytearray(data)
        bad[position] ^= 1
        assert ProducerState.decode(bytes(bad)) is None


def test_idle_producers_expire() -> None:
    """A producer without an open transaction expires after producer.id.expiration.ms."""
    state = ProducerState()
    state.append(header_of(1, timestamp_ms=1000), 0, None)
    state.append(header_of(2, timestamp_ms=1000, transactional=True), 1, None)
    state.append(header_of(3, timestamp_ms=1001), 2, None)
    state.expire(1100, 100)
    assert sorted(state.entries) == [2, 3]


def test_open_transactions_hold_the_last_stable_offset() -> None:
    """The last stable offset is the start of the oldest open transaction, also after restarts.

    A marker advances the last stable offset.
    """
    disk = MemoryDisk()
    log = open_log(disk)
    log.append(batch(), NOW_MS)
    for producer_id in (1, 2):
        log.append(
            batch(producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True),
            NOW_MS,
        )
    assert log.last_stable_offset == 1
    assert log.high_watermark == 3
    log.append_own(marker(1, 0, commit=True), NOW_MS)
    assert log.last_stable_offset == 2
    log.close()
    for clean in (True, False):
        log = open_log(disk, clean=clean)
        assert log.last_stable_offset == 2
    log.append_own(marker(2, 1, commit=False), NOW_MS)
    assert log.last_stable_offset == log.log_end_offset == 5
    again = open_log(disk)
    assert again.last_stable_offset == 5
    assert again.producers.entries[2].epoch == 1
    assert again.producers.entries[2].coordinator_epoch == 9
    assert refusal_of_epoch(again, 2) is ErrorCode.INVALID_PRODUCER_EPOCH


def refusal_of_epoch(log: PartitionLog, producer_id: int) -> ErrorCode:
    """Append a batch with an epoch lower than the marker's; return the error code."""
    with pytest.raises(StorageError) as caught:
        send(log, 1, producer_id=producer_id)
    return caught.value.code


def test_a_failed_write_does_not_move_the_sequence() -> None:
    """After a failed write the producer may send the same batch again."""
    disk = MemoryDisk()
    log = open_log(disk)
    send(log, 0, b"0")
    disk.fail_at(0, torn=True)
    with pytest.raises(StorageError):
        send(log, 1, b"1")
    assert send(log, 1, b"1").base_offset == 1
    assert log.log_end_offset == 2
    assert values_of(log) == [(0, b"0"), (1, b"1")]
