"""Transactions written by Kafka 4.1 (`tests/data/transactions`): index files, and compaction.

`plain-0` has interleaved committed and aborted transactions of two producers, one over several
segments, and one left open at offset 94. `compact/0` is such a log before Kafka's cleaner,
`compact/1` to `3` are the results of three passes; the delete horizon passed between the second and
third. The value of an aborted record contains "aborted" or consists of "y". `live-0` is from Kafka
4.3.1 after a clean stop: transactions v1 and v2 and plain records, with two open transactions.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from protocol.batch import end_transaction_batch, iterate_records
from protocol.batch_header import DELETE_HORIZON, iterate_batches
from protocol.control_record import EndTransaction, end_marker_of
from storage.cleaner import Cleaning
from storage.local_disk import LocalDisk
from storage.log_config import LogConfig
from storage.log_loader import LogLoader
from storage.open_files import OpenFiles
from storage.partition_log import PartitionLog
from storage.producer_state import ProducerState
from tests.unit.storage.support import committed

TRANSACTIONS = Path(__file__).parents[2] / "data" / "transactions"
# The log end of compact/0. Only batches below this offset are compared, because Kafka's later
# segments differ from those of this project.
WRITTEN = 94
DELETE_RETENTION_MS = 3000
CONFIG = LogConfig(
    cleanup_policy=("compact",), segment_bytes=1500, delete_retention_ms=DELETE_RETENTION_MS
)


def copied(
    source: str, target: Path, *, with_index: bool = True, with_snapshots: bool = True
) -> PartitionLog:
    """Return an opened copy of Kafka's log, as after a crash."""
    ignored = [] if with_index else ["*.txnindex"]
    ignored += [] if with_snapshots else ["*.snapshot"]
    shutil.copytree(
        TRANSACTIONS / source,
        target,
        copy_function=shutil.copyfile,
        ignore=shutil.ignore_patterns(*ignored),
    )
    files = OpenFiles(LocalDisk(durable=False))
    return PartitionLog(
        LogLoader(files, str(target), "compact", 0, CONFIG, 0, 0, clean=False, now_ms=0), bytes(16)
    )


def indexes(directory: Path) -> dict[str, bytes]:
    """Return the transaction indexes of a directory."""
    return {path.name: path.read_bytes() for path in directory.glob("*.txnindex")}


@pytest.mark.parametrize(("name", "files"), [("plain-0", 4), ("compact/0", 4), ("live-0", 1)])
def test_the_index_made_from_the_batches_is_kafkas(name: str, files: int, tmp_path: Path) -> None:
    """Recovery finds every aborted transaction, with the bytes and files of Kafka's indexes."""
    copied(name, tmp_path / "t-0", with_index=False)
    kafkas = indexes(TRANSACTIONS / name)
    assert len(kafkas) >= files
    assert indexes(tmp_path / "t-0") == kafkas


def is_aborted(value: bytes) -> bool:
    """Return whether the value marks an aborted record."""
    return b"aborted" in value or value.startswith(b"yyy")


@pytest.mark.parametrize("at_once_bytes", [1, 500, 1 << 20])
def test_consumers_are_told_what_was_aborted(at_once_bytes: int, tmp_path: Path) -> None:
    """With the lists of aborted transactions a consumer gets exactly the committed records.

    The records lie below the open transaction, and reads may have any size.
    """
    log = copied("plain-0", tmp_path / "t-0")
    assert (log.last_stable_offset, log.log_end_offset) == (94, 100)
    everything = {
        record.offset: record.value or b""
        for segment in log.segments
        for data in [segment.read(0, segment.size_bytes)]
        for header in iterate_batches(data)
        if not header.is_control
        for record in iterate_records(data, header)
    }
    expected = [
        (offset, value)
        for offset, value in sorted(everything.items())
        if offset < 94 and not is_aborted(value)
    ]
    assert len(expected) == 47
    found = committed(log, at_once_bytes)
    assert [(record.offset, record.value or b"") for record in found] == expected


