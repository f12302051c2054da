"""Read-only files of a data directory, and a scan that continues after damage.

The broker's own recovery stops at the first bad batch. The tools continue after a bad batch if they
can find the next one, so that one flipped bit does not hide the rest of a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from protocol.batch_header import BatchHeader
from storage.batch_scan import Corruption, scan_headers, verify_batches
from storage.errors import CorruptBatchError


class ReadOnlyFile:
    """A file that can be read at any position; `size_bytes` is its size when opened."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self.path = path
        status = os.fstat(self._file.fileno())
        self.size_bytes = status.st_size
        self.inode = status.st_ino

    def pread(self, length: int, position: int) -> bytes:
        """Return up to `length` bytes from `position`; fewer only at the end of the file."""
        parts = []
        self._file.seek(position)
        while length > 0:
            part = self._file.read(length)
            if not part:
                break
            parts.append(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def walk_log(
    file: ReadOnlyFile, base_offset: int | None = None
) -> Iterator[BatchHeader | Corruption]:
    """Yield the batches of a log file in order, and a Corruption for each place without a batch.

    The scan continues after a batch with a wrong CRC or offset, and ends after a batch with an
    impossible size. `base_offset` is the smallest valid offset of the first batch.
    """
    end = file.size_bytes
    position = 0
    next_offset = first_offset(file) if base_offset is None else base_offset
    while position < end:
        for verified in verify_batches(file, position, end, next_offset):
            yield verified
            if isinstance(verified, BatchHeader):
                position, next_offset = verified.end, verified.next_offset
                continue
            following = _plausible_batch(file, verified.position)
            if following is None:
                return
            position = following.end
            if verified.offsets_fall:
                next_offset = following.next_offset


def first_offset(file: ReadOnlyFile) -> int:
    """Return the base offset from a file's name, else from its first batch, else 0."""
    digits = file.path.name[:20]
    if len(digits) == 20 and digits.isdigit():
        return int(digits)
    batch = _plausible_batch(file, 0)
    return max(batch.base_offset, 0) if batch is not None else 0


def _plausible_batch(file: ReadOnlyFile, position: int) -> BatchHeader | None:
    """Return the batch header at `position` if it is plausible, regardless of the CRC."""
    try:
        return next(scan_headers(file, position, file.size_bytes), None)
    except CorruptBatchError:
        return None
