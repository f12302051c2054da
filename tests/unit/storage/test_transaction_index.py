"""Aborted transactions: Kafka's `.txnindex` bytes, read_committed readers, and crashes."""

from __future__ import annotations

from random import Random

import pytest

from storage.errors import StorageError
from storage.log_config import LogConfig
from storage.memory_disk import Crash, MemoryDisk
from storage.partition_log import PartitionLog
from storage.transaction_index import AbortedTxn, encoded, looks_whole
from tests.unit.storage.support import (
    DIRECTORY,
    NOW_MS,
    batch,
    files_in,
    flip,
    marker,
    open_log,
    overwrite,
    own,
)

SMALL = LogConfig(segment_bytes=200)
FIRST = f"{DIRECTORY}/{0:020d}.txnindex"
Found = list[tuple[int, int, int, int]]


def send(log: PartitionLog, producer_id: int, sequence: int, count: int = 1) -> None:
    """Append a batch of a transaction."""
    data = batch(
        *[b"v"] * count,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    log.append(data, NOW_MS)


def end(log: PartitionLog, producer_id: int, *, commit: bool) -> None:
    """Append the marker that ends a producer's transaction."""
    log.append_own(marker(producer_id, 0, commit=commit), NOW_MS)


def told(log: PartitionLog, start: int = 0, stop: int | None = None) -> Found:
    """Return the aborted transactions for readers of a range, as plain tuples."""
    found = log.aborted_transactions(start, log.log_end_offset if stop is None else stop)
    return [(one[0], one[1], one[2], one[3]) for one in found]


def interleaved(disk: MemoryDisk, config: LogConfig = SMALL) -> PartitionLog:
    """Return a log with producers 1 (aborts), 2 (commits) and 3 (stays open) over several segments.

    Offsets: 0 p1, 1 p2, 2 p1, 3 abort 1, 4 p1, 5 commit 2, 6 p3, 7 p1, 8 abort 1, 9 plain, 10 p1,
    11 p1, 12 abort 1
    """
    log = open_log(disk, config)
    send(log, 1, 0)
    send(log, 2, 0)
    send(log, 1, 1)
    end(log, 1, commit=False)
    send(log, 1, 2)
    end(log, 2, commit=True)
    send(log, 3, 0)
    send(log, 1, 3)
    end(log, 1, commit=False)
    log.append(batch(), NOW_MS)
    send(log, 1, 4, 2)
    end(log, 1, commit=False)
    return log


ABORTED = [(1, 0, 3, 1), (1, 4, 8, 6), (1, 10, 12, 6)]


def test_an_entry_has_kafkas_bytes() -> None:
    """An entry is 34 bytes: version 0, producer id, first, last and last stable offset."""
    disk = MemoryDisk()
    interleaved(disk, LogConfig())
    contents = disk.read_file(FIRST)
    assert contents == encoded(AbortedTxn(*one) for one in ABORTED)
    assert contents[:34] == bytes.fromhex(
        "0000 0000000000000001 0000000000000000 0000000000000003 0000000000000001"
    )


def test_an_entry_lies_in_the_segment_of_its_marker() -> None:
    """An entry is in the segment of its marker; a segment without such markers has no file."""
    disk = MemoryDisk()
    log = interleaved(disk)
    names = files_in(disk, DIRECTORY, ".txnindex")
    with_markers = {
        segment.base_offset
        for segment, following in zip(log.segments, [*log.segments[1:], None], strict=True)
        for one in ABORTED
        if segment.base_offset <= one[2] < (following.base_offset if following else 99)
    }
    assert [int(name[:20]) for name in names] == sorted(with_markers)
    assert 1 < len(names) < len(log.segments)


def test_readers_are_told_what_overlaps() -> None:
    """Readers get the transactions with a record or marker in the range, from any segment."""
    log = interleaved(MemoryDisk())
    assert told(log) == ABORTED
    assert told(log, 4) == ABORTED[1:]
    assert told(log, 0, 4) == ABORTED[:1]
    assert told(log, 0, 5) == ABORTED[:2]
    assert told(log, 5, 6) == ABORTED[1:2]
    assert told(log, 9, 10) == []
    assert told(log, 9, 11) == ABORTED[2:]
    assert told(log, 13) == []
    assert log.last_stable_offset == 6


def test_commits_and_empty_transactions_leave_no_entry() -> None:
    """Commits, and aborts without records, leave no entry."""
    disk = MemoryDisk()
    log = open_log(disk)
    send(log, 1, 0)
    end(log, 1, commit=True)
    end(log, 1, commit=False)
    end(log, 7, commit=False)
    assert told(log) == []
    assert not files_in(disk, DIRECTORY, ".txnindex")


@pytest.mark.parametrize("clean", [True, False])
def test_it_is_there_after_a_restart(clean: bool) -> None:
    """After a clean stop the index files are read; after an unclean stop they are rebuilt."""
    disk = MemoryDisk()
    log = interleaved(disk)
    if clean:
        log.close()
    else:
        disk.processes_died()
        for name in files_in(disk, DIRECTORY, ".txnindex"):
            disk.unlink(f"{DIRECTORY}/{name}")
    disk.operations.clear()
    again = open_log(disk, SMALL, clean=clean)
    assert told(again) == ABORTED
    assert again.last_stable_offset == 6
    if clean:
        assert not [path for _, path in disk.operations if "txnindex" in path]
    end(again, 3, commit=False)
    assert told(again) == [*ABORTED, (3, 6, 13, 14)]
    assert again.last_stable_offset == again.log_end_offset == 14


@pytest.mark.parametrize("damage", ["torn", "version", "offset", "order", "missing log index"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_index_is_made_anew(damage: str, clean: bool) -> None:
    """A damaged index does not change the aborted transactions that readers get.

    The damage is half an entry, a wrong version or offset, a repeated entry, or a missing file; the
    stop may be clean or not.
    """
    disk = MemoryDisk()
    log = interleaved(disk)
    log.close()
    names = files_in(disk, DIRECTORY, ".txnindex")
    path = f"{DIRECTORY}/{names[-1]}"
    contents = disk.read_file(path)
    if damage == "torn":
        overwrite(disk, path, contents + contents[:11])
    elif damage == "version":
        flip(disk, path, 1)
    elif damage == "offset":
        flip(disk, path, 2 + 3 * 8 - 1)
    elif damage == "order":
        overwrite(disk, path, contents + contents)
    else:
        disk.unlink(path.replace(".txnindex", ".index"))
        disk.unlink(path)
    again = open_log(disk, SMALL, clean=clean, recovery_point=log.log_end_offset)
    assert told(again) == ABORTED
    again.close()
    for name in files_in(disk, DIRECTORY, ".snapshot"):
        disk.unlink(f"{DIRECTORY}/{name}")
    flip(disk, path, 0)
    assert told(open_log(disk, SMALL, recovery_point=log.log_end_offset)) == ABORTED
    assert looks_whole(disk.read_file(path), int(names[-1][:20]))


def test_truncation_forgets_what_ended_behind_it() -> None:
    """Truncating at any offset keeps transactions that ended below it, and reopens all others."""
    for offset in range(14):
        for config in (SMALL, LogConfig()):
            disk = MemoryDisk()
            log = interleaved(disk, config)
            log.truncate_to(offset)
            left = [one for one in ABORTED if one[2] < offset]
            assert told(log) == left
            starts = [one[1] for one in ABORTED if one[1] < offset <= one[2]]
            starts += [1] if 1 < offset <= 5 else []
            starts += [6] if offset > 6 else []
            # A truncation inside a batch removes the whole batch. Here this removes the only batch
            # of the transaction that starts at 10.
            starts = [start for start in starts if not (start == 10 and offset == 11)]
            assert log.last_stable_offset == min([*starts, log.log_end_offset])
            log.close()
            assert told(open_log(disk, config, clean=True)) == left


def test_deletion_takes_the_index_along() -> None:
    """Deleting old segments deletes their index files; readers get the other entries."""
    disk = MemoryDisk()
    log = interleaved(disk)
    while len(log.segments) > 1:
        log.drop_first_segments(1)
        left = [one for one in ABORTED if one[2] >= log.segments[0].base_offset]
        assert told(log, log.log_start_offset) == left
        bases = {segment.base_offset for segment in log.segments}
        assert {int(name[:20]) for name in files_in(disk, DIRECTORY, ".txnindex")} <= bases


def test_the_last_stable_offset_is_not_below_the_log_start() -> None:
    """The last stable offset is at least the log start offset (as in UnifiedLog).

    DeleteRecords may have removed a part of an open transaction.
    """
    log = open_log(MemoryDisk())
    for sequence in range(4):
        send(log, 1, sequence)
    log.log_start_offset = 2
    assert log.last_stable_offset == 2


def test_transactional_commits_of_offsets_hold_the_last_stable_offset() -> None:
    """Transactional offset commits, which have no sequence, hold the last stable offset.

    Such records are in `__consumer_offsets`; snapshots include them.
    """
    disk = MemoryDisk()
    log = open_log(disk)
    log.append_own(own(batch(producer_id=5, producer_epoch=0, transactional=True)), NOW_MS)
    assert log.last_stable_offset == 0
    log.close()
    for clean in (True, False):
        log = open_log(disk, clean=clean)
        assert log.last_stable_offset == 0
        (known,) = log.producers.entries[5].batches
        assert (known.last_sequence, known.last_offset) == (-1, 0)
    end(log, 5, commit=False)
    assert told(log) == [(5, 0, 1, 2)]


def test_many_entries_are_found_by_search() -> None:
    """Entries are found by search in the file and among unwritten entries, in any number."""
    disk = MemoryDisk()
    log = open_log(disk)
    for number in range(300):
        send(log, 1, number)
        end(log, 1, commit=False)
    for start in (0, 1, 254, 255, 256, 257, 511, 598, 599):
        first = start // 2
        assert told(log, start, start + 1) == [(1, first * 2, first * 2 + 1, first * 2 + 2)]
    assert len(told(log)) == 300


def test_a_disk_that_is_full_for_a_while() -> None:
    """An entry that cannot be written is still used, and is written later.

    Until then a flush fails.
    """
    disk = MemoryDisk()
    log = open_log(disk)
    send(log, 1, 0)
    disk.fail_at(1)  # the marker is written, the index entry is not
    end(log, 1, commit=False)
    assert not disk.exists(FIRST)
    assert told(log) == [(1, 0, 1, 2)]
    with pytest.raises(StorageError, match="txnindex could not be written"):
        log.flush()
    send(log, 1, 1)
    disk.fail_at(1, torn=True)
    end(log, 1, commit=False)
    assert told(log) == [(1, 0, 1, 2), (1, 2, 3, 4)]
    log.roll(NOW_MS)
    log.flush()
    assert disk.read_file(FIRST) == encoded(log.aborted_transactions(0, 4))


@pytest.mark.parametrize("kind", ["kill", "power"])
@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("flush_messages", [1, 4])
def test_every_crash_point_of_aborted_transactions(
    kind: str, torn: bool, flush_messages: int
) -> None:
    """After any crash readers get exactly the aborts of the remaining log.

    The crash may also happen at any operation of a recovery.
    """
    config = SMALL._replace(flush_messages=flush_messages)
    points = 0
    for operation in range(200):
        disk = MemoryDisk()
        disk.crash_at(operation, torn=torn)
        try:
            interleaved(disk, config)
        except Crash:
            points += 1
        else:
            assert points > 30
            return
        for again in (0, 1, 2, 5):
            disk.processes_died() if kind == "kill" else disk.power_cut()
            disk.crash_at(again, torn=torn)
            try:
                open_log(disk, config)
            except Crash:
                continue
        disk.processes_died() if kind == "kill" else disk.power_cut()
        log = open_log(disk, config)
        assert told(log) == [one for one in ABORTED if one[2] < log.log_end_offset]
        log.close()
        assert told(open_log(disk, config, clean=True)) == told(log)
    raise AssertionError("the loop did not reach the last operation")


def expected_of(history: list[tuple[str, int]]) -> tuple[Found, int]:
    """Return the expected aborts and last stable offset of a log with one record per offset.

    Both are computed from the history alone.
    """
    found: Found = []
    begun: dict[int, int] = {}
    for offset, (what, producer_id) in enumerate(history):
        if what == "record":
            begun.setdefault(producer_id, offset)
        elif what != "plain" and producer_id in begun:
            start = begun.pop(producer_id)
            if what == "abort":
                found.append((producer_id, start, offset, min([*begun.values(), offset + 1])))
    return found, min([*begun.values(), len(history)])


@pytest.mark.parametrize("seed", range(25))
def test_any_history(seed: int) -> None:
    """After any history readers get the aborts that follow from the log.

    The steps are appends, markers, rolls, truncations, clean stops, kills and lost indexes.
    """
    random = Random(seed)
    disk = MemoryDisk()
    log = open_log(disk, SMALL)
    history: list[tuple[str, int]] = []
    for _ in range(80):
        producer_id = random.randrange(1, 4)
        step = random.choice(["record"] * 5 + ["abort", "abort", "commit", "plain", "other"])
        if step == "other":
            step = random.choice(["roll", "truncate", "stop", "kill", "damage"])
        if step in ("abort", "commit"):
            end(log, producer_id, commit=step == "commit")
        elif step == "plain":
            log.append_own(own(batch()), NOW_MS)
        elif step == "record":
            data = batch(producer_id=producer_id, producer_epoch=0, transactional=True)
            log.append_own(own(data), NOW_MS)
        elif step == "roll":
            log.roll(NOW_MS)
            log.flush()
        elif step == "truncate":
            offset = random.randint(max(0, len(history) - 9), len(history))
            log.truncate_to(offset)
            del history[offset:]
        else:
            if step == "stop":
                log.close()
            names = files_in(disk, DIRECTORY, ".txnindex") if disk.exists(DIRECTORY) else []
            if step == "damage" and names:
                overwrite(disk, f"{DIRECTORY}/{random.choice(names)}", b"damage")
            rescued = log.recovery_point
            disk.processes_died()
            log = open_log(disk, SMALL, clean=step == "stop", recovery_point=rescued)
        if step in ("record", "plain", "abort", "commit"):
            history.append((step, producer_id))
        expected, stable = expected_of(history)
        assert log.log_end_offset == len(history)
        assert told(log) == expected
        assert log.last_stable_offset == stable
