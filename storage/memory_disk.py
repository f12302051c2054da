"""A disk in memory with simulated failures, for tests.

All changing operations are counted. `fail_at(n)` makes the n-th operation raise OSError, and
`crash_at(n)` simulates the death of the process there (`Crash`); with `torn=True` half of the bytes
are written before. `power_cut()` then drops everything that was not synced: contents without
`sync`, names without `sync_directory`. `power_cut(random)` keeps some unsynced contents, in any
order. After kill -9 the disk is unchanged: `processes_died()`.

As on Windows, open files cannot be renamed, replaced or removed, nor can a directory with an open
file be renamed.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from random import Random
from typing import NoReturn

from storage.disk import Buffer, File, Lock


class Crash(BaseException):
    """The simulated death of the process; not an Exception, so that no error handler catches it."""


class _Contents:
    """A file's bytes, as the process sees them (`data`) and as synced (`durable`).

    `unsynced` are the writes since the last sync, as (position, end).
    """

    __slots__ = ("data", "durable", "modified_ms", "unsynced")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = b""
        self.modified_ms = 0
        self.unsynced: list[tuple[int, int]] = []

    def sync(self) -> None:
        """Make the writes since the last sync durable."""
        data = bytearray(self.durable)
        for position, end in self.unsynced:
            data += bytes(max(0, end - len(data)))
            data[position:end] = self.data[position:end]
        self.durable = bytes(data[: len(self.data)])
        self.unsynced.clear()

    def forget_unsynced(self) -> None:
        """Treat unsynced writes as synced, as Linux does after a failed sync."""
        self.unsynced.clear()

    def reordered(self, random: Random) -> bytes:
        """Return possible contents after a power cut: synced data and some of the later writes.

        A lost write before a kept write leaves zeros.
        """
        data = bytearray(self.durable)
        for position, end in self.unsynced:
            if random.random() < 0.5:
                written = self.data[position:end]
                data += bytes(max(0, position + len(written) - len(data)))
                data[position : position + len(written)] = written
        return bytes(data)


class MemoryFile:
    """An open file of a MemoryDisk; see `storage.disk.File`."""

    def __init__(self, disk: MemoryDisk, path: str, contents: _Contents) -> None:
        self._disk = disk
        self._path = path
        self._contents = contents
        self._closed = False
        disk.open_files[self] = path

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all buffers at the end, or half of the bytes if a torn write is simulated."""
        assert not self._closed, self._path
        data = b"".join(buffers)
        written = self._disk.step("append", self._path, len(data))
        position = len(self._contents.data)
        self._contents.data += data[:written]
        self._contents.unsynced.append((position, position + written))
        self._contents.modified_ms = self._disk.now_ms
        self._disk.raise_if_torn(written, len(data))

    def pread(self, length: int, position: int) -> bytes:
        """Return up to `length` bytes from `position`.

        Raises OSError for a file in `unreadable`.
        """
        assert not self._closed, self._path
        if self._path in self._disk.unreadable:
            raise OSError(errno.EIO, "read error", self._path)
        self._disk.reads += 1
        return bytes(self._contents.data[position : position + length])

    def size(self) -> int:
        """Return the size in bytes."""
        return len(self._contents.data)

    def truncate(self, size_bytes: int) -> None:
        """Cut the file to `size_bytes`."""
        assert not self._closed, self._path
        self._disk.step("truncate", self._path)
        assert size_bytes <= len(self._contents.data)
        del self._contents.data[size_bytes:]

    def sync(self) -> None:
        """Make the contents survive a power cut."""
        assert not self._closed, self._path
        self._disk.step("sync", self._path)
        self._contents.sync()

    def close(self) -> None:
        """Release the descriptor."""
        self._closed = True
        self._disk.open_files.pop(self, None)


