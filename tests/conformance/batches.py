"""Record batches as bytes, for producers in scenarios and for the results of fetches.

This codec is separate from the code under test, so that Kafka's answers are read independently.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from typing import NamedTuple

import google_crc32c

_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_AFTER_CRC = struct.Struct(">hiqqqhii")
_BEFORE_CRC = struct.Struct(">qiibI")
_HEADER_SIZE = _BEFORE_CRC.size + _AFTER_CRC.size


class Batch(NamedTuple):
    """One batch of a log. `marker` is COMMIT or ABORT with the coordinator's epoch, or None."""

    base_offset: int
    last_offset: int
    producer_id: int
    epoch: int
    sequence: int
    transactional: bool
    marker: tuple[str, int] | None


def build(
    producer_id: int, epoch: int, sequence: int, records: int = 1, transactional: bool = True
) -> bytes:
    """Return a batch of format 2 with records of the same small value.

    The batch's timestamp is in the past, so that the marker of its transaction has a higher
    timestamp.
    """
    timestamp_ms = int(time.time() * 1000) - 1000
    # Each record: length, attributes, timestamp delta, offset delta, no key, value, no headers
    # (zigzag).
    bodies = [b"\x00\x00" + _varint(one) + b"\x01\x02v\x00" for one in range(records)]
    data = b"".join(_varint(len(body)) + body for body in bodies)
    attributes = _TRANSACTIONAL if transactional else 0
    rest = _AFTER_CRC.pack(
        attributes, records - 1, timestamp_ms, timestamp_ms, producer_id, epoch, sequence, records
    )
    rest += data
    # The batch length starts at the leader epoch; leader epoch, magic and CRC are 9 bytes.
    return _BEFORE_CRC.pack(0, 9 + len(rest), -1, 2, google_crc32c.value(rest)) + rest


def read(data: bytes) -> Iterator[Batch]:
    """Yield the complete batches of a fetched buffer."""
    position = 0
    while position + _HEADER_SIZE <= len(data):
        base, length, _, _, _ = _BEFORE_CRC.unpack_from(data, position)
        attributes, delta, _, _, producer_id, epoch, sequence, _ = _AFTER_CRC.unpack_from(
            data, position + _BEFORE_CRC.size
        )
        end = position + 12 + length
        if end > len(data):
            return
        marker = None
        if attributes & _CONTROL:
            marker = _marker(data[position + _HEADER_SIZE : end])
        transactional = bool(attributes & _TRANSACTIONAL)
        yield Batch(base, base + delta, producer_id, epoch, sequence, transactional, marker)
        position = end


def _varint(number: int) -> bytes:
    """Return a non-negative number as a zigzag varint."""
    number <<= 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _marker(record: bytes) -> tuple[str, int]:
    """Return kind and coordinator epoch of a marker, whose lengths each fit into one byte."""
    _, _, _, _, key_size = record[:5]
    key = record[5 : 5 + key_size // 2]
    value = record[6 + key_size // 2 :]
    kind = int.from_bytes(key[2:4], "big")
    return ("ABORT", "COMMIT")[kind], int.from_bytes(value[2:6], "big", signed=True)
