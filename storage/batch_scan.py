"""Walking the batches of a segment file: by headers alone, or with every byte checked.

Reading, indexing and timestamp searches need 61 bytes of each batch; recovery checks sizes, CRCs
and the order of offsets as well and says what is wrong with the first bad batch. Batches of the old
formats (magic 0 and 1, one message or one compressed wrapper each) are walked too.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from protocol.batch_layout import (
    CONTROL,
    CRC_POSITION,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    TRANSACTIONAL,
)
from protocol.crc32c import crc32c
from storage.errors import CorruptBatchError

LEGACY_MIN_BYTES = 26
# Offsets of a segment, relative to its base, are int32 in the indexes.
RELATIVE_OFFSET_MAX = 2**31 - 1

HEADER_WINDOW_BYTES = 8192
VERIFY_WINDOW_BYTES = 1 << 20


class Readable(Protocol):
    """What a scan needs of a file."""

    def pread(self, length: int, position: int) -> bytes:
        """Return up to `length` bytes from `position`."""


class StoredBatch(NamedTuple):
    """Where a batch lies in its file, and its header. Offsets are inclusive."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_offset_delta: int
    record_count: int

    @property
    def is_control(self) -> bool:
        """Whether it holds transaction markers instead of a client's records."""
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Whether it is part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL)


class Damage(NamedTuple):
    """The first bad batch of a file, and why it is bad; `offsets_fall`: it is one of two."""

    position: int
    reason: str
    offsets_fall: bool = False


def parse_header(data: bytes, at: int, position: int) -> StoredBatch:
    """Return the header at `data[at:]` of a batch that lies at `position` of its file."""
    (
        base_offset,
        length,
        leader_epoch,
        magic,
        _,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) = HEADER.unpack_from(data, at)
    size_bytes = length + LOG_OVERHEAD_BYTES
    if magic == 2:
        return StoredBatch(
            position,
            size_bytes,
            base_offset,
            base_offset + last_offset_delta,
            leader_epoch,
            2,
            attributes,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            last_offset_delta,
            count,
        )
    timestamp = int.from_bytes(data[at + 18 : at + 26], "big", signed=True) if magic == 1 else -1
    return StoredBatch(
        position,
        size_bytes,
        base_offset,
        base_offset,
        -1,
        magic,
        data[at + 17],
        timestamp,
        timestamp,
        -1,
        -1,
        -1,
        0,
        1,
    )


def end_offset_of(data: bytes) -> int:
    """Return the offset behind the last of whole batches; 0 without any."""
    position = last = 0
    while position < len(data):
        last = position
        size_bytes = int.from_bytes(data[position + 8 : position + LOG_OVERHEAD_BYTES], "big")
        position += size_bytes + LOG_OVERHEAD_BYTES
    return parse_header(data[last:] + bytes(HEADER_BYTES), 0, last).last_offset + 1 if data else 0


def scan_headers(
    file: Readable, position: int, end: int, window_bytes: int = HEADER_WINDOW_BYTES
) -> Iterator[StoredBatch]:
    """Yield the batches from `position` (a batch boundary) to `end`, reading headers only.

    CorruptBatchError when the bytes there cannot be a batch; contents are not checked.
    """
    window = b""
    window_start = position
    while position < end:
        at = position - window_start
        if at + HEADER_BYTES > len(window):
            window = file.pread(min(window_bytes, end - position), position)
            window_start = position
            at = 0
            if len(window) < HEADER_BYTES:  # a short legacy message at the end of the file
                window += bytes(HEADER_BYTES)
        batch = parse_header(window, at, position)
        least = HEADER_BYTES if batch.magic == 2 else LEGACY_MIN_BYTES
        if not 0 <= batch.magic <= 2 or not least <= batch.size_bytes <= end - position:
            raise CorruptBatchError(
                f"no batch at position {position}: magic {batch.magic}, {batch.size_bytes} bytes"
            )
        yield batch
        position += batch.size_bytes


def verify_batches(
    file: Readable, position: int, end: int, next_offset: int
) -> Iterator[StoredBatch | Damage]:
    """Yield the good batches from `position` on, then the Damage that ends them, if any.

    Good means: whole, the CRC right, and offsets rising from `next_offset`.
    """
    window = b""
    window_start = position
    offset_limit = next_offset + RELATIVE_OFFSET_MAX
    while position < end:
        if end - position < LEGACY_MIN_BYTES:
            yield Damage(position, f"{end - position} bytes of a torn batch header")
            return
        at = position - window_start
        if at + HEADER_BYTES > len(window):
            window = file.pread(min(VERIFY_WINDOW_BYTES, end - position), position)
            window_start, at = position, 0
            if len(window) < HEADER_BYTES:
                window += bytes(HEADER_BYTES)
        batch = parse_header(window, at, position)
        reason = _reason_against(batch, end, offset_limit)
        if reason is None and at + batch.size_bytes > len(window):
            window = file.pread(max(VERIFY_WINDOW_BYTES, batch.size_bytes), position)
            window_start, at = position, 0
        reason = reason or _crc_reason(window, at, batch)
        if reason is not None:
            yield Damage(position, reason)
            return
        if batch.base_offset < next_offset:
            reason = f"offset {batch.base_offset} where {next_offset} or more is due"
            yield Damage(position, reason, offsets_fall=True)
            return
        yield batch
        next_offset = batch.last_offset + 1
        position += batch.size_bytes


def _reason_against(batch: StoredBatch, end: int, offset_limit: int) -> str | None:
    """Say why a header cannot be one of a good batch; None when it can."""
    least = HEADER_BYTES if batch.magic == 2 else LEGACY_MIN_BYTES
    if not 0 <= batch.magic <= 2:
        return f"unknown magic {batch.magic}"
    if batch.size_bytes < least:
        return f"impossible batch size {batch.size_bytes}"
    if batch.size_bytes > end - batch.position:
        return f"torn batch: {end - batch.position} of {batch.size_bytes} bytes are there"
    if not 0 <= batch.base_offset <= batch.last_offset <= offset_limit:
        return f"impossible offsets {batch.base_offset} to {batch.last_offset}"
    return None


def _crc_reason(window: bytes, at: int, batch: StoredBatch) -> str | None:
    """Say how the CRC differs; None when it is right."""
    end = at + batch.size_bytes
    if batch.magic == 2:
        stored = int.from_bytes(window[at + CRC_POSITION : at + CRC_START], "big")
        computed = crc32c(window[at + CRC_START : end])
    else:
        stored = int.from_bytes(window[at + 12 : at + 16], "big")
        computed = zlib.crc32(window[at + 16 : end])
    return None if stored == computed else f"CRC is {stored}, the bytes give {computed}"
