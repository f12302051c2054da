"""The disk of Linux, macOS and other POSIX systems: fewer system calls, and directory syncs.

POSIX can rename and remove open files, so these operations do not wait for a running sync.
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

# The limit of buffers in one writev call (IOV_MAX on Linux and the BSDs).
BUFFERS_PER_WRITE = 1024

# fdatasync includes the file size; systems without it need the slower fsync.
_sync_data = getattr(os, "fdatasync", os.fsync)


class PosixFile(PortableFile):
    """A file descriptor, read with pread."""

    __slots__ = ()

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all buffers at the end; short writes are continued."""
        if len(buffers) > BUFFERS_PER_WRITE:
            super().append(buffers)
            return
        written = os.writev(self._descriptor, buffers)
        if written != sum(map(len, buffers)):
            super().append([memoryview(b"".join(buffers))[written:]])

    def _read_at(self, length: int, position: int) -> bytes:
        return os.pread(self._descriptor, length, position)

    def sync(self) -> None:
        """Wait until the contents are on the device; no effect if not durable."""
        if self._durable:
            _sync_data(self._descriptor)


class PosixDisk(PortableDisk):
    """The operating system's files; `durable=False` skips every fsync (`--ephemeral`)."""

    file_type = PosixFile

    def __init__(self, *, durable: bool = True) -> None:
        super().__init__(durable=durable)
        self._syncing = nullcontext()

    def sync_directory(self, path: str) -> None:
        """Wait until the entries of a directory are on the device."""
        if not self._durable:
            return
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        """Lock a file with flock and with a POSIX record lock.

        flock also excludes a second holder in this process; Java uses a record lock. Raises
        BlockingIOError or PermissionError if the file is locked.
        """
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
