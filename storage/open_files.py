"""Limits the number of open file descriptors for segment files.

A file is opened on first use. When too many files are open, the file opened first is closed, and
reopened at its next use. So a data directory with thousands of segments works within the usual
limit of 1024 descriptors, which are also needed for connections.
"""

from __future__ import annotations

import errno

from storage.disk import Disk, File
from storage.worker import ON_THE_SPOT, Worker

DEFAULT_MAX_OPEN_FILES = 256

_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class StorageCounts:
    """Counts of syncs, compactions and deletions since the start (LogFlushStats, LogCleaner)."""

    __slots__ = (
        "compacted_bytes",
        "compactions",
        "deleted_bytes",
        "deleted_segments",
        "flush_s",
        "flushes",
    )

    def __init__(self) -> None:
        self.flushes = 0
        self.flush_s = 0.0
        self.compactions = 0
        self.compacted_bytes = 0
        """Bytes that compaction has removed."""
        self.deleted_segments = 0
        self.deleted_bytes = 0


class OpenFiles:
    """The open files, in the order in which they were opened; all their logs share `counts`."""

    def __init__(self, disk: Disk, max_open: int = DEFAULT_MAX_OPEN_FILES) -> None:
        self.disk = disk
        self.counts = StorageCounts()
        self.worker: Worker = ON_THE_SPOT
        self.flushes_in_thread = False  # True if the caller of append handles `flush.messages`
        self._max_open = max_open
        self._open: dict[LazyFile, File] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, lazy: LazyFile, *, create: bool) -> File:
        """Open a file, after closing the oldest files if too many are open.

        If the process has no descriptors left, files are closed even below the limit.
        """
        while len(self._open) >= self._max_open:
            self._close_oldest()
        while True:
            try:
                file = self._open[lazy] = self.disk.open(lazy.path, create=create)
            except OSError as error:
                if error.errno not in _NO_DESCRIPTORS or not self._open:
                    raise
                self._close_oldest()
            else:
                return file

    def _close_oldest(self) -> None:
        next(iter(self._open)).close()

    def closed(self, lazy: LazyFile) -> None:
        """Close the descriptor of a file, if open."""
        file = self._open.pop(lazy, None)
        if file is not None:
            file.close()


class LazyFile:
    """A file that is opened on use."""

    __slots__ = ("_file", "_files", "path")

    def __init__(self, files: OpenFiles, path: str) -> None:
        self._files = files
        self._file: File | None = None
        self.path = path

    def get(self, *, create: bool = False) -> File:
        """Return the open file, which is valid until the next `get` of any file."""
        file = self._file
        if file is None:
            file = self._file = self._files.open(self, create=create)
        return file

    def pread(self, length: int, position: int) -> bytes:
        """Return up to `length` bytes from `position`. A missing file is not created."""
        return (self._file or self.get()).pread(length, position)

    def close(self) -> None:
        """Close the descriptor, if open."""
        self._file = None
        self._files.closed(self)
