"""The one interface to the disk: what storage asks of a file system, and nothing more.

`storage.local_disk` is the operating system (`posix_disk` or, on Windows, `portable_disk`),
`storage.memory_disk` the twin that tests make fail, tear and forget at any operation. Paths are
strings joined with "/". Every method may raise OSError; the callers turn it
into a StorageError where they know what it means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """An open file, written at its end only and read at any position."""

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all buffers at the end, in one system call where it takes them."""

    def pread(self, length: int, position: int) -> bytes:
        """Return up to `length` bytes from `position`; fewer only at the end of the file."""

    def size(self) -> int:
        """Return the size in bytes."""

    def truncate(self, size_bytes: int) -> None:
        """Cut the file to `size_bytes`."""

    def sync(self) -> None:
        """Return when the contents would survive a power cut (fdatasync)."""

    def close(self) -> None:
        """Release the descriptor; closing twice is allowed."""


class Lock(Protocol):
    """The held lock of a data directory."""

    def release(self) -> None:
        """Let the next one have it."""


class Disk(Protocol):
    """A file system as storage sees it."""

    def open(self, path: str, *, create: bool = False, private: bool = False) -> File:
        """Open `path` for appending and reading; with `create` make it when it is missing.

        With `private` its owner alone may read it from now on.
        """

    def read_file(self, path: str) -> bytes:
        """Return the whole contents of a small file."""

    def exists(self, path: str) -> bool:
        """Return whether a file or directory is there."""

    def size(self, path: str) -> int:
        """Return a file's size in bytes."""

    def modified_ms(self, path: str) -> int:
        """Return when the file was last written, in milliseconds since the epoch."""

    def listdir(self, path: str) -> list[str]:
        """Return the names in a directory, in any order."""

    def is_directory(self, path: str) -> bool:
        """Return whether `path` is a directory."""

    def mkdir(self, path: str) -> None:
        """Make a directory and its missing parents; one that is there already is no error."""

    def rename(self, source: str, target: str) -> None:
        """Give a file or directory a new name; a file that is in the way is replaced atomically.

        Like `unlink`, it may fail while a file in question is open (Windows).
        """

    def unlink(self, path: str) -> None:
        """Remove a file."""

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""

    def sync_file(self, path: str) -> None:
        """Return when a file's contents would survive a power cut; any thread may ask."""

    def sync_directory(self, path: str) -> None:
        """Return when the names in a directory would survive a power cut, where that is possible.

        Any thread may ask.
        """

    def space(self, path: str) -> tuple[int, int]:
        """Return the size of the volume that `path` is on, and what is free of it, in bytes."""

    def lock(self, path: str) -> Lock | None:
        """Take the lock file `path`; None when someone else holds it."""


def write_atomically(
    disk: Disk, path: str, contents: bytes, *, sync: bool = True, private: bool = False
) -> None:
    """Replace a small file so that a crash leaves either the old or the new contents.

    Written aside as `path.tmp` (the name Kafka's CheckpointFile uses), synced, renamed. Without
    `sync` that holds for the death of the process only; for files that can be rebuilt. A `private`
    file may be read by its owner alone.
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
