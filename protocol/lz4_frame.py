"""Decodes lz4 frames as Kafka does (Lz4BlockInputStream), which is stricter than the lz4 library.

Kafka accepts frames of version 1 with independent blocks. It verifies the checksums of header and
blocks but not of the content, and ignores bytes after the first frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any

from protocol.errors import ProtocolError

_MAGIC = b"\x04\x22\x4d\x18"
_UINT32 = Struct("<I")
_STORED = 0x8000_0000
# Bits of the first byte of the descriptor; the upper two are the version.
_INDEPENDENT, _BLOCK_CHECKSUM, _CONTENT_SIZE, _CONTENT_CHECKSUM, _RESERVED = 32, 16, 8, 4, 3
_MOST_RATIO = 255
"""The largest decompressed size of a block, per compressed byte."""


def decompress_frame(data: bytes) -> bytes:
    """Return the content of the first frame. Raises ProtocolError when Kafka cannot read it."""
    return b"".join(map(bytes, frame_pieces(data)))


def frame_pieces(data: bytes) -> Iterator[bytes | memoryview]:
    """Yield the decompressed blocks of the first frame, each of at most 4 MB.

    A block is valid until the next block is requested, because all blocks use the same memory.
    Raises ProtocolError when Kafka cannot read the frame.
    """
    flags, most, position = _read_descriptor(data)
    checksum_bytes = 4 if flags & _BLOCK_CHECKSUM else 0
    decompress_block, failure = _block_decompressor()
    buffer: bytearray | None = None
    while True:
        if len(data) - position < 4:
            raise ProtocolError("lz4 data ends before its end mark")
        (word,) = _UINT32.unpack_from(data, position)
        position += 4
        size = word & ~_STORED
        if not size:
            break
        if size > most or size + checksum_bytes > len(data) - position:
            raise ProtocolError(f"lz4 block of {size} bytes")
        block = data[position : position + size]
        position += size
        if checksum_bytes:
            if xxhash32(block) != _UINT32.unpack_from(data, position)[0]:
                raise ProtocolError("lz4 block with a wrong checksum")
            position += checksum_bytes
        if word & _STORED:
            yield block
            continue
        if buffer is None:
            buffer = bytearray(min(most, _MOST_RATIO * len(data)))
        try:
            written = decompress_block(block, buffer)
        except failure as error:
            raise ProtocolError(f"damaged lz4 data: {error}") from error
        yield memoryview(buffer)[:written]
    if flags & _CONTENT_CHECKSUM and len(data) - position < 4:
        raise ProtocolError("lz4 data ends before its checksum")


def _read_descriptor(data: bytes) -> tuple[int, int, int]:
    """Return the flags, the largest size of a block, and the position of the first block."""
    if len(data) < 7 or not data.startswith(_MAGIC):
        raise ProtocolError("no lz4 frame")
    flags, sizes = data[4], data[5]
    if flags >> 6 != 1 or flags & _RESERVED or not flags & _INDEPENDENT:
        raise ProtocolError(f"unsupported lz4 frame with flags {flags:#x}")
    if sizes & 0x8F or not 4 <= sizes >> 4 <= 7:
        raise ProtocolError(f"unsupported lz4 block size {sizes:#x}")
    end = 14 if flags & _CONTENT_SIZE else 6
    if end >= len(data) or xxhash32(data[4:end]) >> 8 & 0xFF != data[end]:
        raise ProtocolError("lz4 header with a wrong checksum")
    return flags, 1 << (8 + 2 * (sizes >> 4)), end + 1


def _block_decompressor() -> tuple[Any, type[Exception]]:
    import cramjam

    return cramjam.lz4.decompress_block_into, cramjam.DecompressionError


def xxhash32(data: bytes) -> int:
    """Return the xxHash32 of the data with seed 0."""
    from xxhash import xxh32_intdigest

    return xxh32_intdigest(data)
