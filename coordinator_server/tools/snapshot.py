"""`coordinator-server snapshot`: copy a data directory consistently, also of a running broker.

Read only the files of the directory, without a connection to the broker. Logs grow only at their
end, and files are replaced by renaming. Therefore each log is opened completely, copied up to its
current size, and cut after its last complete batch. The internal topics are copied first, so that a
committed offset never exceeds the copied records. Then the copy is recovered as after a crash:
every byte is checked, and indexes and producer state are rebuilt. At the end the copy is verified.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from coordinator_server.tools.files import ReadOnlyFile
from coordinator_server.tools.verify_log import LogVerification, partition_directories, summary
from storage.batch_scan import Corruption, verify_batches
from storage.checkpoints import (
    LEADER_EPOCH_FILE,
    LOG_START_FILE,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    TopicPartition,
    read_offsets,
    read_partition_metadata,
    read_properties,
    write_offsets,
)
from storage.disk import write_atomically
from storage.errors import StorageError
from storage.local_disk import LocalDisk
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.producer_state import SNAPSHOT_SUFFIX, ProducerState
from storage.replacement import is_unfinished
from storage.security_state import CHANGES_FILE, SECURITY_FILE, SecurityState
from storage.segment import LOG_SUFFIX
from storage.topic_catalogue import CATALOGUE_FILE, TopicCatalogue

MANIFEST_FILE = "snapshot.json"
MANIFEST_VERSION = 1
COPY_BYTES = 1 << 20
# Number of attempts: compaction, retention or a deletion may change a directory during the copy.
ATTEMPTS = 200
PAUSE_SECONDS = 0.01
# Suffixes of a log, and of a compacted log that is not yet renamed.
_LOG_SUFFIXES = (LOG_SUFFIX, LOG_SUFFIX + ".swap")


class SnapshotError(Exception):
    """The snapshot or the restored directory cannot be made."""


class WrongDirectoryError(SnapshotError):
    """The named directory cannot be the source or the target; nothing was written."""


class DirectorySnapshot:
    """A copy in progress of the data directory `source`, in the empty directory `target`."""

    def __init__(self, source: Path, target: Path) -> None:
        self.source = source
        self.target = target
        self.disk = LocalDisk()
        self.bytes_cut = 0

    def take(self) -> LogVerification:
        """Copy, recover and verify. Raises SnapshotError if the copy is incomplete.

        An incomplete copy is removed.
        """
        if not (self.source / META_PROPERTIES_FILE).exists():
            raise WrongDirectoryError(
                f"{self.source} is no data directory: no {META_PROPERTIES_FILE}"
            )
        if is_unfinished(self.disk, str(self.source)):
            raise SnapshotError(f"{self.source}: a restore is not finished, start the broker")
        identity = _identity(self.source / META_PROPERTIES_FILE)
        if self.target.resolve().is_relative_to(self.source.resolve()):
            raise WrongDirectoryError(f"{self.target} is inside {self.source}")
        is_new = not self.target.exists()
        require_empty(self.target)
        try:
            return self._copy(identity)
        except BaseException:  # also for Ctrl-C, because an incomplete copy cannot be restored
            _remove(self.target, keeps_directory=not is_new)
            raise

    def _copy(self, identity: tuple[int, int] | None) -> LogVerification:
        started_ms = time.time_ns() // 1_000_000
        log_starts = read_offsets(self.disk, str(self.source / LOG_START_FILE))
        directories = partition_directories(self.source)
        for directory in sorted(directories, key=_internal_first):
            self._copy_partition(directory)
        self._copy_small_files(log_starts, directories)
        self._copy_security()
        if identity != _identity(self.source / META_PROPERTIES_FILE):
            raise SnapshotError(f"{self.source} was restored during the copy")
        self._settle()
        verification = LogVerification(self.target)
        if verification.run().errors:
            raise SnapshotError(f"the copy is damaged: {verification.findings.errors[0]}")
        self._write_manifest(started_ms, verification)
        return verification

    # --- partitions -------------------------------------------------------------------------------

    def _copy_partition(self, directory: Path) -> None:
        target = self.target / directory.name
        for _ in range(ATTEMPTS):
            with ExitStack() as stack:
                files = self._open_logs(directory, stack)
                if files is not None:
                    target.mkdir()
                    for file in files:
                        self._copy_log(file, target, is_last=file is files[-1])
                    self._copy_partition_files(directory, target)
                    return
            if not directory.exists():
                return  # the topic was deleted
            time.sleep(PAUSE_SECONDS)
        raise SnapshotError(f"{directory} changes all the time")

    def _open_logs(self, directory: Path, stack: ExitStack) -> list[ReadOnlyFile] | None:
        """Open all logs of a partition; return None if the directory changed meanwhile.

        An open file stays readable after a rename or removal, and no other file can get its inode
        number. So two listings with the same files prove that no file was replaced in between.
        """
        try:
            names = _log_names(directory)
            files = [stack.enter_context(ReadOnlyFile(directory / name)) for name in names]
            seen = [(directory / name).stat().st_ino for name in names]
            unchanged = _log_names(directory) == names
        except FileNotFoundError:
            return None
        return files if unchanged and seen == [file.inode for file in files] else None

    def _copy_log(self, file: ReadOnlyFile, target: Path, is_last: bool) -> None:
        size_bytes = file.size_bytes
        if is_last and file.path.name.endswith(LOG_SUFFIX):
            size_bytes = _whole_batches(file)
            self.bytes_cut += file.size_bytes - size_bytes
        with (target / file.path.name).open("wb") as copy:
            position = 0
            while position < size_bytes:
                data = file.pread(min(COPY_BYTES, size_bytes - position), position)
                if not data:
                    raise SnapshotError(f"{file.path} became shorter while it was copied")
                copy.write(data)
                position += len(data)
            copy.flush()
            os.fsync(copy.fileno())

    def _copy_partition_files(self, directory: Path, target: Path) -> None:
        """Copy the topic id, leader epochs and producers, each completely or not at all."""
        try:
            names = sorted(path.name for path in directory.iterdir())
        except FileNotFoundError:
            return
        for name in names:
            is_snapshot = name.endswith(SNAPSHOT_SUFFIX) and name[:20].isdigit()
            if not is_snapshot and name not in (PARTITION_METADATA_FILE, LEADER_EPOCH_FILE):
                continue
            try:
                contents = (directory / name).read_bytes()
            except FileNotFoundError:
                continue
            if not is_snapshot or ProducerState.decode(contents) is not None:
                (target / name).write_bytes(contents)

    # --- catalogue and checkpoints ----------------------------------------------------------------

    def _copy_small_files(
        self,
        log_starts: dict[TopicPartition, int],
        directories: dict[Path, TopicPartition],
    ) -> None:
        """Copy the catalogue last, so that it has the settings of all copied topics."""
        for name in (META_PROPERTIES_FILE, CATALOGUE_FILE):
            if (self.source / name).exists():
                (self.target / name).write_bytes((self.source / name).read_bytes())
        catalogue = TopicCatalogue(self.disk, str(self.target))
        for directory, (topic, _) in directories.items():
            copy = self.target / directory.name
            record = catalogue.topics.get(topic)
            if not copy.exists() or not (self.target / CATALOGUE_FILE).exists():
                continue
            topic_id = read_partition_metadata(self.disk, str(copy))
            if record is None or topic_id not in (None, record.topic_id):
                # The topic was deleted and perhaps recreated during the copy.
                for path in copy.iterdir():
                    path.unlink()
                copy.rmdir()
        # Use the log start offsets from before the first copy. Records deleted since then may
        # reappear in the copy, but no other record is hidden.
        kept = {key: log_starts[key] for key in log_starts if key in set(directories.values())}
        write_offsets(self.disk, str(self.target / LOG_START_FILE), kept)

    def _copy_security(self) -> None:
        """Copy the files of users, ACLs, tokens and quotas.

        Read both files until `security.json` is the same before and after: only then do the changes
        in the other file belong to that version.
        """
        whole = self.source / SECURITY_FILE
        files: dict[str, bytes] = {}
        known: object = files
        while (current := _identity(whole)) != known:
            known = current
            for name in (CHANGES_FILE, SECURITY_FILE):
                try:
                    files[name] = (self.source / name).read_bytes()
                except FileNotFoundError:
                    files.pop(name, None)
        for name, contents in files.items():
            write_atomically(self.disk, str(self.target / name), contents, private=True)
        SecurityState(self.disk, str(self.target))

    def _settle(self) -> None:
        """Recover and close the copy with storage, which writes indexes and checkpoints."""
        properties = read_properties((self.target / META_PROPERTIES_FILE).read_bytes())
        node_id = int(properties.get("node.id", properties.get("broker.id", "1")))
        try:
            manager = LogManager.open(self.disk, str(self.target), LogConfig(), node_id=node_id)
            failures = [*manager.failures.values(), *manager.recovery_reports]
            manager.close()
        except StorageError as error:
            raise SnapshotError(f"the copy cannot be opened: {error}") from error
        if failures:
            raise SnapshotError(f"{self.source} is damaged, see verify-log: {failures[0]}")

    def _write_manifest(self, started_ms: int, verification: LogVerification) -> None:
        properties = read_properties((self.target / META_PROPERTIES_FILE).read_bytes())
        manifest = {
            "version": MANIFEST_VERSION,
            "cluster_id": properties.get("cluster.id", ""),
            "started_ms": started_ms,
            "partitions": manifest_partitions(verification),
        }
        with (self.target / MANIFEST_FILE).open("w") as file:
            json.dump(manifest, file, indent=1)
            file.flush()
            os.fsync(file.fileno())


def manifest_partitions(verification: LogVerification) -> list[dict[str, Any]]:
    """Return the partitions for `snapshot.json`, with the start and end offset of each log."""
    return [
        {"topic": topic, "partition": partition, "start_offset": start, "end_offset": end}
        for (topic, partition), (start, end) in sorted(verification.ends.items())
    ]


def require_empty(directory: Path) -> None:
    """Create a directory. Raises SnapshotError if the directory exists and is not empty."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise WrongDirectoryError(f"{directory} is no directory") from error
    if any(directory.iterdir()):
        raise WrongDirectoryError(f"{directory} is not empty; nothing was written")