def batches(log: PartitionLog) -> dict[int, bytes]:
    """Return the batches that Kafka's cleaner found, by base offset."""
    return {
        batch.base_offset: segment.read(batch.position, batch.size_bytes)
        for segment in log.segments
        for batch in segment.batches()
        if batch.base_offset < WRITTEN
    }


def kafkas_clock(batches_after: dict[int, bytes], attributes_at: int = 21) -> int:
    """Return the time of Kafka's pass, from the delete horizon that it set."""
    horizons = [
        int.from_bytes(data[27:35], "big")
        for data in batches_after.values()
        if int.from_bytes(data[attributes_at : attributes_at + 2], "big") & DELETE_HORIZON
    ]
    return max(horizons, default=0) - DELETE_RETENTION_MS


@pytest.mark.parametrize("number", [1, 2, 3])
def test_compaction_leaves_kafkas_bytes(number: int, tmp_path: Path) -> None:
    """Each of our passes leaves the bytes that Kafka's cleaner left.

    Aborted records are removed at once; markers get a horizon when their transaction has no records
    left and are removed after it; headers keep producers' sequences.
    """
    log = copied(f"compact/{number - 1}", tmp_path / "compact-0")
    theirs = batches(copied(f"compact/{number}", tmp_path / "theirs"))
    if number == 2:
        log.roll(0)
    now_ms = kafkas_clock(batches(log)) + DELETE_RETENTION_MS
    if number < 3:
        now_ms = kafkas_clock(theirs)
    before = len(batches(log))
    for _ in Cleaning(log, 0, now_ms).run():
        pass
    assert batches(log) == theirs
    assert len(theirs) < before or number == 2


def test_the_index_of_a_pass_is_kafkas(tmp_path: Path) -> None:
    """The first pass retains the index entries of markers that stay in the log.

    This includes markers without records.
    """
    log = copied("compact/0", tmp_path / "compact-0")
    for _ in Cleaning(log, 0, 0).run():
        pass
    ours = b"".join(data for _, data in sorted(indexes(tmp_path / "compact-0").items()))
    theirs = b"".join(data for _, data in sorted(indexes(TRANSACTIONS / "compact/1").items()))
    assert ours == theirs
    assert log.aborted_transactions(0, WRITTEN)[0].first_offset == 2


def test_markers_are_kafkas() -> None:
    """A marker rebuilt from the contents of Kafka's marker has the same bytes."""
    count = 0
    paths = [*TRANSACTIONS.glob("plain-0/*.log"), *TRANSACTIONS.glob("live-0/*.log")]
    for path in paths:
        data = path.read_bytes()
        for header in iterate_batches(data):
            marker = end_marker_of(data, header) if header.is_control else None
            if marker is None:
                continue
            (record,) = iterate_records(data, header)
            end = EndTransaction(header.producer_id, header.producer_epoch, *marker, 0)
            made = end_transaction_batch(end, record.timestamp_ms)
            given = {"base_offset": header.base_offset, "leader_epoch": header.leader_epoch}
            ours = made._replace(header=made.header._replace(**given)).to_bytes()
            assert ours == data[header.position : header.end]
            count += 1
    assert count > 10


def test_the_snapshot_made_from_the_batches_is_kafkas(tmp_path: Path) -> None:
    """A producer snapshot has Kafka's open transactions, epochs, marker times and map order."""
    (kept,) = (TRANSACTIONS / "live-0").glob("*.snapshot")
    kafkas = kept.read_bytes()
    log = copied("live-0", tmp_path / "live-0", with_snapshots=False)
    assert log.log_end_offset == int(kept.stem)
    ours = log.producers.encode()
    assert len(ours) == len(kafkas) == 10 + 4 * 46
    assert sorted(batched(ours[10:], 46)) == sorted(batched(kafkas[10:], 46))
    loaded = ProducerState.decode(kafkas)
    assert loaded is not None
    assert loaded.first_unstable_offset == log.last_stable_offset == 13
    assert sorted(loaded.transactions.values()) == [13, 15]


def batched(data: bytes, size: int) -> list[bytes]:
    """Return the entries of a snapshot."""
    return [data[at : at + size] for at in range(0, len(data), size)]
