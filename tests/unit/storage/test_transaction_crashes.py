"""Crash points of transactional writes: records, markers, rolls, clean stops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from protocol.batch import end_transaction_batch
from protocol.control_record import EndTransaction
from storage.log_config import LogConfig
from storage.memory_disk import Crash, MemoryDisk
from storage.partition_log import PartitionLog
from tests.unit.storage.support import NOW_MS, all_bytes, batch, open_log

SMALL = LogConfig(segment_bytes=200)


class Send(NamedTuple):
    """A batch of one record."""

    producer_id: int
    epoch: int
    sequence: int
    transactional: bool = True


# Each batch has one offset. Producer 1 uses transactions v2, so its markers have the next epoch.
# Producers 2 and 3 use transactions v1. The transaction of producer 3 is open over nearly all
# segments. Producer 4 writes plain batches. Producer 5 has an open transaction at the end.
HISTORY: tuple[Send | EndTransaction, ...] = (
    Send(3, 0, 0),
    Send(1, 0, 0),
    Send(1, 0, 1),
    EndTransaction(1, 1, True, 7, 2),
    Send(2, 4, 0),
    Send(4, 0, 0, transactional=False),
    Send(1, 1, 0),
    EndTransaction(2, 4, False, 7, 1),
    Send(3, 0, 1),
    EndTransaction(1, 2, False, 8, 2),
    Send(4, 0, 1, transactional=False),
    Send(2, 4, 1),
    EndTransaction(6, 0, False, 8, 1),  # producer 6 has no records in this log
    Send(5, 0, 0),
    EndTransaction(3, 1, False, 8, 1),  # producer 3 was fenced
    Send(1, 2, 0),
    EndTransaction(2, 4, True, 9, 1),
    EndTransaction(1, 3, True, 9, 2),
)


class Expected(NamedTuple):
    """The state of a log with the first steps of the history."""

    producers: dict[int, tuple[int, int, int]]
    """Epoch, coordinator epoch, start of the open transaction."""
    aborted: list[tuple[int, int, int]]
    last_stable_offset: int


def expected(count: int) -> Expected:
    """Return the expected state, computed from the history alone."""
    producers: dict[int, tuple[int, int, int]] = {}
    aborted = []
    for offset, step in enumerate(HISTORY[:count]):
        producer_id = step.producer_id
        epoch, coordinator, start = producers.get(producer_id, (0, -1, -1))
        if isinstance(step, EndTransaction):
            if start >= 0 and not step.commits:
                aborted.append((producer_id, start, offset))
            epoch, coordinator, start = step.producer_epoch, step.coordinator_epoch, -1
        else:
            epoch = step.epoch
            if step.transactional and start < 0:
                start = offset
        producers[producer_id] = (epoch, coordinator, start)
    starts = [start for _, _, start in producers.values() if start >= 0]
    return Expected(producers, aborted, min([*starts, count]))


def known(log: PartitionLog) -> Expected:
    """Return the state of a log."""
    producers = {
        producer_id: (entry.epoch, entry.coordinator_epoch, entry.transaction_start)
        for producer_id, entry in log.producers.entries.items()
    }
    aborted = [found[:3] for found in log.aborted_transactions(0, log.log_end_offset)]
    return Expected(producers, aborted, log.last_stable_offset)


def write(log: PartitionLog, step: Send | EndTransaction) -> None:
    """Append one step."""
    if isinstance(step, EndTransaction):
        log.producers.check_end(step)
        log.append_own(end_transaction_batch(step, NOW_MS), NOW_MS)
        return
    data = batch(
        producer_id=step.producer_id,
        producer_epoch=step.epoch,
        base_sequence=step.sequence,
        transactional=step.transactional,
    )
    log.append(data, NOW_MS)


def go_on(log: PartitionLog) -> None:
    """Append the missing steps of the history."""
    for step in HISTORY[log.log_end_offset :]:
        write(log, step)


def crashed_disks(kind: str, config: LogConfig, *, torn: bool) -> Iterator[MemoryDisk]:
    """Yield the disk after a crash at each operation of the history and a clean stop."""
    for operation in range(400):
        disk = MemoryDisk()
        disk.crash_at(operation, torn=torn)
        try:
            log = open_log(disk, config)
            go_on(log)
            log.close()
        except Crash:
            disk.processes_died() if kind == "kill" else disk.power_cut()
            yield disk
        else:
            return
    raise AssertionError("the loop did not reach the last operation")


@pytest.mark.parametrize("kind", ["kill", "power"])
@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("flush_messages", [1, 4])
def test_every_crash_point_of_live_transactions(kind: str, torn: bool, flush_messages: int) -> None:
    """After any crash a log has the producer state of its batches and continues.

    In the end it has the bytes of a log without a crash.
    """
    config = SMALL._replace(flush_messages=flush_messages)
    undisturbed = open_log(MemoryDisk(), config)
    go_on(undisturbed)
    points = 0
    for disk in crashed_disks(kind, config, torn=torn):
        points += 1
        log = open_log(disk, config)
        assert known(log) == expected(log.log_end_offset)
        go_on(log)
        assert known(log) == expected(len(HISTORY))
        assert all_bytes(log) == all_bytes(undisturbed)
        log.close()
        assert known(open_log(disk, config, clean=True)) == expected(len(HISTORY))
    assert points > 80


@pytest.mark.parametrize("kind", ["kill", "power"])
def test_a_marker_whose_answer_was_lost_is_written_again(kind: str) -> None:
    """A marker that is repeated after a lost response is appended and changes nothing for readers.

    The coordinator does not know whether the first marker was written.
    """
    for disk in crashed_disks(kind, SMALL, torn=False):
        log = open_log(disk, SMALL)
        last = HISTORY[log.log_end_offset - 1] if log.log_end_offset else None
        if not isinstance(last, EndTransaction):
            continue
        before = known(log)
        write(log, last)
        after = known(log)
        assert after[:2] == before[:2]
        assert after.last_stable_offset - before.last_stable_offset in (0, 1)