class MemoryLock:
    """The lock of a MemoryDisk."""

    def __init__(self, disk: MemoryDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        """Release the lock."""
        self._disk.locks.discard(self._path)


class MemoryDisk:
    """A file system in memory with simulated failures; see the module docstring."""

    def __init__(self) -> None:
        self._files: dict[str, _Contents] = {}
        self._directories: set[str] = {""}
        self._durable_files: dict[str, _Contents] = {}
        self._durable_directories: set[str] = {""}
        self._renamed: dict[str, str] = {}
        """The current names of durable directories that were renamed, or are inside such ones."""
        self.locks: set[str] = set()
        self.unreadable: set[str] = set()
        self.now_ms = 0
        self.open_files: dict[MemoryFile, str] = {}
        self.reads = 0
        self.operations: list[tuple[str, str]] = []
        self._fault_at = -1
        self._fault_kind = ""
        self._torn = False

    # --- faults -----------------------------------------------------------------------------------

    def fail_at(self, operation: int, *, torn: bool = False) -> None:
        """Make the n-th changing operation from now on (0 is the next) raise OSError, once."""
        self._arm("fail", operation, torn)

    def crash_at(self, operation: int, *, torn: bool = False) -> None:
        """Simulate the death of the process before the n-th changing operation from now on."""
        self._arm("crash", operation, torn)

    def _arm(self, kind: str, operation: int, torn: bool) -> None:
        self._fault_kind = kind
        self._fault_at = len(self.operations) + operation
        self._torn = torn

    @property
    def fault_is_pending(self) -> bool:
        """Whether the armed operation has not been reached yet."""
        return self._fault_at >= len(self.operations)

    def disarm(self) -> None:
        """Cancel the armed failure."""
        self._fault_at = -1

    def processes_died(self) -> None:
        """Release the dead process's locks and descriptors; all its writes are kept (kill -9)."""
        self.locks.clear()
        self.open_files.clear()
        self._fault_at = -1

    def power_cut(self, random: Random | None = None) -> None:
        """Drop all unsynced changes; with `random` some unsynced writes are kept, in any order."""
        self.processes_died()
        self._directories = set(self._durable_directories)
        self._renamed.clear()
        # A file is lost if the entry of its directory was not synced. Data directories at the root
        # count as created before the start.
        self._durable_files = {
            path: contents
            for path, contents in self._durable_files.items()
            if path.strip("/").count("/") < 2 or path.rpartition("/")[0] in self._directories
        }
        self._files = dict(self._durable_files)
        for contents in self._files.values():
            data = contents.durable if random is None else contents.reordered(random)
            contents.durable = data
            contents.data = bytearray(data)
            contents.unsynced.clear()

    def step(self, name: str, path: str, size_bytes: int = 0) -> int:
        """Count a changing operation; return how many of its bytes are written."""
        number = len(self.operations)
        self.operations.append((name, path))
        if number != self._fault_at:
            return size_bytes
        if self._torn and size_bytes > 1:
            return size_bytes // 2
        return self._break()

    def raise_if_torn(self, written: int, wanted: int) -> None:
        """Raise the error of a torn write after half of the bytes were written."""
        if written != wanted:
            self._break()

    def _break(self) -> NoReturn:
        name, path = self.operations[-1]
        if self._fault_kind == "crash":
            raise Crash(f"{name} {path}")
        raise OSError(errno.ENOSPC, "No space left on device", path)

    # --- Disk -------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False, private: bool = False) -> File:
        """Open `path` for appending and reading. Raises FileNotFoundError."""
        contents = self._files.get(path)
        if contents is None:
            if not create or path.rpartition("/")[0] not in self._directories:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            self.step("create", path)
            contents = self._files[path] = _Contents()
            contents.modified_ms = self.now_ms
        return MemoryFile(self, path, contents)

    def read_file(self, path: str) -> bytes:
        """Return the whole contents of a small file. Raises OSError."""
        if path in self.unreadable:
            raise OSError(errno.EIO, "read error", path)
        return bytes(self._existing(path).data)

    def exists(self, path: str) -> bool:
        """Return whether a file or directory exists."""
        return path in self._files or path in self._directories

    def size(self, path: str) -> int:
        """Return a file's size in bytes."""
        return len(self._existing(path).data)

    def modified_ms(self, path: str) -> int:
        """Return when the file was last written."""
        return self._existing(path).modified_ms

    def listdir(self, path: str) -> list[str]:
        """Return the names in a directory. Raises FileNotFoundError."""
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        prefix = path + "/"
        names = [*self._files, *self._directories]
        return sorted(
            name[len(prefix) :]
            for name in names
            if name.startswith(prefix) and "/" not in name[len(prefix) :]
        )

    def is_directory(self, path: str) -> bool:
        """Return whether `path` is a directory."""
        return path in self._directories

    def mkdir(self, path: str) -> None:
        """Make a directory and its missing parents."""
        if path not in self._directories:
            parent = path.rpartition("/")[0]
            if parent not in self._directories:
                self.mkdir(parent)
            self.step("mkdir", path)
            self._directories.add(path)

    def rename(self, source: str, target: str) -> None:
        """Give a file or directory a new name. Raises FileNotFoundError, PermissionError."""
        self._check_closed(source)
        self._check_closed(target)
        if source in self._files:
            self.step("rename", source)
            self._files[target] = self._files.pop(source)
            return
        if source not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", source)
        self.step("rename", source)
        for name in [name for name in self._files if name.startswith(source + "/")]:
            self._files[target + name[len(source) :]] = self._files.pop(name)
        for name in _inside(source, self._directories):
            self._directories.discard(name)
            self._directories.add(target + name[len(source) :])
        for name in _inside(source, self._durable_directories):
            self._renamed[name] = target + name[len(source) :]
        for name, current in tuple(self._renamed.items()):
            if f"{current}/".startswith(source + "/"):
                self._renamed[name] = target + current[len(source) :]

    def unlink(self, path: str) -> None:
        """Remove a file. Raises FileNotFoundError, PermissionError."""
        self._existing(path)
        self._check_closed(path)
        self.step("unlink", path)
        del self._files[path]

    def rmdir(self, path: str) -> None:
        """Remove an empty directory. Raises OSError."""
        if self.listdir(path):
            raise OSError(errno.ENOTEMPTY, "Directory not empty", path)
        self.step("rmdir", path)
        self._directories.discard(path)

    def sync_file(self, path: str) -> None:
        """Make a file's contents survive a power cut."""
        contents = self._existing(path)
        self.step("sync", path)
        contents.sync()

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory survive a power cut."""
        self.step("sync_directory", path)
        children = {name for name in self._files if name.rpartition("/")[0] == path}
        for name in [n for n in self._durable_files if n.rpartition("/")[0] == path]:
            if name not in children:
                del self._durable_files[name]
        for name in children:
            self._durable_files[name] = self._files[name]
        self._sync_subdirectories(path)

    def _sync_subdirectories(self, path: str) -> None:
        now = {d for d in self._directories if d and d.rpartition("/")[0] == path}
        before = {d for d in self._durable_directories if d and d.rpartition("/")[0] == path}
        for gone in before - now:
            for name in _inside(gone, self._durable_directories):
                self._durable_directories.discard(name)
                current = self._renamed.pop(name, None)
                if name != gone and current is not None:
                    self._durable_directories.add(current)
            for name in [n for n in self._durable_files if n.startswith(gone + "/")]:
                contents = self._durable_files.pop(name)
                # Files of a renamed directory stay durable under their new name.
                for new_name, live in self._files.items():
                    if live is contents:
                        self._durable_files[new_name] = contents
        self._durable_directories |= now

    def space(self, path: str) -> tuple[int, int]:
        """Return a size of one gigabyte, and the free bytes."""
        used = sum(len(contents.data) for contents in self._files.values())
        return 1 << 30, (1 << 30) - used

    def lock(self, path: str) -> Lock | None:
        """Lock the file `path`; return None if the lock is held."""
        if path in self.locks:
            return None
        self.locks.add(path)
        return MemoryLock(self, path)

    def _check_closed(self, path: str) -> None:
        """Raise PermissionError for an open file, or for a directory with an open file."""
        for name in self.open_files.values():
            if name == path or name.startswith(path + "/"):
                raise PermissionError(errno.EACCES, "The file is open", name)

    def _existing(self, path: str) -> _Contents:
        contents = self._files.get(path)
        if contents is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return contents


def _inside(directory: str, names: set[str]) -> list[str]:
    """Return a directory and the directories of `names` inside it."""
    return [name for name in names if f"{name}/".startswith(f"{directory}/")]
