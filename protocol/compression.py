"""The compressions of record batches: gzip by zlib, snappy, lz4 and zstd by cramjam.

The frames are those of Kafka's Java clients: snappy in xerial's chunks (raw snappy is read too),
lz4 frames of independent blocks, because Kafka's reader takes no other. gzip and snappy bound
their size before it is allocated; lz4 cannot grow more than 255-fold.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from struct import Struct
from typing import Any

from protocol.errors import ProtocolError
from protocol.varint import decode_unsigned_varint

MAX_DECOMPRESSED_BYTES = 1 << 30
PIECE_BYTES = 1 << 20
"""Data of gzip comes in pieces of this size."""

_GZIP_MAGIC = b"\x1f\x8b\x08"
# Java looks for another member in no less.
_LEAST_GZIP_BYTES = 19
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + Struct(">ii").pack(1, 1)
_XERIAL_CHUNK_BYTES = 32 * 1024
# Magic, version 1 with independent blocks, 64 KiB blocks, and the checksum of those two bytes.
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED = 0x8000_0000
_INT32 = Struct(">i")
_UINT32_LITTLE = Struct("<I")


class TooLargeError(Exception):
    """The payload becomes larger than the caller wants to wait for."""


class Compression(IntEnum):
    """The lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(compression: Compression, data: bytes) -> bytes:
    """`data` in the frame that Kafka's clients write."""
    if compression is Compression.NONE:
        return data
    if compression is Compression.GZIP:
        compressor = zlib.compressobj(wbits=31)
        return compressor.compress(data) + compressor.flush()
    if compression is Compression.ZSTD:
        return bytes(_cramjam().zstd.compress(data))
    if compression is Compression.LZ4:
        return _compress_lz4(data)
    return _compress_snappy(data)


def decompress(compression: Compression, data: bytes | bytearray | memoryview) -> bytes:
    """What was compressed. ProtocolError when the bytes are damaged or grow beyond 1 GiB."""
    if compression is Compression.NONE:
        return bytes(data)
    if compression is Compression.ZSTD:
        return bytes(zstd_decompressor()(bytes(data), None))
    if compression is Compression.LZ4:
        return _decompress_lz4(bytes(data))
    pieces = gzip_pieces if compression is Compression.GZIP else snappy_pieces
    parts, size = [], 0
    for piece in pieces(bytes(data)):
        size += len(piece)
        if size > MAX_DECOMPRESSED_BYTES:
            raise ProtocolError(f"a payload of more than {MAX_DECOMPRESSED_BYTES} bytes")
        parts.append(piece)
    return b"".join(parts)


def _cramjam() -> Any:
    import cramjam

    return cramjam


def gzip_pieces(data: bytes, limit: int = MAX_DECOMPRESSED_BYTES) -> Iterator[bytes]:
    """Yield the members of a gzip stream in pieces of at most `limit` bytes and PIECE_BYTES.

    What follows the last member is left out, as in Java. Raises ProtocolError.
    """
    most = min(limit + 1, PIECE_BYTES)
    rest = data
    try:
        while True:
            member = zlib.decompressobj(wbits=31)
            while not member.eof:
                piece = member.decompress(rest, most)
                rest = member.unconsumed_tail
                yield piece
                if not piece and not member.eof:
                    raise ProtocolError("gzip data is cut off")
            rest = member.unused_data
            if len(rest) < _LEAST_GZIP_BYTES or not rest.startswith(_GZIP_MAGIC):
                return
    except zlib.error as error:
        raise ProtocolError(f"damaged gzip data: {error}") from error


def zstd_decompressor() -> Callable[[bytes, Any], Any]:
    """Return a function that decompresses zstd: into a buffer, whose used size it returns, or,
    without one, to bytes. Raises ProtocolError."""
    cramjam = _cramjam()

    def decompressed(data: bytes, buffer: Any) -> Any:
        try:
            if buffer is None:
                return bytes(cramjam.zstd.decompress(data))
            return cramjam.zstd.decompress_into(data, buffer)
        except cramjam.DecompressionError as error:
            raise ProtocolError(f"damaged zstd data: {error}") from error

    return decompressed


def _compress_snappy(data: bytes) -> bytes:
    """xerial's format: a header, then chunks of raw snappy after an int32 length."""
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_CHUNK_BYTES):
        chunk = bytes(_cramjam().snappy.compress_raw(data[start : start + _XERIAL_CHUNK_BYTES]))
        parts += (_INT32.pack(len(chunk)), chunk)
    return b"".join(parts)


def snappy_pieces(data: bytes, limit: int = MAX_DECOMPRESSED_BYTES) -> Iterator[bytes]:
    """Yield the data of xerial's chunks, or of raw snappy where xerial's magic is missing.

    Raises ProtocolError; TooLargeError for a chunk that claims more than `limit` bytes.
    """
    header_size = len(_XERIAL_HEADER)
    if not data.startswith(_XERIAL_MAGIC) or len(data) < header_size:
        yield _decompress_snappy_chunk(data, limit)
        return
    position = 0
    while len(data) - position >= 4:  # less is no length, and is left out, as in xerial's reader
        if data.startswith(_XERIAL_MAGIC, position):  # streams may follow each other
            if len(data) - position < header_size:
                raise ProtocolError("snappy header without versions")
            position += header_size
            continue
        (length,) = _INT32.unpack_from(data, position)
        position += 4
        if not 0 < length <= len(data) - position:
            raise ProtocolError(f"snappy chunk of {length} bytes")
        yield _decompress_snappy_chunk(data[position : position + length], limit)
        position += length


def _decompress_snappy_chunk(chunk: bytes, limit: int) -> bytes:
    """Raw snappy; it starts with its size, which no chunk exceeds more than 64-fold honestly."""
    try:
        size, _ = decode_unsigned_varint(chunk, 0)
    except IndexError as error:
        raise ProtocolError("snappy data without a size") from error
    if size > MAX_DECOMPRESSED_BYTES or size > 64 * len(chunk):
        raise ProtocolError(f"snappy data claims {size} bytes")
    if size > limit:
        raise TooLargeError
    cramjam = _cramjam()
    try:
        return bytes(cramjam.snappy.decompress_raw(chunk))
    except cramjam.DecompressionError as error:
        raise ProtocolError(f"damaged snappy data: {error}") from error


def _decompress_lz4(data: bytes) -> bytes:
    """Return the content of a frame: what follows the first one is left out, as in Kafka.

    Logs may also have frames that Kafka does not read, with blocks that depend on each other.
    """
    from protocol.lz4_frame import decompress_frame

    try:
        return decompress_frame(data)
    except ProtocolError:
        cramjam = _cramjam()
        try:
            return bytes(cramjam.lz4.decompress(data))
        except cramjam.DecompressionError as error:
            raise ProtocolError(f"damaged lz4 data: {error}") from error


def _compress_lz4(data: bytes) -> bytes:
    """An lz4 frame of independent blocks, without checksums."""
    parts = [_LZ4_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(_cramjam().lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += (_UINT32_LITTLE.pack(len(block)), block)
        else:
            parts += (_UINT32_LITTLE.pack(len(plain) | _LZ4_STORED), plain)
    parts.append(bytes(4))
    return b"".join(parts)
