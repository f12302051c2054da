"""The operating system's files by what every system has; Windows' disk, and the base of POSIX'.

On Windows a file that is open can neither be renamed nor removed. Storage closes its own first;
here a rename or removal waits for a sync that another thread is doing. Tests run all of it on Linux
too.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from threading import Lock
from typing import Any

from storage import disk
from storage.disk import Buffer, File

BINARY = getattr(os, "O_BINARY", 0)
"""Without it Windows would turn every newline into two bytes."""


class PortableFile:
    """One file descriptor, used by one thread at a time; see `storage.disk.File`."""

    __slots__ = ("_descriptor", "_durable")

    def __init__(self, descriptor: int, durable: bool) -> None:
        self._descriptor = descriptor
        self._durable = durable

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all buffers at the end; a short write is continued until all is there."""
        rest = memoryview(b"".join(buffers))
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def pread(self, length: int, position: int) -> bytes:
        """Return up to `length` bytes from `position`."""
        data = self._read_at(length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        missing = length - len(data)
        while missing:
            data = self._read_at(missing, position + length - missing)
            if not data:
                break
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def _read_at(self, length: int, position: int) -> bytes:
        """Return up to `length` bytes from `position`; fewer where one call reads fewer."""
        os.lseek(self._descriptor, position, os.SEEK_SET)
        return os.read(self._descriptor, length)

    def size(self) -> int:
        """Return the size in bytes."""
        return os.fstat(self._descriptor).st_size

    def truncate(self, size_bytes: int) -> None:
        """Cut the file to `size_bytes`."""
        os.ftruncate(self._descriptor, size_bytes)

    def sync(self) -> None:
        """Wait for the device (nothing to wait for on a disk that need not last)."""
        if self._durable:
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Release the descriptor."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class PortableLock:
    """A lock file held by its descriptor; the system releases it when the process dies."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Let the next broker have it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class PortableDisk:
    """The operating system's files; `durable=False` leaves every fsync out (`--ephemeral`)."""

    file_type = PortableFile

    def __init__(self, *, durable: bool = True) -> None:
        self._durable = durable
        self._syncing: AbstractContextManager[object] = Lock()

    def open(self, path: str, *, create: bool = False, private: bool = False) -> File:
        """Open `path` for appending and reading."""
        flags = os.O_RDWR | os.O_APPEND | BINARY
        if create:
            flags |= os.O_CREAT
        descriptor = os.open(path, flags, 0o600 if private else 0o644)
        if private:
            os.chmod(path, 0o600)
        return self.file_type(descriptor, self._durable)

    def read_file(self, path: str) -> bytes:
        """Return the whole contents of a small file."""
        with open(path, "rb") as file:
            return file.read()

    def exists(self, path: str) -> bool:
        """Return whether a file or directory is there."""
        return os.path.exists(path)

    def size(self, path: str) -> int:
        """Return a file's size in bytes."""
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        """Return when the file was last written."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def listdir(self, path: str) -> list[str]:
        """Return the names in a directory."""
        return os.listdir(path)

    def is_directory(self, path: str) -> bool:
        """Return whether `path` is a directory."""
        return os.path.isdir(path)

    def mkdir(self, path: str) -> None:
        """Make a directory and its missing parents."""
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        """Give a file or directory a new name, once no sync has it open."""
        with self._syncing:
            os.replace(source, target)

    def unlink(self, path: str) -> None:
        """Remove a file, once no sync has it open."""
        with self._syncing:
            os.unlink(path)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        os.rmdir(path)

    def sync_file(self, path: str) -> None:
        """Wait until a file's contents are on the device."""
        if not self._durable:
            return
        with self._syncing:
            file = self.open(path)
            try:
                file.sync()
            finally:
                file.close()

    def sync_directory(self, path: str) -> None:
        """Do nothing: Windows has no call for it. What a power cut takes: docs/storage.md."""

    def space(self, path: str) -> tuple[int, int]:
        """Return the size of the volume, and what an ordinary process may still write."""
        usage = shutil.disk_usage(path)
        return usage.total, usage.free

    def lock(self, path: str) -> disk.Lock | None:
        """Take the lock file `path`, by what also refuses a real Kafka on the same directory."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | BINARY, 0o644)
        try:
            self._lock(descriptor)
        except (BlockingIOError, PermissionError):  # EAGAIN or, on some systems, EACCES
            os.close(descriptor)
            return None
        return PortableLock(descriptor)

    def _lock(self, descriptor: int) -> None:
        """Lock the first byte. Raises PermissionError where any descriptor has it locked."""
        # By name: its types are those of Windows alone, and tests give this module a twin.
        msvcrt: Any = import_module("msvcrt")
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
