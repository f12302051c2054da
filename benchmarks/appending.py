"""CPU per append to a log, for batches built by the broker and batches from clients.

    python -m benchmarks.appending

The records are offset commits. The last line of each table is the lower bound of an append: one
checksum and one write of the same bytes. Compare ratios within one run, not absolute figures.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.codec import microseconds
from protocol.batch import Record, build_batch
from protocol.crc32c import crc32c
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from storage.local_disk import LocalDisk
from storage.log_config import LogConfig
from storage.log_loader import LogLoader
from storage.open_files import OpenFiles
from storage.partition_log import PartitionLog

COUNTS = (1, 100)


def commit_pairs(count: int, now_ms: int) -> list[tuple[bytes, bytes]]:
    """Return keys and values of `count` offset commits."""
    return [
        (
            encode_key(OffsetCommitKey(group="orders", topic="payments", partition=index)),
            encode_value(
                OffsetCommitValue(offset=index, leader_epoch=0, commit_timestamp=now_ms), 4
            ),
        )
        for index in range(count)
    ]


def open_log(directory: Path, number: int) -> PartitionLog:
    """Return a new empty log."""
    files = OpenFiles(LocalDisk(), 16)
    loader = LogLoader(
        files, str(directory / f"t-{number}"), "t", number, LogConfig(), 0, 0, True, 0
    )
    return PartitionLog(loader, bytes(16))


def ways(directory: Path, count: int) -> dict[str, Callable[[], object]]:
    """Return the functions to measure, by name."""
    now_ms = time.time_ns() // 1_000_000
    pairs = commit_pairs(count, now_ms)

    def build() -> object:
        records = [Record(offset, now_ms, *pair) for offset, pair in enumerate(pairs)]
        return build_batch(records, base_sequence=0)

    def build_and_append() -> object:
        records = [Record(offset, now_ms, *pair) for offset, pair in enumerate(pairs)]
        return own.append_own(build_batch(records, base_sequence=0), now_ms)

    logs = [open_log(directory, 3 * count + number) for number in range(3)]
    own, built_before, client = logs
    records = [Record(offset, now_ms, *pair) for offset, pair in enumerate(pairs)]
    built = build_batch(records, base_sequence=0)
    front, body = built.to_bytes()[: -len(built.body)], built.body
    sent = build_batch(records).to_bytes()
    file = LocalDisk().open(str(directory / f"plain-{count}"), create=True)

    def write() -> object:
        checksum = crc32c(body)
        file.append((front, body))
        return checksum

    return {
        "build": build,
        "build and append": build_and_append,
        "append what was built before": lambda: built_before.append_own(built, now_ms),
        "append what a client sent": lambda: client.append(sent, now_ms),
        "checksum and write": write,
    }


def main() -> int:
    """Print the tables."""
    with tempfile.TemporaryDirectory() as directory:
        for count in COUNTS:
            costs = {name: microseconds(run) for name, run in ways(Path(directory), count).items()}
            least = costs["checksum and write"]
            print(f"\n{count} record(s) a batch{'us':>26}{'ratio':>8}")
            for name, cost in costs.items():
                print(f"{name:<40}{cost:8.2f}{cost / least:8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
