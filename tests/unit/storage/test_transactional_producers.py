"""Transactional batches and markers that a log accepts: epochs and sequences."""

from __future__ import annotations

import pytest

from protocol.batch import end_transaction_batch
from protocol.control_record import EndTransaction
from protocol.errors import ErrorCode
from storage.errors import StorageError
from storage.log_config import LogConfig
from storage.memory_disk import MemoryDisk
from storage.partition_log import PartitionLog
from storage.producer_state import EPOCH_MAX
from storage.retention import delete_old_segments
from tests.unit.storage.support import NOW_MS, batch, open_log

PRODUCER = 7
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def sent(sequence: int, *, epoch: int = 0, transactional: bool = True) -> bytes:
    """Return a batch of one record."""
    return batch(
        producer_id=PRODUCER,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def send(
    log: PartitionLog, sequence: int, *, epoch: int = 0, transactional: bool = True
) -> ErrorCode:
    """Append a batch; return NONE or the error."""
    try:
        log.append(sent(sequence, epoch=epoch, transactional=transactional), NOW_MS)
    except StorageError as error:
        return error.code
    return ErrorCode.NONE


def end(
    log: PartitionLog,
    *,
    epoch: int = 0,
    version: int = 1,
    coordinator_epoch: int = 3,
    commits: bool = True,
) -> ErrorCode:
    """Append a marker as Partition.end_transaction does; return NONE or the error."""
    ending = EndTransaction(PRODUCER, epoch, commits, coordinator_epoch, version)
    try:
        log.producers.check_end(ending)
    except StorageError as error:
        return error.code
    log.append_own(end_transaction_batch(ending, NOW_MS), NOW_MS)
    return ErrorCode.NONE


def verify(log: PartitionLog, sequence: int, *, epoch: int = 0, version: int = 2) -> None:
    """Run the verification of a batch by the coordinator."""
    log.producers.begin_verification(
        PRODUCER, epoch, sequence, bumps_epochs=version == 2, now_ms=NOW_MS
    )


def test_a_plain_batch_in_an_open_transaction_is_refused() -> None:
    """A plain batch with the next sequence is refused during an open transaction.

    The batch is accepted once the transaction has ended.
    """
    log = open_log(MemoryDisk())
    send(log, 0)
    assert send(log, 1, transactional=False) is ErrorCode.INVALID_TXN_STATE
    assert send(log, 2, transactional=False) is OUT_OF_ORDER
    assert send(log, 0, transactional=False) is ErrorCode.NONE, "a repeated batch is answered"
    assert log.log_end_offset == 1
    end(log)
    assert send(log, 1, transactional=False) is ErrorCode.NONE
    assert log.last_stable_offset == log.log_end_offset == 3


@pytest.mark.parametrize("version", [0, 1])
def test_markers_of_transactions_v1(version: int) -> None:
    """A v1 marker is accepted with the epoch of the records or a later epoch.

    The marker is also accepted without an open transaction.
    """
    log = open_log(MemoryDisk())
    assert end(log, epoch=1, version=version) is ErrorCode.NONE, "a producer that never wrote here"
    send(log, 0, epoch=1)
    assert end(log, epoch=0, version=version) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.last_stable_offset == 1
    for _ in range(2):
        assert end(log, epoch=1, version=version) is ErrorCode.NONE
    assert end(log, epoch=4, version=version) is ErrorCode.NONE
    assert end(log, epoch=3, version=version) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert send(log, 1, epoch=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.last_stable_offset == log.log_end_offset == 5


def test_markers_of_transactions_v2() -> None:
    """A v2 marker has a later epoch than the records, and may be repeated (KIP-1228)."""
    log = open_log(MemoryDisk())
    send(log, 0, epoch=1)
    assert end(log, epoch=1, version=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    for _ in range(2):
        assert end(log, epoch=2, version=2) is ErrorCode.NONE
    send(log, 0, epoch=2)
    assert end(log, epoch=2, version=2) is ErrorCode.INVALID_PRODUCER_EPOCH, "the next one is open"
    assert log.last_stable_offset == 3


def test_the_last_epoch_can_be_ended() -> None:
    """At epoch 32767 a transaction can be ended with the same epoch."""
    log = open_log(MemoryDisk())
    send(log, 0, epoch=EPOCH_MAX)
    assert end(log, epoch=EPOCH_MAX, version=2) is ErrorCode.NONE
    assert log.last_stable_offset == 2


def test_markers_of_an_older_coordinator_are_fenced() -> None:
    """A marker of an older coordinator epoch is fenced, also after a restart."""
    disk = MemoryDisk()
    log = open_log(disk)
    send(log, 0)
    end(log, coordinator_epoch=5)
    send(log, 1)
    for again in (log, open_log(disk)):
        assert end(again, coordinator_epoch=4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert again.last_stable_offset == 2
    log = open_log(disk)
    assert end(log, coordinator_epoch=5) is ErrorCode.NONE
    assert end(log, coordinator_epoch=6) is ErrorCode.NONE


def test_transactions_v2_begin_with_sequence_0_where_the_producer_is_unknown() -> None:
    """In transactions v2 the first sequence of an unknown producer must be 0.

    In v1 any sequence is accepted, because the producer state may have expired (KIP-360, KIP-890).
    """
    log = open_log(MemoryDisk())
    verify(log, 5)
    assert send(log, 5) is OUT_OF_ORDER
    verify(log, 0)
    assert send(log, 0) is ErrorCode.NONE
    log = open_log(MemoryDisk())
    verify(log, 5, version=1)
    assert send(log, 5) is ErrorCode.NONE


def test_nothing_overtakes_the_first_batch_that_was_verified() -> None:
    """While a verified first batch is pending, higher sequences are refused."""
    log = open_log(MemoryDisk())
    verify(log, 5, version=1)
    verify(log, 3, version=1)
    verify(log, 4, version=1)
    assert send(log, 4) is OUT_OF_ORDER
    assert send(log, 3) is ErrorCode.NONE
    assert send(log, 4) is ErrorCode.NONE
    end(log)
    verify(log, 5, version=1)
    verify(log, 0, epoch=1, version=1)
    assert send(log, 1, epoch=1) is OUT_OF_ORDER
    assert send(log, 5) is OUT_OF_ORDER, "the lowest sequence is that of the newest epoch"


def test_a_marker_ends_verifications_but_not_those_of_the_next_transaction() -> None:
    """A marker ends pending verifications, except those of the next transaction.

    In v2 the next transaction has the marker's epoch, and may have started already.
    """
    log = open_log(MemoryDisk())
    send(log, 0)
    verify(log, 0, epoch=1)
    end(log, epoch=1, version=2)
    assert send(log, 1, epoch=1) is OUT_OF_ORDER
    log = open_log(MemoryDisk())
    verify(log, 0, epoch=1)
    end(log, epoch=2, version=2)
    assert send(log, 1, epoch=3) is OUT_OF_ORDER, "a new epoch begins with 0"
    log.producers.entries.clear()
    assert send(log, 1, epoch=1) is ErrorCode.NONE


def test_verifications_expire_as_producers_do() -> None:
    """A verification without an append expires after `producer.id.expiration.ms`."""
    log = open_log(MemoryDisk())
    verify(log, 0)
    log.producers.expire(NOW_MS + 99, 100)
    assert send(log, 1) is OUT_OF_ORDER
    log.producers.expire(NOW_MS + 100, 100)
    assert send(log, 1) is ErrorCode.NONE


@pytest.mark.parametrize("clean", [True, False])
def test_a_transaction_whose_first_records_retention_deleted_stays_open(clean: bool) -> None:
    """A transaction whose first records were deleted stays open until its marker.

    The transaction holds the last stable offset at the log start, also after a restart.
    """
    disk = MemoryDisk()
    log = open_log(disk, LogConfig(retention_ms=1000))
    for sequence in range(3):
        send(log, sequence)
        log.roll(NOW_MS)
    log.append(batch(timestamp_ms=NOW_MS + 5000), NOW_MS)
    delete_old_segments(log, NOW_MS + 5000)
    assert (log.log_start_offset, log.last_stable_offset) == (3, 3)
    if clean:
        log.close()
    log = open_log(disk, clean=clean, log_start_offset=3)
    assert log.last_stable_offset == 3
    assert log.producers.transactions == {PRODUCER: 0}
    assert send(log, 3) is ErrorCode.NONE
    assert end(log, commits=False) is ErrorCode.NONE
    assert log.last_stable_offset == log.log_end_offset == 6
    assert [found[:3] for found in log.aborted_transactions(3, 6)] == [(PRODUCER, 0, 5)]
