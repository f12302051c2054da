"""A disk that uses only portable operations: the disk on Windows and the base of the POSIX disk.

Windows can neither rename nor remove open files. Storage closes its files first; this disk makes a
rename or removal wait for a sync in another thread. Tests also run this disk on Linux.
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
"""Prevents Windows from converting newlines to two bytes."""


class PortableFile:
    """A file descriptor, used by one thread at a time; see `storage.disk.File`."""

    __slots__ = ("_descriptor", "_durable")

    def __init__(self, descriptor: int, durable: bool) -> None:
        self._descriptor = descriptor
        self._durable = durable

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all buffers at the end; short writes are continued."""
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
        """Return up to `length` bytes from `position` with one system call, maybe fewer."""
        os.lseek(self._descriptor, position, os.SEEK_SET)
        return os.read(self._descriptor, length)

    def size(self) -> int:
        """Return the size in bytes."""
        return os.fstat(self._descriptor).st_size

    def truncate(self, size_bytes: int) -> None:
        """Cut the file to `size_bytes`."""
        os.ftruncate(self._descriptor, size_bytes)

    def sync(self) -> None:
        """Wait until the contents are on the device; no effect if not durable."""
        if self._durable:
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Release the descriptor."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class PortableLock:
    """A locked file; the system releases the lock when the process dies."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class PortableDisk:
    """The operating system's files; `durable=False` skips every fsync (`--ephemeral`)."""

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
        """Return whether a file or directory exists."""
        return os.path.exists(path)

    def size(self, path: str) -> int:
        """Return a file's size in bytes."""
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        """Return the modification time of a file, in milliseconds since 1970."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def listdir(self, path: str) -> list[str]:
        """Return the names in a directory."""
        return os.listdir(path)

    def is_directory(self, path: str) -> bool:
        """Return whether `path` is a directory."""
        return os.path.isdir(path)

    def mkdir(self, path: str) -> None:
        """Create a directory and its missing parents."""
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory, after any running sync."""
        with self._syncing:
            os.replace(source, target)

    def unlink(self, path: str) -> None:
        """Remove a file, after any running sync."""
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
        """Do nothing: Windows cannot sync directories. docs/storage.md lists the consequences."""

    def space(self, path: str) -> tuple[int, int]:
        """Return the total size of the volume, and the size available to ordinary processes."""
        usage = shutil.disk_usage(path)
        return usage.total, usage.free

    def lock(self, path: str) -> disk.Lock | None:
        """Lock the file `path` against other brokers, also Kafka; return None if it is locked."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | BINARY, 0o644)
        try:
            self._lock(descriptor)
        except (BlockingIOError, PermissionError):  # errno is EAGAIN or, on some systems, EACCES
            os.close(descriptor)
            return None
        return PortableLock(descriptor)

    def _lock(self, descriptor: int) -> None:
        """Lock the first byte. Raises PermissionError if another descriptor holds the lock."""
        # Import by name: the module has types on Windows only, and tests use a fake module.
        msvcrt: Any = import_module("msvcrt")
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