def _remove(directory: Path, *, keeps_directory: bool) -> None:
    """Remove what was written into a directory that was empty or did not exist.

    Files that cannot be removed stay.
    """
    for path in directory.iterdir() if keeps_directory and directory.exists() else (directory,):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _identity(path: Path) -> tuple[int, int] | None:
    """Return inode number and modification time of a file; None if the file does not exist."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def _internal_first(directory: Path) -> tuple[bool, str]:
    return not directory.name.startswith("__"), directory.name


def _log_names(directory: Path) -> list[str]:
    return sorted(
        entry.name
        for entry in directory.iterdir()
        if entry.name[:20].isdigit() and entry.name[20:] in _LOG_SUFFIXES
    )


def _whole_batches(file: ReadOnlyFile) -> int:
    """Return where the last complete batch ends in a log that may be being written."""
    base_offset = int(file.path.name[:20])
    for batch in verify_batches(file, 0, file.size_bytes, base_offset):
        if isinstance(batch, Corruption):
            if not batch.is_torn:
                raise SnapshotError(f"{file.path} is damaged at {batch.position}: {batch.reason}")
            return batch.position
    return file.size_bytes


def main(arguments: Sequence[str]) -> int:
    """Run with these arguments and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="coordinator-server snapshot", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument(
        "--data-dir", metavar="DIR", type=Path, required=True, help="data directory to copy"
    )
    parser.add_argument("target", metavar="OUT", type=Path, help="empty or new directory")
    options = parser.parse_args(arguments)
    snapshot = DirectorySnapshot(options.data_dir, options.target)
    try:
        verification = snapshot.take()
    except (SnapshotError, StorageError, OSError) as error:
        print(f"coordinator-server: {error}", file=sys.stderr)
        return 2 if isinstance(error, WrongDirectoryError) else 1
    if snapshot.bytes_cut:
        print(f"{snapshot.bytes_cut} bytes of batches that were just being written were left out")
    print(summary(verification.findings))
    return 0
