"""A bounded number of open descriptors for an unbounded number of segment files.

A file is opened when it is first needed and stays open until the bound pushes it out, oldest first;
it comes back by itself at the next use. So a data directory with thousands of segments works inside
the usual limit of 1024 descriptors, which the connections need too.
"""

from __future__ import annotations

import errno

from storage.disk import Disk, File
from storage.worker import ON_THE_SPOT, Worker

DEFAULT_MAX_OPEN_FILES = 256

_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class OpenFiles:
    """The files open now, in the order in which they were opened."""

    def __init__(self, disk: Disk, max_open: int = DEFAULT_MAX_OPEN_FILES) -> None:
        self.disk = disk
        self.worker: Worker = ON_THE_SPOT
        self.flushes_in_thread = False  # whether who appends sees to `flush.messages`
        self._max_open = max_open
        self._open: dict[LazyFile, File] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, lazy: LazyFile, *, create: bool) -> File:
        """Open a file, closing the longest open one when there are too many.

        Too many may be fewer than the bound, when others have taken all descriptors there are.
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
        """Close the descriptor of a file that is no longer wanted."""
        file = self._open.pop(lazy, None)
        if file is not None:
            file.close()


class LazyFile:
    """A file by its path; opened when it is needed and not open."""

    __slots__ = ("_file", "_files", "path")

    def __init__(self, files: OpenFiles, path: str) -> None:
        self._files = files
        self._file: File | None = None
        self.path = path

    def get(self, *, create: bool = False) -> File:
        """Return the open file; good until the next `get` of any file."""
        file = self._file
        if file is None:
            file = self._file = self._files.open(self, create=create)
        return file

    def pread(self, length: int, position: int) -> bytes:
        """Return up to `length` bytes from `position`; a file that is gone is not made again."""
        return (self._file or self.get()).pread(length, position)

    def close(self) -> None:
        """Let go of the descriptor, if any."""
        self._file = None
        self._files.closed(self)
