"""Compaction of logs with transactions: aborts, commits, markers, and crash points.

`test_kafka_transactions` compares with Kafka's own passes.
"""

from __future__ import annotations

from random import Random

import pytest

from storage.cleaner import Cleaning
from storage.errors import StorageError
from storage.log_config import LogConfig
from storage.memory_disk import Crash, MemoryDisk
from storage.partition_log import PartitionLog
from tests.unit.storage.support import (
    DIRECTORY,
    NOW_MS,
    all_batches,
    committed,
    files_in,
    keyed,
    marker,
    open_log,
)

CONFIG = LogConfig(cleanup_policy=("compact",), segment_bytes=500, delete_retention_ms=1000)
ORDERS = 4
LATER = NOW_MS + 1000


def clean(log: PartitionLog, first_dirty: int = 0, now_ms: int = NOW_MS) -> None:
    """Run a whole pass."""
    for _ in Cleaning(log, first_dirty, now_ms).run():
        pass


class Producers:
    """Transactional producers of a log, which count their sequences."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self._sequences: dict[int, int] = {}

    def send(self, producer_id: int, *pairs: tuple[bytes, bytes | None]) -> None:
        """Append a batch of a producer's open transaction."""
        sequence = self._sequences.get(producer_id, 0)
        data = keyed(*pairs, producer_id=producer_id, sequence=sequence, transactional=True)
        self.log.append(data, NOW_MS)
        self._sequences[producer_id] = sequence + len(pairs)

    def end(self, producer_id: int, *, commit: bool) -> None:
        """Append the marker of the transaction."""
        self.log.append_own(marker(producer_id, 0, commit=commit), NOW_MS)


def shape(log: PartitionLog) -> list[tuple[int, int, str]]:
    """Return base offset, record count and kind of every batch."""
    return [
        (
            one.base_offset,
            one.record_count,
            ("C" if one.is_control else "T" if one.is_transactional else "")
            + ("h" if one.delete_horizon_ms is not None else ""),
        )
        for one in all_batches(log)
    ]


def table(log: PartitionLog) -> dict[bytes | None, bytes | None]:
    """Return the last committed value of each key without tombstones."""
    found = {record.key: record.value for record in committed(log)}
    return {key: value for key, value in found.items() if value is not None}


def test_aborted_records_go_and_supersede_nothing() -> None:
    """Aborted records are removed and supersede nothing; the marker stays."""
    log = open_log(MemoryDisk(), CONFIG)
    made = Producers(log)
    log.append(keyed((b"k", b"plain")), NOW_MS)
    made.send(5, (b"k", b"aborted"), (b"other", b"aborted"))
    made.send(5, (b"k", b"aborted too"))
    made.end(5, commit=False)
    made.send(5, (b"x", b"committed"))
    made.end(5, commit=True)
    log.append(keyed((b"end", b"1")), NOW_MS)
    log.roll(NOW_MS)
    clean(log)
    assert shape(log) == [(0, 1, ""), (4, 1, "C"), (5, 1, "T"), (6, 1, "C"), (7, 1, "")]
    assert table(log) == {b"k": b"plain", b"x": b"committed", b"end": b"1"}


def test_committed_records_supersede_and_are_superseded() -> None:
    """Committed records supersede and are superseded, like records without a transaction."""
    log = open_log(MemoryDisk(), CONFIG)
    made = Producers(log)
    log.append(keyed((b"k", b"plain")), NOW_MS)
    made.send(5, (b"k", b"committed"), (b"j", b"committed"))
    made.end(5, commit=True)
    log.append(keyed((b"j", b"plain")), NOW_MS)
    log.roll(NOW_MS)
    clean(log)
    assert shape(log) == [(1, 1, "T"), (3, 1, "C"), (4, 1, "")]
    assert table(log) == {b"k": b"committed", b"j": b"plain"}


