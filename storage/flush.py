"""Making a log survive a power cut (fsync), in three parts so that the long one can run elsewhere.

A `Flush` notes what has to be synced, `run` syncs it and touches nothing but the disk (so it may
run in a thread), `done` moves the recovery point. Files are opened again for it: the descriptors of
the log belong to the loop's thread, which may close one at any moment.
"""

from __future__ import annotations

from collections.abc import Callable
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
        """Whether nobody waits for it any more."""

    def run(self) -> None:
        """Do the check, and keep what it raises for who waits."""

    def cancel(self) -> None:
        """Have `run` end soon."""


class LogFlusher(Worker, Protocol):
    """Syncs logs, and checks batches, in worker threads."""

    def check(self, check: Check, done: Callable[[], None]) -> None:
        """Run a check in a worker thread, then call `done` in the loop unless it is cancelled."""

    def when_flushed(self, log: PartitionLog, done: Done) -> None:
        """Call `done` once everything that is in the log now is synced, or cannot be."""


class Flush:
    """The syncing of everything that is in a log now, up to `end_offset`.

    `sealed_only` leaves the active segment out: what recovery need not read again after a kill.
    """

    __slots__ = ("_directories", "_files", "_indexes", "_segments", "end_offset", "log")

    def __init__(self, log: PartitionLog, *, sealed_only: bool = False) -> None:
        self.log = log
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
        """Whether there is anything to wait for."""
        return bool(self._files or self._directories)

    def run(self) -> None:
        """Sync; OSError when the disk fails. Any thread may do it."""
        log = self.log
        disk = log.files.disk
        for index in self._indexes:
            if index.is_behind:
                raise OSError(f"entries of {index.path} could not be written")
        try:
            for path in self._files:
                try:
                    disk.sync_file(path)
                except FileNotFoundError:
                    # Compaction, which syncs what it writes, or retention has removed it meanwhile.
                    if self._is_wanted(path):
                        raise
            for path in self._directories:
                disk.sync_directory(path)
        except FileNotFoundError:
            if not log.closed:  # the topic is not being deleted: another process took the files
                raise

    def _is_wanted(self, path: str) -> bool:
        return any(segment.stem + LOG_SUFFIX == path for segment in list(self.log.segments))

    def done(self) -> None:
        """Take note that `run` has succeeded."""
        log = self.log
        log.recovery_point = max(log.recovery_point, min(self.end_offset, log.log_end_offset))
        if self._directories and log.segments[-1].base_offset == self._segments:
            log.names_are_synced = True


def copy_unsynced(log: PartitionLog) -> None:
    """Copy what is not synced of a log into new files, which are. Raises StorageError.

    For a log whose sync has failed. The system takes the pages of a failed sync for written, and
    the next sync of the same file succeeds without them: what it confirms could have a hole before
    it. A file is replaced as a whole, so a crash leaves the old one or the new one.
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
    """Replace a file by a synced copy of it."""
    copy_path = path + CLEANED_SUFFIX  # a leftover of that name is removed when the log is opened
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
