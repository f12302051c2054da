"""Fast parsing of records with the same layout, as in a commit of many partitions.

Such records have the same size, with length fields at the same positions. Comparing each position
in all records at once, with strided slices, is much faster than parsing each record.
"""

from __future__ import annotations

from protocol.errors import ProtocolError
from protocol.raw_records import raw_keys
from protocol.varint import decode_varint

LEAST_RECORDS = 16
"""For fewer records, parsing each record is as fast."""

_ONE_BYTE = 1 << 6
_TWO_BYTES = 1 << 13
"""Offset deltas below `_ONE_BYTE` take one byte, deltas below `_TWO_BYTES` two bytes."""

_LOW_BYTES = bytes([(delta << 1) & 0x7F | 0x80 for delta in range(_ONE_BYTE)])
"""The first bytes of two-byte deltas, which repeat with a period of 64."""


def uniform_keys(section: bytes, count: int) -> list[bytes] | None:
    """Return the keys of `count` records with one layout and offset deltas from 0 on, or None.

    The result is None if a key occurs twice or a record is a tombstone. The CRC of the bytes must
    have been verified.
    """
    if not LEAST_RECORDS <= count <= _TWO_BYTES:
        return None
    keys: list[bytes] = []
    position = _add_run(section, 0, 0, min(count, _ONE_BYTE), keys)
    if count > _ONE_BYTE and position:
        position = _add_run(section, position, _ONE_BYTE, count - _ONE_BYTE, keys)
    if position != len(section) or len(set(keys)) != count:
        return None
    return keys


def _add_run(section: bytes, start: int, delta: int, count: int, keys: list[bytes]) -> int:
    """Add the keys of records with the same layout; return the end position, or 0.

    0 means that the layouts differ. The offset deltas of the records must have the same size.
    """
    try:
        _, first_end, _, _, key, has_value = next(raw_keys(section[start:], 1))
    except ProtocolError:
        return 0
    if key is None or not has_value or first_end < 0:
        return 0
    stride = first_end
    end = start + stride * count
    if end > len(section):
        return 0
    delta_bytes = 1 if delta < _ONE_BYTE else 2
    _, position = decode_varint(section, start)
    # The offset delta follows the length, attributes and timestamp delta.
    delta_at = position + 2
    if section[delta_at - 1] > 127:
        return 0
    _, key_at = decode_varint(section, delta_at + delta_bytes)
    same = [*range(start, delta_at), *range(delta_at + delta_bytes, key_at), key_at + len(key)]
    for place in same:
        if section[place:end:stride] != section[place : place + 1] * count:
            return 0
    if not _are_deltas(section, delta_at, end, stride, delta, count):
        return 0
    size = len(key)
    keys += [section[at : at + size] for at in range(key_at, end, stride)]
    return end


def _are_deltas(section: bytes, place: int, end: int, stride: int, first: int, count: int) -> bool:
    """Return whether the offset deltas at `place` and every `stride` count up from `first`."""
    if first < _ONE_BYTE:
        return section[place:end:stride] == bytes(range(first * 2, (first + count) * 2, 2))
    low = (_LOW_BYTES * (count // _ONE_BYTE + 1))[:count]  # `first` is a multiple of 64
    high = bytes([delta >> 6 for delta in range(first, first + count)])
    return section[place:end:stride] == low and section[place + 1 : end : stride] == high
