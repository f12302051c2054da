"""`coordinator-server verify-log DIR`: check that log files are intact and consistent.

For each partition, check every CRC, the order of offsets within and between segments, the number of
records in each batch, leader epochs, index entries, aborted transactions and producer snapshots.
For a data directory, also check its small files and checkpoints. Nothing is written. In a directory
in use, the end of a log that is being written may look incomplete. Findings that only slow down the
next start, such as a missing index, are notes. The exit code is 1 if there are errors.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from coordinator_server.tools.findings import Findings
from coordinator_server.tools.verify_segment import SegmentCheck
from coordinator_server.tools.verify_transactions import TransactionCheck
from storage.checkpoints import (
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LEADER_EPOCH_FILE,
    LOG_START_FILE,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_FILE,
    TopicPartition,
    read_leader_epochs,
    read_offsets,
    read_partition_metadata,
    read_properties,
)
from storage.errors import StorageError
from storage.local_disk import LocalDisk
from storage.log_loader import is_log_name
from storage.producer_state import SNAPSHOT_SUFFIX, ProducerState, snapshot_offsets
from storage.topic_catalogue import CATALOGUE_FILE, TopicCatalogue

# Suffixes of deleted topics and of directories with another topic's id.
_SET_ASIDE = ("-delete", "-stray")
# A checkpoint without entries, as CheckpointFile writes it.
_EMPTY_CHECKPOINT = b"0\n0\n"
_CHECKPOINTS = (RECOVERY_POINT_FILE, LOG_START_FILE, HIGH_WATERMARK_FILE, CLEANER_FILE)


class LogVerification:
    """The check of a data directory or partition; `ends` has (log start, log end) by log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.disk = LocalDisk()
        self.findings = Findings()
        self.ends: dict[TopicPartition, tuple[int, int]] = {}

    def run(self) -> Findings:
        """Check everything below the path and return the findings."""
        if any(is_log_name(entry.name) for entry in self.path.iterdir()):
            self._partition(self.path)
            return self.findings
        for path, _ in sorted(partition_directories(self.path).items()):
            self._partition(path)
        self._catalogue()
        self._meta_properties()
        for name in _CHECKPOINTS:
            self._checkpoint(self.path / name)
        return self.findings

    # --- partitions -------------------------------------------------------------------------------

    def _partition(self, directory: Path) -> None:
        findings = self.findings
        findings.partitions += 1
        topic, _, number = directory.absolute().name.rpartition("-")
        names = sorted(entry.name for entry in directory.iterdir())
        epochs = self._leader_epochs(directory)
        transactions = TransactionCheck(findings)
        next_offset: int | None = None
        bases = [int(name[:20]) for name in names if is_log_name(name)]
        for base_offset in bases:
            if next_offset is not None and base_offset < next_offset:
                stem = directory / f"{base_offset:020d}.log"
                findings.error(stem, f"begins before {next_offset}, where the one before it ends")
            check = SegmentCheck(findings, directory, base_offset, epochs, transactions)
            next_offset = check.run()
        end = next_offset or 0
        if number.isdigit():
            self.ends[topic, int(number)] = (bases[0] if bases else 0, end)
        if epochs and bases and epochs[-1][1] > end:
            epoch_file = directory / LEADER_EPOCH_FILE
            findings.note(epoch_file, f"epoch {epochs[-1][0]} begins after the log end {end}")
        self._snapshots(directory, names, end)
        for name in names:
            if name.endswith((".cleaned", ".swap", ".deleted")):
                findings.note(directory / name, "left by an interrupted change; a start settles it")
        metadata = directory / PARTITION_METADATA_FILE
        if not metadata.exists():
            findings.note(metadata, "is missing")
        elif read_partition_metadata(self.disk, str(directory)) is None:
            findings.error(metadata, "names no topic id")

    def _leader_epochs(self, directory: Path) -> list[tuple[int, int]]:
        path = directory / LEADER_EPOCH_FILE
        entries = read_leader_epochs(self.disk, str(directory))
        if not entries and path.exists() and path.read_bytes() != _EMPTY_CHECKPOINT:
            self.findings.error(path, "is damaged")
        if any(after[1] < before[1] for before, after in pairwise(entries)):
            self.findings.error(path, "a later epoch begins before an earlier one")
        return entries

    def _snapshots(self, directory: Path, names: list[str], end: int) -> None:
        for offset in snapshot_offsets(names):
            path = directory / f"{offset:020d}{SNAPSHOT_SUFFIX}"
            if ProducerState.decode(path.read_bytes()) is None:
                self.findings.error(path, "is no whole producer snapshot of version 1")
            elif offset > end:
                self.findings.note(path, f"is after the log end {end}")

    # --- checkpoints and catalogue ----------------------------------------------------------------

    def _catalogue(self) -> None:
        path = self.path / CATALOGUE_FILE
        if not path.exists():
            self.findings.note(path, "is missing: topics are found by their directories")
            return
        try:
            catalogue = TopicCatalogue(self.disk, str(self.path))
        except StorageError as error:
            self.findings.error(path, str(error))
            return
        for topic, partition in self.ends:
            record = catalogue.topics.get(topic)
            directory = self.path / f"{topic}-{partition}"
            if record is None:
                if topic not in catalogue.deleting:
                    self.findings.note(directory, f"{CATALOGUE_FILE} has no such topic")
                continue
            if partition >= record.partition_count:
                self.findings.error(directory, f"the topic has {record.partition_count} partitions")
            if read_partition_metadata(self.disk, str(directory)) not in (None, record.topic_id):
                self.findings.error(directory, "belongs to another topic of this name")

    def _meta_properties(self) -> None:
        path = self.path / META_PROPERTIES_FILE
        if not path.exists():
            self.findings.note(path, "is missing: a start makes another one, with a new cluster id")
            return
        missing = {"cluster.id", "version"} - set(read_properties(path.read_bytes()))
        if missing:
            self.findings.error(path, f"lacks {', '.join(sorted(missing))}")

    def _checkpoint(self, path: Path) -> None:
        if not path.exists():
            return
        offsets = read_offsets(self.disk, str(path))
        if not offsets and path.read_bytes() != _EMPTY_CHECKPOINT:
            self.findings.error(path, "is damaged")
        for (topic, partition), offset in offsets.items():
            # A running broker may have advanced the checkpoints since the logs were read.
            end = self.ends.get((topic, partition), (0, offset))[1]
            if offset > end:
                self.findings.note(path, f"{topic}-{partition}: {offset}, the log ends at {end}")


