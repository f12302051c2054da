"""`.txnindex`: the aborted transactions with a marker in a segment (Kafka's TransactionIndex).

read_committed consumers need to know which records below the last stable offset were aborted. An
entry has 34 bytes: version, producer id, first and last offset of the transaction, and the last
stable offset after its end. Entries are in the order of the markers. A segment without aborted
transactions has no file, so a start cannot detect a missing file; a flush therefore syncs these
files with the logs. `log_loader` rebuilds a damaged file from the batches.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from storage.disk import Disk, write_atomically
from storage.open_files import LazyFile, OpenFiles

TRANSACTION_INDEX_SUFFIX = ".txnindex"
ENTRY = struct.Struct(">hqqqq")
VERSION = 0
# Number of entries per read: about 4 KiB.
_WINDOW_ENTRIES = 128


class AbortedTxn(NamedTuple):
    """An entry; `last_offset` is the offset of the marker (Kafka's AbortedTxn)."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions that ended in one segment, ascending in `last_offset`.

    A new entry is written immediately; if that fails, the entry stays in memory for `save`.
    """

    __slots__ = ("_file", "_pending", "_saved")

    def __init__(self, files: OpenFiles, path: str, size_bytes: int | None = None) -> None:
        """Create an index; `size_bytes` is the size of an existing file, None without a file."""
        self._file = LazyFile(files, path)
        self._saved = (size_bytes or 0) // ENTRY.size
        self._pending: list[AbortedTxn] = []

    def __len__(self) -> int:
        return self._saved + len(self._pending)

    @property
    def is_behind(self) -> bool:
        """Whether an entry could not be written yet."""
        return bool(self._pending)

    @property
    def path(self) -> str:
        """The path of the file, which may not exist yet."""
        return self._file.path

    def entries(self, number: int = 0) -> Iterator[AbortedTxn]:
        """Yield the entries from this number on. Raises OSError if the file is too short."""
        while number < self._saved:
            wanted = min(_WINDOW_ENTRIES, self._saved - number) * ENTRY.size
            data = self._file.pread(wanted, number * ENTRY.size)
            if len(data) != wanted:
                raise OSError(f"transaction index {self.path} ends before entry {number}")
            for _, *fields in ENTRY.iter_unpack(data):
                yield AbortedTxn(*fields)
                number += 1
        yield from self._pending[number - self._saved :]

    def ended_since(self, offset: int) -> Iterator[AbortedTxn]:
        """Yield the transactions whose marker is at or after `offset`."""
        low, high = 0, self._saved
        while low < high:
            middle = (low + high) // 2
            if next(self.entries(middle)).last_offset < offset:
                low = middle + 1
            else:
                high = middle
        return (entry for entry in self.entries(low) if entry.last_offset >= offset)

    def reaches(self, offset: int) -> bool:
        """Return whether the marker of the last entry is at or after `offset`."""
        return bool(len(self)) and next(self.entries(len(self) - 1)).last_offset >= offset

    def add(self, entry: AbortedTxn) -> None:
        """Add a transaction that was just aborted."""
        self._pending.append(entry)
        # Ignore a failure: the log contains the marker, and the roll of the segment saves the
        # index again.
        with suppress(OSError):
            self.save()

    def save(self) -> None:
        """Write the entries in memory. Raises OSError."""
        if not self._pending:
            return
        file = self._file.get(create=True)
        # An earlier failed write may have left part of an entry.
        if file.size() != self._saved * ENTRY.size:
            file.truncate(self._saved * ENTRY.size)
        file.append([encoded(self._pending)])
        self._saved += len(self._pending)
        self._pending.clear()

    def truncate_to(self, offset: int) -> None:
        """Remove the transactions that ended at or after `offset`."""
        self._pending = [entry for entry in self._pending if entry.last_offset < offset]
        if self._saved:
            gone = sum(1 for entry in self.ended_since(offset)) - len(self._pending)
            kept = self._saved - max(gone, 0)
            if kept < self._saved:
                self._file.get().truncate(kept * ENTRY.size)
                self._saved = kept

    def replace(self, disk: Disk, entries: list[AbortedTxn]) -> None:
        """Replace all entries; a crash leaves the old or the new entries."""
        contents = encoded(entries)
        self.close()
        self._pending.clear()
        self._saved = len(entries)
        if disk.exists(self.path):
            if disk.read_file(self.path) == contents:
                return
            if not entries:
                disk.unlink(self.path)
        if entries:
            write_atomically(disk, self.path, contents)

    def adopt(self, count: int) -> None:
        """Use an existing file with this number of entries, written by the cleaner."""
        self._saved = count

    def close(self) -> None:
        """Close the descriptor."""
        self._file.close()


def encoded(entries: Iterable[AbortedTxn]) -> bytes:
    """Encode the contents of a file with these entries."""
    return b"".join([ENTRY.pack(VERSION, *entry) for entry in entries])


def aborted_between(indexes: Iterable[TransactionIndex], start: int, end: int) -> list[AbortedTxn]:
    """Return the aborted transactions that may contain records from `start` to `end` (exclusive).

    `indexes` belong to the segment with `start` and all later segments. The search stops at an
    entry whose last stable offset is at least `end`, since later entries do not apply (KIP-98).
    """
    transactions = []
    for index in indexes:
        if not len(index):
            continue
        for entry in index.ended_since(start):
            if entry.first_offset < end:
                transactions.append(entry)
            if entry.last_stable_offset >= end:
                return transactions
    return transactions


def looks_whole(contents: bytes, base_offset: int) -> bool:
    """Return whether the contents of an index file are plausible for the segment.

    The file must have complete entries of a known version, with markers in the segment in ascending
    order.
    """
    if len(contents) % ENTRY.size:
        return False
    last = base_offset - 1
    for version, _, first_offset, last_offset, last_stable_offset in ENTRY.iter_unpack(contents):
        if version != VERSION or not 0 <= first_offset < last_offset:
            return False
        if last_offset <= last or not 0 <= last_stable_offset <= last_offset + 1:
            return False
        last = last_offset
    return True
