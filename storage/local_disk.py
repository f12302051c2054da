"""The disk of the operating system: its file calls, kept thin."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence

from storage.disk import Buffer, File, Lock

# writev takes at most this many buffers in one call (IOV_MAX on Linux and the BSDs).
BUFFERS_PER_WRITE = 1024

# What is needed to read the bytes back, their number included; not every system distinguishes them.
_sync_data = getattr(os, "fdatasync", os.fsync)


class LocalFile:
    """One file descriptor; see `storage.disk.File`."""

    __slots__ = ("_descriptor", "_durable", "_path")

    def __init__(self, path: str, descriptor: int, durable: bool) -> None:
        self._path = path
        self._descriptor = descriptor
        self._durable = durable

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all buffers at the end; a short write is continued until all is there."""
        if len(buffers) <= BUFFERS_PER_WRITE:
            written = os.writev(self._descriptor, buffers)
            missing = sum(map(len, buffers)) - written
            if not missing:
                return
            rest = memoryview(b"".join(buffers))[written:]
        else:
            rest = memoryview(b"".join(buffers))
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def pread(self, length: int, position: int) -> bytes:
        """Return up to `length` bytes from `position`."""
        data = os.pread(self._descriptor, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        missing = length - len(data)
        while missing:
            data = os.pread(self._descriptor, missing, position + length - missing)
            if not data:
                break
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def size(self) -> int:
        """Return the size in bytes."""
        return os.fstat(self._descriptor).st_size

    def truncate(self, size_bytes: int) -> None:
        """Cut the file to `size_bytes`."""
        os.ftruncate(self._descriptor, size_bytes)

    def sync(self) -> None:
        """Wait for the device (nothing to wait for on a disk that need not last)."""
        if self._durable:
            _sync_data(self._descriptor)

    def close(self) -> None:
        """Release the descriptor."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class LocalLock:
    """A lock file held by its descriptor; the system lets go of it when the process dies."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Let the next one have it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class LocalDisk:
    """The operating system's files; `durable=False` leaves every fsync out (`--ephemeral`)."""

    def __init__(self, *, durable: bool = True) -> None:
        self._durable = durable

    def open(self, path: str, *, create: bool = False) -> File:
        """Open `path` for appending and reading."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        if create:
            flags |= os.O_CREAT
        return LocalFile(path, os.open(path, flags, 0o644), self._durable)

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
        """Give a file or directory a new name."""
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        """Remove a file."""
        os.unlink(path)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        os.rmdir(path)

    def sync_file(self, path: str) -> None:
        """Wait until a file's contents are on the device."""
        if not self._durable:
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _sync_data(descriptor)
        finally:
            os.close(descriptor)

    def sync_directory(self, path: str) -> None:
        """Wait until the names in a directory are on the device."""
        if not self._durable:
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def space(self, path: str) -> tuple[int, int]:
        """Return the size of the volume, and what an ordinary process may still write."""
        usage = os.statvfs(path)
        return usage.f_blocks * usage.f_frsize, usage.f_bavail * usage.f_frsize

    def lock(self, path: str) -> Lock | None:
        """Take the lock file `path`.

        Two kinds at once: flock also refuses a second holder inside this process, and a POSIX
        record lock is what Java takes, so that a real Kafka on the same directory is refused too.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except PermissionError:  # lockf may say EACCES instead of EAGAIN
            os.close(descriptor)
            return None
        return LocalLock(descriptor)