@pytest.mark.parametrize("commit", [True, False])
def test_the_life_of_a_marker(commit: bool) -> None:
    """A marker outlives the records of its transaction, then gets a delete horizon.

    The pass after the horizon removes the marker. The marker also stays while the producer's last
    batch stays as an empty batch.
    """
    log = open_log(MemoryDisk(), CONFIG)
    made = Producers(log)
    made.send(5, (b"k", b"1"))
    made.end(5, commit=commit)
    log.append(keyed((b"k", b"2")), NOW_MS)
    log.append(keyed((b"end", b"1")), NOW_MS)
    log.roll(NOW_MS)
    plain = [(2, 1, ""), (3, 1, "")]
    for _ in range(2):
        clean(log)
        assert shape(log) == [(0, 0, "T"), (1, 1, "C"), *plain]
    log.producers.expire(NOW_MS + 10, 10)
    clean(log)
    assert shape(log) == [(1, 1, "C"), *plain]
    assert bool(log.aborted_transactions(0, 4)) is not commit
    clean(log)
    assert shape(log) == [(1, 1, "Ch"), *plain]
    assert log.aborted_transactions(0, 4) == []
    clean(log, now_ms=LATER - 1)
    assert shape(log) == [(1, 1, "Ch"), *plain]
    clean(log, now_ms=LATER)
    assert shape(log) == plain


def test_a_marker_that_has_the_producers_epoch_leaves_its_header() -> None:
    """A marker that fences an older epoch (KIP-890) leaves an empty batch.

    No batch was written after the marker.
    """
    disk = MemoryDisk()
    log = open_log(disk, CONFIG)
    made = Producers(log)
    made.send(5, (b"k", b"1"))
    log.append_own(marker(5, 1, commit=True), NOW_MS)
    log.append(keyed((b"k", b"2"), (b"end", b"1")), NOW_MS)
    log.roll(NOW_MS)
    clean(log)
    clean(log)
    clean(log, now_ms=LATER)
    assert shape(log) == [(1, 0, "C"), (2, 2, "")]
    assert log.producers.entries[5].epoch == 1
    log.close()
    assert open_log(disk, CONFIG, clean=True).producers.entries[5].epoch == 1


def test_the_last_batch_of_what_may_be_cleaned_leaves_its_header() -> None:
    """The last batch of the cleaned part leaves an empty batch, as in Kafka.

    The last offset is thus known from the log alone.
    """
    log = open_log(MemoryDisk(), CONFIG)
    log.append(keyed((b"k", b"1"), (b"gone", None)), NOW_MS)
    log.append(keyed((b"gone", None)), NOW_MS)
    log.roll(NOW_MS)
    clean(log)
    clean(log, now_ms=LATER)
    assert shape(log) == [(0, 1, ""), (2, 0, "")]


def test_nothing_is_cleaned_by_an_open_transaction() -> None:
    """Records from the start of an open transaction on stay and supersede nothing.

    Tombstones after their horizon stay too; records of aborted transactions are removed.
    """
    log = open_log(MemoryDisk(), CONFIG)
    made = Producers(log)
    log.append(keyed((b"k", b"1"), (b"j", b"1")), NOW_MS)
    log.append(keyed((b"k", b"2")), NOW_MS)
    made.send(7, (b"k", b"open"))
    log.append(keyed((b"j", None), (b"k", b"behind")), NOW_MS)
    made.send(5, (b"j", b"aborted"))
    made.end(5, commit=False)
    made.send(5, (b"q", b"committed"))
    made.end(5, commit=True)
    log.append(keyed((b"end", b"1")), NOW_MS)
    log.roll(NOW_MS)
    after = [(0, 1, ""), (2, 1, ""), (3, 1, "T"), (4, 2, "h"), (8, 1, "T"), (9, 1, "C")]
    for now_ms in (NOW_MS, LATER, LATER + 1):
        clean(log, now_ms=now_ms)
        assert [one for one in shape(log) if one[0] != 7] == [*after, (10, 1, "")]
    made.end(7, commit=True)
    log.append(keyed((b"last", b"1")), NOW_MS)
    log.roll(NOW_MS)
    expected = {b"k": b"behind", b"q": b"committed", b"end": b"1", b"last": b"1"}
    for first_dirty, now_ms in ((3, LATER), (3, LATER + 1), (0, 2 * LATER)):
        clean(log, first_dirty, now_ms)
        assert table(log) == expected


