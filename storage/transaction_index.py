"""`.txnindex`: the aborted transactions whose marker lies in a segment (Kafka's TransactionIndex).

Readers of committed records need to know which records below the last stable offset were aborted.
An entry has 34 bytes: version, producer id, first and last offset of the transaction, the last
stable offset that its end led to. Entries come in the order of the markers. A segment without
aborted transactions has no file, so what is not synced cannot be missed at the next start: a flush
syncs these files with the logs. `log_loader` rebuilds a damaged one from the batches.
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
# Entries that are read at a time: some 4 KiB.
_WINDOW_ENTRIES = 128


class AbortedTxn(NamedTuple):
    """An entry; `last_offset` is that of the marker (Kafka's AbortedTxn)."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions that ended in one segment, ascending in `last_offset`.

    A new entry is written at once if the disk lets it; if not it waits in memory for `save`.
    """

    __slots__ = ("_file", "_pending", "_saved")

    def __init__(self, files: OpenFiles, path: str, size_bytes: int | None = None) -> None:
        """`size_bytes`: of the file that is there; None without one."""
        self._file = LazyFile(files, path)
        self._saved = (size_bytes or 0) // ENTRY.size
        self._pending: list[AbortedTxn] = []

    def __len__(self) -> int:
        return self._saved + len(self._pending)

    @property
    def is_behind(self) -> bool:
        """Whether the disk did not let an entry be written yet."""
        return bool(self._pending)

    @property
    def path(self) -> str:
        """Where the file lies, or would lie once there is an entry."""
        return self._file.path

    def entries(self, number: int = 0) -> Iterator[AbortedTxn]:
        """Yield the entries from that number on; OSError when the file is shorter than it was."""
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
        """Yield the transactions whose marker lies at or after `offset`."""
        low, high = 0, self._saved
        while low < high:
            middle = (low + high) // 2
            if next(self.entries(middle)).last_offset < offset:
                low = middle + 1
            else:
                high = middle
        return (entry for entry in self.entries(low) if entry.last_offset >= offset)

    def reaches(self, offset: int) -> bool:
        """Whether the last entry has its end at or after `offset`."""
        return bool(len(self)) and next(self.entries(len(self) - 1)).last_offset >= offset

    def add(self, entry: AbortedTxn) -> None:
        """Take in a transaction that was just aborted."""
        self._pending.append(entry)
        # The marker is in the log and counts; `save` comes again when the segment rolls.
        with suppress(OSError):
            self.save()

    def save(self) -> None:
        """Write what waits in memory; OSError when the disk fails."""
        if not self._pending:
            return
        file = self._file.get(create=True)
        # A write that failed earlier may have left part of an entry behind.
        if file.size() != self._saved * ENTRY.size:
            file.truncate(self._saved * ENTRY.size)
        file.append([encoded(self._pending)])
        self._saved += len(self._pending)
        self._pending.clear()

    def truncate_to(self, offset: int) -> None:
        """Forget the transactions that ended at or after `offset`."""
        self._pending = [entry for entry in self._pending if entry.last_offset < offset]
        if self._saved:
            gone = sum(1 for entry in self.ended_since(offset)) - len(self._pending)
            kept = self._saved - max(gone, 0)
            if kept < self._saved:
                self._file.get().truncate(kept * ENTRY.size)
                self._saved = kept

    def replace(self, disk: Disk, entries: list[AbortedTxn]) -> None:
        """Let the file hold just these; a crash leaves the old ones or the new."""
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
        """Take note that a file with this many entries lies there now."""
        self._saved = count

    def close(self) -> None:
        """Let go of the descriptor."""
        self._file.close()


def encoded(entries: Iterable[AbortedTxn]) -> bytes:
    """Return the bytes of a file with these entries."""
    return b"".join([ENTRY.pack(VERSION, *entry) for entry in entries])


def aborted_between(indexes: Iterable[TransactionIndex], start: int, end: int) -> list[AbortedTxn]:
    """Return the aborted transactions that records between `start` and `end` (exclusive) can belong
    to; `indexes` are those of the segment that holds `start` and of all after it.

    After an entry that left the last stable offset at `end` or more none can follow (KIP-98).
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
    """Return whether this can be the index of the segment from `base_offset` on: whole entries of a
    known version, each with its marker in the segment and after the one before."""
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