def partition_directories(path: Path) -> dict[Path, TopicPartition]:
    """Return the partition directories of a data directory, with the partition of each."""
    directories: dict[Path, TopicPartition] = {}
    for entry in path.iterdir():
        topic, _, number = entry.name.rpartition("-")
        if topic and number.isdigit() and entry.is_dir() and not entry.name.endswith(_SET_ASIDE):
            directories[entry] = (topic, int(number))
    return directories


def is_data_directory(path: Path) -> bool:
    """Return whether a directory is a partition's directory or the data directory of a broker."""
    if (path / META_PROPERTIES_FILE).exists() or partition_directories(path):
        return True
    return any(is_log_name(entry.name) for entry in path.iterdir())


def summary(findings: Findings) -> str:
    """Return one line with the counts of everything that was checked."""
    return (
        f"{findings.partitions} partitions, {findings.segments} segments, {findings.batches} "
        f"batches, {findings.records} records, {findings.size_bytes} bytes, "
        f"{findings.index_entries} index entries: {len(findings.errors)} errors, "
        f"{len(findings.notes)} notes"
    )


def report(findings: Findings) -> Iterable[str]:
    """Yield the notes, then the errors, then the summary."""
    yield from (f"note: {line}" for line in findings.notes)
    yield from (f"ERROR: {line}" for line in findings.errors)
    yield summary(findings)


def main(arguments: Sequence[str]) -> int:
    """Run with these arguments and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="coordinator-server verify-log", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument(
        "directory", metavar="DIR", type=Path, help="data directory, or directory of a partition"
    )
    options = parser.parse_args(arguments)
    try:
        if not is_data_directory(options.directory):
            raise ValueError(f"{options.directory}: no data directory and no partition")
        findings = LogVerification(options.directory).run()
    except ValueError as error:
        print(f"coordinator-server: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        reason = f"{error.filename or options.directory}: {error.strerror}"
        print(f"coordinator-server: {reason}", file=sys.stderr)
        return 2
    for line in report(findings):
        print(line)
    return 1 if findings.errors else 0
