"""The batches of a segment that may be damaged: the walk goes on after bytes that are none.

A segment is a chain: each header says how long its batch is. Where the chain breaks, the next
batch is found again by the looks of its header and its CRC.
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
    """Bytes that are no batch, from `position` to `end`; `offset` was due there."""

    position: int
    end: int
    offset: int
    reason: str


def batches_and_corruption(
    data: bytes | mmap, position: int, end: int, offset: int
) -> Iterator[BatchHeader | CorruptRange]:
    """The batches from `position`, where one begins, to `end`; offsets rise from `offset` on.

    The CRC of a batch is checked only where the next one does not follow from it. Bytes at the end
    that are too few for a batch are the last CorruptRange.
    """
    limit = offset + RELATIVE_OFFSET_MAX
    while position < end:
        # The batch at `position`, until it is known that what comes after it fits.
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
    """Whether to believe a header that no other batch follows, or what is no batch (`is_garbage`).

    One with a wrong CRC too, if a cut batch follows and no good one does: it is not its length that
    is damaged then.
    """
    if header.end == end or crc_is_valid(data, header):
        return True
    if is_garbage and end - header.end >= HEADER_BYTES:
        return False
    return resume_at(data, header.position + 1, end, offset) == end


def _is_credible(
    data: bytes | mmap, header: BatchHeader, following: BatchHeader, offset: int
) -> bool:
    """Whether to believe the first of two batches whose offsets fall.

    Not when its CRC is wrong; nor, as no CRC covers the offsets, when the second one is good and
    follows what came before both.
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
    """The next place that looks like a batch and has the right CRC; `end` if there is none."""
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
