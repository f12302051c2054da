"""The sparse indexes of a segment: offset -> position, and timestamp -> offset.

The formats are Kafka's: `.index` has 8-byte entries (relative offset, position), `.timeindex` has
12-byte entries (timestamp, relative offset), all big-endian and ascending, one per
`index.interval.bytes` of log. New entries are buffered in memory to save system calls; an index can
always be rebuilt from its log. Lookups are a binary search in the file with pread; indexes are not
loaded into memory.
"""

from __future__ import annotations

import struct
from typing import ClassVar

from storage.open_files import LazyFile, OpenFiles

# Limit of buffered entries: 2 MiB of log at the default interval.
PENDING_ENTRIES_MAX = 512


class IndexFile:
    """Pairs (first, second), ascending in `first`: the base class of both indexes."""

    entry: ClassVar[struct.Struct]

    __slots__ = ("_exists", "_file", "_pending", "_saved", "last")

    def __init__(self, files: OpenFiles, path: str, size_bytes: int | None) -> None:
        self._file = LazyFile(files, path)
        self._exists = size_bytes is not None
        self._saved = (size_bytes or 0) // self.entry.size
        self._pending: list[tuple[int, int]] = []
        self.last: tuple[int, int] | None = self.at(self._saved - 1) if self._saved else None

    def __len__(self) -> int:
        return self._saved + len(self._pending)

    @property
    def path(self) -> str:
        """The path of the file, which may not exist yet."""
        return self._file.path

    def at(self, number: int) -> tuple[int, int]:
        """Return the entry with this number. Raises OSError."""
        if number >= self._saved:
            return self._pending[number - self._saved]
        data = self._file.pread(self.entry.size, number * self.entry.size)
        if len(data) != self.entry.size:
            raise OSError(f"index {self._file.path} ends before entry {number}")
        first, second = self.entry.unpack(data)
        return first, second

    def add(self, first: int, second: int) -> None:
        """Append an entry, whose `first` must be larger than the `first` of the last entry."""
        assert self.last is None or first > self.last[0], (first, self.last)
        self.last = (first, second)
        self._pending.append(self.last)
        if len(self._pending) >= PENDING_ENTRIES_MAX:
            self.save()

    def floor(self, first: int) -> int:
        """Return the number of the last entry with `first` at or below the argument, or -1."""
        return self._floor(first, 0)

    def floor_of_second(self, second: int) -> int:
        """Return the number of the last entry with `second` at or below the argument, or -1."""
        return self._floor(second, 1)

    def _floor(self, value: int, column: int) -> int:
        pending = self._pending
        low, high = 0, len(self)
        if pending and pending[0][column] <= value:
            low = self._saved
        elif pending:
            high = self._saved
        while low < high:
            middle = (low + high) // 2
            if self.at(middle)[column] <= value:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def save(self) -> None:
        """Write the buffered entries. An index without entries has an empty file, as in Kafka."""
        if self._pending or not self._exists:
            pack = self.entry.pack
            entries = b"".join([pack(*entry) for entry in self._pending])
            file = self._file.get(create=True)
            # An earlier failed write may have left part of an entry.
            if file.size() != self._saved * self.entry.size:
                file.truncate(self._saved * self.entry.size)
            file.append([entries])
            self._exists = True
            self._saved += len(self._pending)
            self._pending.clear()

    def reset(self) -> None:
        """Remove all entries, in memory and in the file."""
        self._pending.clear()
        self._saved = 0
        self.last = None
        if self._exists:
            self._file.get().truncate(0)

    def close(self) -> None:
        """Close the descriptor. Buffered entries are lost unless `save` was called."""
        self._file.close()


class OffsetIndex(IndexFile):
    """`.index`: (offset relative to the segment's base, position in the log file)."""

    __slots__ = ()
    entry = struct.Struct(">ii")


class TimeIndex(IndexFile):
    """`.timeindex`: (largest timestamp so far, relative offset of the batch that has it)."""

    __slots__ = ()
    entry = struct.Struct(">qi")
