"""Reading lz4 frames as Kafka does (Lz4BlockInputStream), which is stricter than the lz4 library.

Kafka takes frames of version 1 with independent blocks, checks the checksums of the header and of
the blocks but not that of the content, and leaves out whatever follows the first frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from struct import Struct
from typing import Any

from protocol.errors import ProtocolError

_MAGIC = b"\x04\x22\x4d\x18"
_UINT32 = Struct("<I")
_STORED = 0x8000_0000
# Bits of the first byte of the descriptor; the upper two are the version.
_INDEPENDENT, _BLOCK_CHECKSUM, _CONTENT_SIZE, _CONTENT_CHECKSUM, _RESERVED = 32, 16, 8, 4, 3
_PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_MASK = 0xFFFF_FFFF
_MOST_RATIO = 255
"""What a byte of a compressed block becomes at most."""


def decompress_frame(data: bytes) -> bytes:
    """Return the content of the first frame. Raises ProtocolError when Kafka cannot read it."""
    return b"".join(frame_pieces(data))


def frame_pieces(data: bytes, limit: int = 0) -> Iterator[bytes]:
    """Yield the blocks of the first frame, of 4 MB at most, whatever the limit.

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
        position += size + checksum_bytes
        if word & _STORED:
            yield block
            continue
        if buffer is None:
            buffer = bytearray(min(most, _MOST_RATIO * len(data)))
        try:
            written = decompress_block(block, buffer)
        except failure as error:
            raise ProtocolError(f"damaged lz4 data: {error}") from error
        yield bytes(memoryview(buffer)[:written])
    if flags & _CONTENT_CHECKSUM:
        position += 4
        if position > len(data):
            raise ProtocolError("lz4 data ends before its checksum")
    if checksum_bytes:
        _check_blocks(data[:position])


def _check_blocks(frame: bytes) -> None:
    """Have the lz4 library check the checksums of the blocks: few clients write them."""
    import cramjam

    try:
        cramjam.lz4.decompress(frame)
    except cramjam.DecompressionError as error:
        raise ProtocolError(f"damaged lz4 data: {error}") from error


def _read_descriptor(data: bytes) -> tuple[int, int, int]:
    """Return the flags, the largest size of a block, and where the first block begins."""
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
    return _short_xxhash32(data) if len(data) < 16 else _xxhash32(data)


@lru_cache(maxsize=64)
def _short_xxhash32(data: bytes) -> int:
    """As `xxhash32`: a client writes the same header again and again."""
    return _xxhash32(data)


def _xxhash32(data: bytes) -> int:
    prime_1, prime_2, prime_3, prime_4, prime_5 = _PRIMES
    position, size = 0, len(data)
    if size >= 16:
        lanes = [prime_1 + prime_2, prime_2, 0, -prime_1]
        while position + 16 <= size:
            for lane in range(4):
                (word,) = _UINT32.unpack_from(data, position)
                lanes[lane] = _rotate(lanes[lane] + word * prime_2, 13) * prime_1
                position += 4
        value = sum(map(_rotate, lanes, (1, 7, 12, 18)))
    else:
        value = prime_5
    value += size
    while position + 4 <= size:
        value = _rotate(value + _UINT32.unpack_from(data, position)[0] * prime_3, 17) * prime_4
        position += 4
    for byte in data[position:]:
        value = _rotate(value + byte * prime_5, 11) * prime_1
    value &= _MASK
    value = (value ^ value >> 15) * prime_2 & _MASK
    value = (value ^ value >> 13) * prime_3 & _MASK
    return value ^ value >> 16


def _rotate(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> (32 - bits)) & _MASK
