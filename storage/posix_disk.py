"""The disk of Linux, macOS and other POSIX systems: fewer system calls, and names that are synced.

A file that is open can be renamed and removed here, so nothing waits for a sync.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext

from storage.disk import Buffer
from storage.portable_disk import PortableDisk, PortableFile

assert sys.platform != "win32"

# writev takes at most this many buffers in one call (IOV_MAX on Linux and the BSDs).
BUFFERS_PER_WRITE = 1024

# What is needed to read the bytes back, their number included; not every system distinguishes them.
_sync_data = getattr(os, "fdatasync", os.fsync)


class PosixFile(PortableFile):
    """One file descriptor, read without moving a position."""

    __slots__ = ()

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all buffers at the end; a short write is continued until all is there."""
        if len(buffers) > BUFFERS_PER_WRITE:
            super().append(buffers)
            return
        written = os.writev(self._descriptor, buffers)
        if written != sum(map(len, buffers)):
            super().append([memoryview(b"".join(buffers))[written:]])

    def _read_at(self, length: int, position: int) -> bytes:
        return os.pread(self._descriptor, length, position)

    def sync(self) -> None:
        """Wait for the device (nothing to wait for on a disk that need not last)."""
        if self._durable:
            _sync_data(self._descriptor)


class PosixDisk(PortableDisk):
    """The operating system's files; `durable=False` leaves every fsync out (`--ephemeral`)."""

    file_type = PosixFile

    def __init__(self, *, durable: bool = True) -> None:
        super().__init__(durable=durable)
        self._syncing = nullcontext()

    def sync_directory(self, path: str) -> None:
        """Wait until the names in a directory are on the device."""
        if not self._durable:
            return
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        """Lock in two ways: flock also refuses a second holder inside this process, and a POSIX
        record lock is what Java takes. Raises BlockingIOError or PermissionError where locked."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
