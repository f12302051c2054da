"""Syncs a log to disk (fsync) in three parts, so that the slow part can run in a thread.

Creating a `Flush` collects the files to sync. `run` only accesses the disk and can run in any
thread. `done` advances the recovery point. `run` opens the files again, because the event loop's
thread may close the log's descriptors at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from storage.errors import StorageError
from storage.log_loader import CLEANED_SUFFIX
from storage.segment import LOG_SUFFIX
from storage.transaction_index import TransactionIndex
from storage.worker import Worker

if TYPE_CHECKING:
    from storage.disk import Disk
    from storage.partition_log import PartitionLog

_COPY_BYTES = 1 << 20


Done = Callable[[StorageError | None], None]
"""Called when a sync is done, or with the error that prevents it."""


class Check(Protocol):
    """The check of a batch, which runs in a worker thread."""

    @property
    def is_cancelled(self) -> bool:
        """Whether the check was cancelled."""

    def run(self) -> None:
        """Do the check, and store its result or error."""

    def cancel(self) -> None:
        """Make `run` end soon."""


class LogFlusher(Worker, Protocol):
    """Syncs logs, and checks batches, in worker threads."""

    def check(self, check: Check, done: Callable[[], None]) -> None:
        """Run a check in a worker thread, then call `done` in the event loop unless cancelled."""

    def when_flushed(self, log: PartitionLog, done: Done) -> None:
        """Call `done(None)` when the log is synced up to its current end, or `done(error)`."""


class Flush:
    """A sync of a log up to `end_offset`, its current end.

    `sealed_only` leaves out the active segment. Recovery then reads only the active segment.
    """

    __slots__ = ("_directories", "_files", "_indexes", "_seconds", "_segments", "end_offset", "log")

    def __init__(self, log: PartitionLog, *, sealed_only: bool = False) -> None:
        self.log = log
        self._seconds = 0.0
        segments = log.segments
        self.end_offset = segments[-1].base_offset if sealed_only else log.log_end_offset
        self._segments = segments[-1].base_offset
        self._files: list[str] = []
        self._indexes: list[TransactionIndex] = []
        self._directories: tuple[str, ...] = ()
        if log.recovery_point >= self.end_offset and (sealed_only or log.names_are_synced):
            return
        for number, segment in enumerate(segments):
            is_sealed = number + 1 < len(segments)
            if is_sealed and segments[number + 1].base_offset <= log.recovery_point:
                continue
            if segment.size_bytes and (is_sealed or not sealed_only):
                self._files.append(segment.stem + LOG_SUFFIX)
                if len(segment.transaction_index):
                    self._files.append(segment.transaction_index.path)
                    self._indexes.append(segment.transaction_index)
        if log.is_on_disk and not log.names_are_synced:
            self._directories = (log.directory, log.directory.rpartition("/")[0])

    @property
    def is_needed(self) -> bool:
        """Whether anything must be synced."""
        return bool(self._files or self._directories)

    def run(self) -> None:
        """Sync the files. Can run in any thread. Raises OSError."""
        log = self.log
        disk = log.files.disk
        began_s = perf_counter()
        for index in self._indexes:
            if index.is_behind:
                raise OSError(f"entries of {index.path} could not be written")
        try:
            for path in self._files:
                try:
                    disk.sync_file(path)
                except FileNotFoundError:
                    # Retention or compaction may have removed the file. Compaction syncs its own
                    # output.
                    if self._is_wanted(path):
                        raise
            for path in self._directories:
                disk.sync_directory(path)
        except FileNotFoundError:
            if not log.closed:  # the topic still exists: another process has removed the files
                raise
        self._seconds = perf_counter() - began_s

    def _is_wanted(self, path: str) -> bool:
        return any(segment.stem + LOG_SUFFIX == path for segment in list(self.log.segments))

    def done(self) -> None:
        """Advance the recovery point after `run` has succeeded."""
        log = self.log
        if self.is_needed:
            log.files.counts.flushes += 1
            log.files.counts.flush_s += self._seconds
        log.recovery_point = max(log.recovery_point, min(self.end_offset, log.log_end_offset))
        if self._directories and log.segments[-1].base_offset == self._segments:
            log.names_are_synced = True


def copy_unsynced(log: PartitionLog) -> None:
    """Copy unsynced segments of a log into new, synced files. Raises StorageError.

    This is needed after a failed sync: the system marks the pages of a failed sync as written, so
    the next sync of the same file succeeds although data may be missing. Files are replaced
    atomically, so a crash leaves the old or the new file.
    """
    disk = log.files.disk
    starts = [segment.base_offset for segment in log.segments]
    try:
        for number, segment in enumerate(log.segments):
            if number + 1 < len(starts) and starts[number + 1] <= log.recovery_point:
                continue
            path = segment.stem + LOG_SUFFIX
            if disk.exists(path):
                _copy_durably(disk, path)
        disk.sync_directory(log.directory)
    except OSError as error:
        raise log.failed("synced", error) from error


def _copy_durably(disk: Disk, path: str) -> None:
    """Replace a file by a synced copy."""
    # A leftover with this suffix is removed when the log is opened.
    copy_path = path + CLEANED_SUFFIX
    if disk.exists(copy_path):
        disk.unlink(copy_path)
    source, copy = disk.open(path), disk.open(copy_path, create=True)
    try:
        position = 0
        while data := source.pread(_COPY_BYTES, position):
            copy.append([data])
            position += len(data)
        copy.sync()
    finally:
        source.close()
        copy.close()
    disk.rename(copy_path, path)
