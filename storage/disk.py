"""The interface to the disk: the file system operations that storage needs.

`storage.local_disk` implements the interface with the operating system (`posix_disk` or, on
Windows, `portable_disk`), `storage.memory_disk` in memory, for tests that simulate failures and
crashes at any operation. Paths are strings joined with "/". Every method may raise OSError; callers
convert the error into a StorageError.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol, cast

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """An open file, written at its end only and read at any position."""

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all buffers at the end, in one system call if possible."""

    def pread(self, length: int, position: int) -> bytes:
        """Return up to `length` bytes from `position`; fewer only at the end of the file."""

    def size(self) -> int:
        """Return the size in bytes."""

    def truncate(self, size_bytes: int) -> None:
        """Cut the file to `size_bytes`."""

    def sync(self) -> None:
        """Return when the contents are safe from a power cut (fdatasync)."""

    def close(self) -> None:
        """Release the descriptor; closing twice is allowed."""


class Lock(Protocol):
    """The held lock of a data directory."""

    def release(self) -> None:
        """Release the lock."""


class Disk(Protocol):
    """A file system as storage sees it."""

    def open(self, path: str, *, create: bool = False, private: bool = False) -> File:
        """Open `path` for appending and reading; with `create` a missing file is created.

        With `private` the permissions are changed so that only the owner can read the file.
        """

    def read_file(self, path: str) -> bytes:
        """Return the whole contents of a small file."""

    def exists(self, path: str) -> bool:
        """Return whether a file or directory exists."""

    def size(self, path: str) -> int:
        """Return a file's size in bytes."""

    def modified_ms(self, path: str) -> int:
        """Return the modification time of a file, in milliseconds since 1970."""

    def listdir(self, path: str) -> list[str]:
        """Return the names in a directory, in any order."""

    def is_directory(self, path: str) -> bool:
        """Return whether `path` is a directory."""

    def mkdir(self, path: str) -> None:
        """Create a directory and its missing parents; an existing directory is not an error."""

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory; an existing target file is replaced atomically.

        On Windows this fails while a file is open, as `unlink` does.
        """

    def unlink(self, path: str) -> None:
        """Remove a file."""

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""

    def sync_file(self, path: str) -> None:
        """Return when a file's contents are safe from a power cut. Can be called in any thread."""

    def sync_directory(self, path: str) -> None:
        """Return when a directory's entries are safe from a power cut, if the system supports that.

        Can be called in any thread.
        """

    def space(self, path: str) -> tuple[int, int]:
        """Return the total and the free size of the volume of `path`, in bytes."""

    def lock(self, path: str) -> Lock | None:
        """Lock the file `path`; return None if another holder has the lock."""


class _ClosedDisk:
    def __getattr__(self, _: str) -> Callable[..., NoReturn]:
        return _refuse


def _refuse(*_: object, **__: object) -> NoReturn:
    raise OSError(errno.ESHUTDOWN, "the data directory is closed")


CLOSED = cast(Disk, _ClosedDisk())
"""The disk of a closed data directory, which may belong to another cluster: all methods raise."""


def write_atomically(
    disk: Disk, path: str, contents: bytes, *, sync: bool = True, private: bool = False
) -> None:
    """Replace a small file so that a crash leaves either the old or the new contents.

    The contents are written to `path.tmp` (as in Kafka's CheckpointFile), synced and renamed.
    Without `sync` the file survives a crash of the process but not a power cut, which is enough
    for files that can be rebuilt. Only its owner can read a `private` file.
    """
    temporary = path + ".tmp"
    if disk.exists(temporary):
        disk.unlink(temporary)
    file = disk.open(temporary, create=True, private=private)
    try:
        file.append([contents])
        if sync:
            file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
    if sync:
        disk.sync_directory(path.rpartition("/")[0])