def test_a_pass_that_begins_in_the_middle_of_a_transaction() -> None:
    """A pass may start within a transaction.

    An aborted transaction that started before the dirty part is recognized, and one that ended
    before it is not confused with a later one.
    """
    log = open_log(MemoryDisk(), CONFIG)
    made = Producers(log)
    log.append(keyed((b"k", b"1"), (b"j", b"1")), NOW_MS)
    made.send(6, (b"x", b"aborted"))
    made.end(6, commit=False)
    made.send(5, (b"y", b"aborted"))
    made.send(5, (b"k", b"aborted"))
    made.end(5, commit=False)
    made.send(6, (b"j", b"committed"))
    made.end(6, commit=True)
    log.append(keyed((b"end", b"1")), NOW_MS)
    log.roll(NOW_MS)
    clean(log, first_dirty=5)
    assert table(log) == {b"k": b"1", b"j": b"committed", b"end": b"1"}
    assert shape(log)[0] == (0, 1, "")


def workload(disk: MemoryDisk, config: LogConfig = CONFIG) -> PartitionLog:
    """Return a rolled log of two producers with interleaved transactions over several segments.

    Every second transaction is aborted; plain records and tombstones lie in between.
    """
    log = open_log(disk, config)
    made = Producers(log)
    for number in range(6):
        made.send(1, (b"k%d" % (number % 3), b"one %d" % number))
        made.send(2, (b"k%d" % (number % 4), b"two %d" % number), (b"t", None))
        log.append(keyed((b"p%d" % (number % 2), b"plain %d" % number)), NOW_MS)
        made.end(1, commit=number % 2 == 0)
        made.send(2, (b"k%d" % (number % 5), b"two again %d" % number))
        made.end(2, commit=number % 3 == 0)
    log.roll(NOW_MS)
    return log


def test_passes_keep_what_readers_of_committed_records_see() -> None:
    """Passes do not change the records that read_committed readers get.

    The readers read everything at once, or batch by batch.
    """
    log = workload(MemoryDisk())
    expected = table(log)
    before = len(committed(log))
    for now_ms in (NOW_MS, NOW_MS, LATER, 2 * LATER, 3 * LATER):
        clean(log, now_ms=now_ms)
        assert table(log) == expected
        assert committed(log, 1) == committed(log)
    assert len(committed(log)) < before / 2
    left = [what for _, _, what in shape(log) if what.startswith("C")]
    assert len(left) <= 6  # twelve markers were written


@pytest.mark.parametrize("passes", [1, 2])
def test_every_crash_point_of_compaction_with_transactions(passes: int) -> None:
    """After a crash in any operation read_committed readers get the same records.

    The same holds after another pass, and the index is the one that recovery builds.
    """
    points = 0
    while True:
        for seed in range(ORDERS):
            disk = MemoryDisk()
            log = workload(disk)
            log.flush()
            expected = table(log)
            for number in range(passes - 1):
                clean(log, now_ms=NOW_MS + number)
            disk.crash_at(points, torn=bool(seed % 2))
            survived = False
            try:
                clean(log, now_ms=LATER)
                survived = True
            except Crash:
                pass
            disk.power_cut(Random(seed)) if seed >= 2 else disk.processes_died()
            again = open_log(disk, CONFIG, recovery_point=log.recovery_point)
            assert again.recovery_reports == []
            assert table(again) == expected
            assert not files_in(disk, DIRECTORY, ".cleaned")
            clean(again, now_ms=LATER)
            assert table(again) == expected
            again.close()
            assert table(open_log(disk, CONFIG, clean=True)) == expected
        if survived:
            assert points > 40
            return
        points += 1


def test_every_failing_operation_of_compaction_with_transactions() -> None:
    """After a disk error in a compaction the log reads correctly, at once and after reopening."""
    for operation in range(400):
        disk = MemoryDisk()
        log = workload(disk)
        expected = table(log)
        disk.fail_at(operation, torn=True)
        try:
            clean(log)
        except StorageError:
            if log.closed:
                log = open_log(disk, CONFIG, recovery_point=log.recovery_point)
            assert table(log) == expected
            clean(log)
            assert table(log) == expected
        else:
            assert operation > 40
            return
    raise AssertionError("the loop did not reach the last operation")
