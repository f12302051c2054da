"""Scans the batches of a segment file, reading headers only or verifying every byte.

Both scans walk over windows of the file with `protocol.batch_header.iterate_batches`. Reading,
indexing and timestamp searches need the 61-byte header of each batch only. Recovery also verifies
sizes, CRCs and the order of offsets, and reports the first bad batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from protocol.batch_header import BatchHeader, crc_mismatch, iterate_batches
from protocol.errors import ProtocolError
from storage.errors import CorruptBatchError

RELATIVE_OFFSET_MAX = 2**31 - 1
"""Offsets of a segment, relative to its base, are int32 in the indexes."""

HEADER_WINDOW_BYTES = 8192
VERIFY_WINDOW_BYTES = 1 << 20


class Readable(Protocol):
    """The part of a file's interface that scans use."""

    def pread(self, length: int, position: int) -> bytes:
        """Return up to `length` bytes from `position`."""


class Corruption(NamedTuple):
    """The first bad batch of a file, with the reason.

    `offsets_fall`: the base offset is too low, so this batch or the previous one is wrong.
    `is_torn`: the batch was written incompletely.
    """

    position: int
    reason: str
    offsets_fall: bool = False
    is_torn: bool = False


def end_offset_of(data: bytes) -> int:
    """Return the offset after the last batch in `data`; 0 without batches.

    Raises CorruptBatchError if `data` contains other bytes.
    """
    end_offset = 0
    try:
        for header in iterate_batches(data):
            end_offset = header.next_offset
    except ProtocolError as error:
        raise CorruptBatchError(f"no batch before offset {end_offset}: {error}") from error
    return end_offset


def scan_headers(
    file: Readable, position: int, end: int, window_bytes: int = HEADER_WINDOW_BYTES
) -> Iterator[BatchHeader]:
    """Yield the batches from `position` (a batch boundary) to `end`, reading headers only.

    Raises CorruptBatchError if the bytes cannot be a batch; contents are not verified.
    """
    while position < end:
        start = position
        window = file.pread(min(window_bytes, end - start), start)
        try:
            for header in iterate_batches(window, start, origin=start, end=end):
                position = header.end
                yield header
        except ProtocolError as error:
            raise CorruptBatchError(f"no batch at position {position}: {error}") from error
        if position == start:
            raise CorruptBatchError(f"no whole batch in the {end - start} bytes from {start} on")


def verify_batches(
    file: Readable, position: int, end: int, next_offset: int
) -> Iterator[BatchHeader | Corruption]:
    """Yield the good batches from `position` on, then the Corruption that ends them, if any.

    A good batch is complete, with a correct CRC and offsets rising from `next_offset`.
    """
    offset_limit = next_offset + RELATIVE_OFFSET_MAX
    window_bytes = VERIFY_WINDOW_BYTES
    while position < end:
        start, needed_bytes = position, 0
        window = file.pread(min(window_bytes, end - start), start)
        try:
            for header in iterate_batches(window, start, origin=start, end=end):
                if header.end > start + len(window):
                    needed_bytes = header.size_bytes
                    break
                corruption = _corruption_of(window, start, header, next_offset, offset_limit)
                if corruption is not None:
                    yield corruption
                    return
                yield header
                next_offset, position = header.next_offset, header.end
        except ProtocolError as error:
            yield Corruption(position, str(error))
            return
        if position == start and needed_bytes <= window_bytes:
            reason = f"torn batch: only {end - start} bytes of it are in the file"
            yield Corruption(position, reason, is_torn=True)
            return
        window_bytes = max(VERIFY_WINDOW_BYTES, needed_bytes)


def _corruption_of(
    window: bytes, start: int, header: BatchHeader, next_offset: int, offset_limit: int
) -> Corruption | None:
    """Return the corruption of a batch that is completely in the window at `start`, or None."""
    base_offset, position = header.base_offset, header.position
    if not 0 <= base_offset <= header.last_offset <= offset_limit:
        reason = f"impossible offsets {base_offset} to {header.last_offset}"
        return Corruption(position, reason)
    mismatch = crc_mismatch(window, header, start)
    if mismatch is not None:
        return Corruption(position, mismatch)
    if base_offset < next_offset:
        reason = f"offset {base_offset} where {next_offset} or more is due"
        return Corruption(position, reason, offsets_fall=True)
    return None
