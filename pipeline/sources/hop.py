"""From batch to batch by their headers, and back on the track behind damaged bytes.

A segment is a chain: each header says how long its batch is. Where the chain breaks, the next
batch is found again by its looks and its CRC.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from protocol.batch_layout import CRC_START, HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC_POSITION
from protocol.crc32c import crc32c
from storage.batch_scan import LEGACY_MIN_BYTES, RELATIVE_OFFSET_MAX

_FRONT = Struct(">qiibIhi")  # base offset, length, epoch, magic, CRC, attributes, last offset delta
_LEGACY_CRC_POSITION = 12
_SEARCH_BYTES = 1 << 22

Buffer = Any  # bytes or a memory map: what struct and slices take


class Hop(NamedTuple):
    """A batch by its header. `magic` below 2 is an entry of the old formats."""

    position: int
    end: int
    base_offset: int
    next_offset: int
    magic: int
    crc: int
    attributes: int


class Broken(NamedTuple):
    """Bytes that are no batch, from `position` to `end`; `offset` was due there."""

    position: int
    end: int
    offset: int
    reason: str


def hops(data: Buffer, position: int, end: int, offset: int) -> Iterator[Hop | Broken]:
    """What lies from `position`, a batch's beginning, to `end`; offsets rise from `offset` on.

    The contents of batches are not looked at. Bytes at the end that are too few for a batch are
    the last `Broken`.
    """
    unpack, size = _FRONT.unpack_from, _FRONT.size
    limit = offset + RELATIVE_OFFSET_MAX
    front = unpack(data, position) if end - position >= size else None
    while position < end:
        if front is None:
            yield Broken(position, end, offset, f"{end - position} bytes of a torn header")
            return
        base_offset, length, _, magic, crc, attributes, delta = front
        stop = position + LOG_OVERHEAD_BYTES + length
        if magic == 2:
            looks_well = length >= HEADER_BYTES - LOG_OVERHEAD_BYTES and delta >= 0
        else:
            delta = attributes = 0
            looks_well = 0 <= magic < 2 and length >= LEGACY_MIN_BYTES - LOG_OVERHEAD_BYTES
        if looks_well and stop <= end and offset <= base_offset <= limit:
            following = unpack(data, stop) if end - stop >= size else None
            step = Hop(position, stop, base_offset, base_offset + delta + 1, magic, crc, attributes)
            if (
                following is None
                or (following[0] >= step.next_offset and 0 <= following[3] <= 2)
                or _is_right_one(data, step, following, offset, end)
            ):
                yield step
                offset, position, front = step.next_offset, stop, following
                continue
        found = resume_at(data, position + 1, end, offset)
        yield Broken(position, found, offset, _reason(magic, base_offset, offset, stop, end))
        position = found
        front = unpack(data, position) if end - position >= size else None


def _is_right_one(
    data: Buffer, step: Hop, following: tuple[int, ...], offset: int, end: int
) -> bool:
    """Of two batches that do not go together, whether the first one is to be believed.

    Not when its CRC is wrong; nor, as offsets are under no CRC, when the second one is good and
    lies before it.
    """
    if crc_reason(data, step) is not None:
        return False
    second, length, _, magic, crc, *_ = following
    stop = step.end + LOG_OVERHEAD_BYTES + length
    if magic != 2 or not offset <= second < step.next_offset or not step.end < stop <= end:
        return True
    return crc32c(data[step.end + CRC_START : stop]) != crc


def _reason(magic: int, base_offset: int, offset: int, stop: int, end: int) -> str:
    if not 0 <= magic <= 2:
        return f"magic {magic}"
    if stop > end:
        return f"a batch that reaches {stop - end} bytes too far"
    if base_offset < offset:
        return f"offset {base_offset} where {offset} or more is due"
    return f"an impossible header (offset {base_offset})"


def resume_at(data: Buffer, position: int, end: int, offset: int) -> int:
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
            _, size, _, _, crc, *_ = _FRONT.unpack_from(data, place)
            if crc32c(data[place + CRC_START : place + LOG_OVERHEAD_BYTES + size]) == crc:
                return int(place)
        position = stop
    return end


def crc_reason(data: Buffer, hop: Hop) -> str | None:
    """How the CRC of a batch differs from its bytes; None when it does not."""
    if hop.magic == 2:
        stored, computed = hop.crc, crc32c(data[hop.position + CRC_START : hop.end])
    else:
        at = hop.position + _LEGACY_CRC_POSITION
        stored = int.from_bytes(data[at : at + 4], "big")
        computed = zlib.crc32(data[at + 4 : hop.end])
    return None if stored == computed else f"CRC is {stored}, the bytes give {computed}"
