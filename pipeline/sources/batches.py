"""Iterate the batches of a segment that may be damaged, skipping corrupt bytes.

Each header has the length of its batch, so a segment is a chain. Where the chain breaks, the next
batch is found by the form of its header and its CRC.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from protocol.batch_header import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    BatchHeader,
    crc_is_valid,
    crc_mismatch,
    iterate_batches,
    unpack_header,
)
from protocol.errors import ProtocolError
from storage.batch_scan import RELATIVE_OFFSET_MAX

if TYPE_CHECKING:
    from mmap import mmap

_SEARCH_BYTES = 1 << 22


class CorruptRange(NamedTuple):
    """Bytes from `position` to `end` that are not a batch; `offset` is the next expected one."""

    position: int
    end: int
    offset: int
    reason: str


def batches_and_corruption(
    data: bytes | mmap, position: int, end: int, offset: int
) -> Iterator[BatchHeader | CorruptRange]:
    """Yield the batches from `position`, where a batch begins, to `end`, with rising offsets.

    The first offset is at least `offset`. The CRC of a batch is checked only if the next batch does
    not follow from it. Trailing bytes that are too few for a batch are the last CorruptRange.
    """
    limit = offset + RELATIVE_OFFSET_MAX
    while position < end:
        # Hold back the batch at `position` until the next header confirms it.
        held: BatchHeader | None = None
        next_offset, reason, is_garbage = offset, "", False
        try:
            for header in iterate_batches(data, position, end=end):
                base_offset, delta = header.base_offset, header.last_offset_delta
                if held is not None:
                    if base_offset < next_offset and not _is_credible(data, held, header, offset):
                        held, reason = None, _offset_reason(base_offset, next_offset)
                        break
                    yield held
                    offset, position, held = next_offset, header.position, None
                if not offset <= base_offset <= limit or delta < 0:
                    reason = _offset_reason(base_offset, offset)
                    break
                held, next_offset = header, base_offset + delta + 1
        except ProtocolError as error:
            reason, is_garbage = str(error), True
        if held is not None and _is_last(data, held, end, offset, is_garbage):
            yield held
            offset, position = next_offset, held.end
        if position < end:
            following = resume_at(data, position + 1, end, offset)
            reason = reason or f"no whole batch in the {end - position} bytes to the end"
            yield CorruptRange(position, following, offset, reason)
            position = following


def _is_last(
    data: bytes | mmap, header: BatchHeader, end: int, offset: int, is_garbage: bool
) -> bool:
    """Return whether to accept a batch that no valid batch follows.

    `is_garbage` is true if the bytes after the batch are not a header. A batch with a wrong CRC is
    accepted if the bytes after it start like a batch that is cut off: its length is then right.
    """
    if header.end == end or crc_is_valid(data, header):
        return True
    if is_garbage and end - header.end >= HEADER_BYTES:
        return False
    return resume_at(data, header.position + 1, end, offset) == end


def _is_credible(
    data: bytes | mmap, header: BatchHeader, following: BatchHeader, offset: int
) -> bool:
    """Return whether to accept the first of two batches whose offsets decrease.

    The first batch is rejected if its CRC is wrong, or if the second batch is valid and continues
    the offsets from before both (no CRC covers the offsets).
    """
    if not crc_is_valid(data, header):
        return False
    is_due = following.magic == 2 and following.base_offset >= offset
    return not (is_due and crc_is_valid(data, following))


def _offset_reason(base_offset: int, offset: int) -> str:
    if base_offset < offset:
        return f"offset {base_offset} where {offset} or more is due"
    return f"an impossible header (offset {base_offset})"


def resume_at(data: bytes | mmap, position: int, end: int, offset: int) -> int:
    """Return the next position with the form of a batch and a valid CRC; `end` if none."""
    while position + HEADER_BYTES <= end:
        stop = min(position + _SEARCH_BYTES, end - HEADER_BYTES + 1)
        window = np.frombuffer(data[position : stop + HEADER_BYTES], np.uint8)
        count = stop - position
        magic = window[MAGIC_POSITION : MAGIC_POSITION + count]
        places = np.arange(position, stop)
        base: Any = np.ndarray((count,), ">i8", window, strides=(1,))
        length: Any = np.ndarray((count,), ">i4", window, offset=8, strides=(1,))
        likely = (magic == 2) & (base >= offset) & (base <= offset + RELATIVE_OFFSET_MAX)
        likely &= length >= HEADER_BYTES - LOG_OVERHEAD_BYTES
        likely &= length <= end - places - LOG_OVERHEAD_BYTES
        for place in places[likely].tolist():
            if crc_mismatch(data, unpack_header(data, place)) is None:
                return int(place)
        position = stop
    return end
