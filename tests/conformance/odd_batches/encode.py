"""Encode record batches in which any field may be wrong, without the code under test.

`Odd` describes one batch; each field has a valid value unless the case sets it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import NamedTuple

import google_crc32c

from protocol.compression import Compression, compress

T0 = 1_700_000_000_000
"""The base timestamp of a batch in ms, in the past, so that no time limit is exceeded."""

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
CODECS = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40

_BEFORE_CRC = struct.Struct(">qiibI")
_AFTER_CRC = struct.Struct(">HiqqqhiI")
_U32 = 0xFFFF_FFFF


def varint(number: int) -> bytes:
    """Return a number as a zigzag varint."""
    return unsigned(number << 1 if number >= 0 else (-number << 1) - 1)


def unsigned(number: int) -> bytes:
    """Return a non-negative number as an unsigned varint."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def sized(data: bytes | None) -> bytes:
    """Return nullable bytes after their length."""
    return varint(-1) if data is None else varint(len(data)) + data


class Rec(NamedTuple):
    """A record to encode.

    Fields of type bytes are already encoded. `length_by` is added to the correct record length.
    """

    key: bytes | None = b"k"
    value: bytes | None = b"v"
    time: int | bytes = 0
    offset: int | bytes | None = None
    headers: bytes = b"\x00"
    attributes: int = 0
    sized_key: bytes | None = None
    sized_value: bytes | None = None
    tail: bytes = b""
    length_by: int = 0
    sized_length: bytes | None = None

    def encode(self, index: int) -> bytes:
        """Return the encoded record with this index in its batch."""
        offset = index if self.offset is None else self.offset
        body = b"".join(
            (
                bytes((self.attributes,)),
                varint(self.time) if isinstance(self.time, int) else self.time,
                varint(offset) if isinstance(offset, int) else offset,
                sized(self.key) if self.sized_key is None else self.sized_key,
                sized(self.value) if self.sized_value is None else self.sized_value,
                self.headers,
                self.tail,
            )
        )
        length = varint(len(body) + self.length_by)
        return (length if self.sized_length is None else self.sized_length) + body


class Odd(NamedTuple):
    """A batch of a case.

    `raw` replaces the whole batch. With `own` the batch has the id and epoch of the case's
    producer.
    """

    records: tuple[Rec, ...] = (Rec(),)
    section: bytes | None = None
    codec: int = 0
    payload: Callable[[bytes], bytes] | None = None
    attributes: int = 0
    claimed: int | None = None
    last_delta: int | None = None
    base_time: int = T0
    from_now_ms: int | None = None
    max_time: int | None = None
    producer: tuple[int, int, int] = (-1, -1, -1)
    own: bool = False
    base_offset: int = 0
    leader_epoch: int = -1
    magic: int = 2
    length_by: int = 0
    wrong_crc: bool = False
    after: bytes = b""
    cut: int | None = None
    raw: bytes | None = None
    is_null: bool = False

    def encode(self, now_ms: int, producer: tuple[int, int] = (-1, -1)) -> bytes | None:
        """Return the bytes for a Produce request; None for null."""
        if self.is_null or self.raw is not None:
            return self.raw
        section = self.section
        if section is None:
            section = b"".join(one.encode(index) for index, one in enumerate(self.records))
        if self.payload is not None:
            section = self.payload(section)
        elif self.codec:
            section = compress(Compression(self.codec), section)
        base_ms = self.base_time if self.from_now_ms is None else now_ms + self.from_now_ms
        times = [base_ms + one.time for one in self.records if isinstance(one.time, int)]
        count = len(self.records) if self.claimed is None else self.claimed
        rest = _AFTER_CRC.pack(
            self.attributes | self.codec,
            count - 1 if self.last_delta is None else self.last_delta,
            base_ms,
            max(times, default=base_ms) if self.max_time is None else self.max_time,
            *((*producer, self.producer[2]) if self.own else self.producer),
            count & _U32,
        )
        rest += section
        crc = google_crc32c.value(rest) ^ self.wrong_crc
        front = (self.base_offset, 9 + len(rest) + self.length_by, self.leader_epoch, self.magic)
        return (_BEFORE_CRC.pack(*front, crc) + rest + self.after)[: self.cut]


def legacy(magic: int, value: bytes = b"v", attributes: int = 0, offset: int = 0) -> bytes:
    """Return one message of format 0 or 1."""
    rest = bytes((magic, attributes))
    if magic:
        rest += struct.pack(">q", T0)
    rest += struct.pack(">i", 1) + b"k" + struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(rest), zlib.crc32(rest)) + rest
