"""Compressed payloads that are damaged, or framed in an unusual way."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

from protocol.compression import Compression, compress
from protocol.lz4_frame import xxhash32

Payload = Callable[[bytes], bytes]
"""Returns the payload of a batch for its encoded records."""

_GARBAGE = bytes(range(7, 60))


def garbage(_: bytes) -> bytes:
    """Return bytes that no codec can read."""
    return _GARBAGE


def empty(_: bytes) -> bytes:
    """Return no bytes."""
    return b""


def as_codec(codec: int) -> Payload:
    """Return a payload function that uses this codec, whatever codec the attributes name."""
    return partial(compress, Compression(codec))


def cut(codec: int, size: int) -> Payload:
    """Return a payload function that compresses and cuts the last `size` bytes off."""
    return lambda section: compress(Compression(codec), section)[:-size]


def followed(codec: int, tail: bytes) -> Payload:
    """Return a payload function that compresses and appends `tail` after the frame."""
    return lambda section: compress(Compression(codec), section) + tail


def flipped(codec: int, position: int) -> Payload:
    """Return a payload function that compresses and inverts the byte at `position`."""

    def damaged(section: bytes) -> bytes:
        data = bytearray(compress(Compression(codec), section))
        data[position] ^= 0xFF
        return bytes(data)

    return damaged


def in_two(codec: int) -> Payload:
    """Return a payload function that compresses into two consecutive frames."""

    def framed(section: bytes) -> bytes:
        half = len(section) // 2
        return b"".join(
            compress(Compression(codec), one) for one in (section[:half], section[half:])
        )

    return framed


def with_empty_frame(codec: int) -> Payload:
    """Return a payload function that compresses and appends an empty frame."""
    return lambda section: compress(Compression(codec), section) + compress(Compression(codec), b"")


def gzip_with_name(section: bytes) -> bytes:
    """Return a gzip member with a file name and a time in its header."""
    head = b"\x1f\x8b\x08\x08" + struct.pack("<I", 1) + b"\x00\x03name\x00"
    return head + gzip.compress(section, mtime=0)[10:]


def zlib_stream(section: bytes) -> bytes:
    """Return the section as a zlib stream, which lacks gzip's header."""
    return zlib.compress(section)


def raw_snappy(section: bytes) -> bytes:
    """Return Snappy without xerial's header, as librdkafka writes it."""
    return bytes(_cramjam().snappy.compress_raw(section))


def framed_snappy(section: bytes) -> bytes:
    """Return Snappy's own framing format, which Kafka does not read."""
    return bytes(_cramjam().snappy.compress(section))


def xerial_version(version: int, compatible: int) -> Payload:
    """Return a payload function for xerial's Snappy chunks with these versions in the header."""

    def chunked(section: bytes) -> bytes:
        data = compress(Compression.SNAPPY, section)
        return data[:8] + struct.pack(">ii", version, compatible) + data[16:]

    return chunked


def lz4_frame(section: bytes) -> bytes:
    """Return an lz4 frame from the lz4 library, with linked blocks."""
    return bytes(_cramjam().lz4.compress(section))


def lz4_linked(section: bytes) -> bytes:
    """Return an lz4 frame whose header declares linked blocks."""
    return _lz4_with_flags(section, 0x40)


def lz4_other_version(section: bytes) -> bytes:
    """Return an lz4 frame of a version that does not exist."""
    return _lz4_with_flags(section, 0x20 | 0x80)


def _lz4_with_flags(section: bytes, flags: int) -> bytes:
    data = compress(Compression.LZ4, section)
    descriptor = bytes((flags, data[5]))
    return data[:4] + descriptor + bytes((xxhash32(descriptor) >> 8 & 0xFF,)) + data[7:]


def _cramjam() -> Any:
    import cramjam

    return cramjam
