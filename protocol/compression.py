"""Compression of record batches: gzip with zlib; snappy, lz4 and zstd with cramjam.

Frames are in the formats of Kafka's Java clients: snappy in xerial's chunks (raw snappy is also
read), lz4 with independent blocks, the only kind that Kafka reads. The decompressed size of gzip
and snappy is checked before allocation; lz4 expands at most 255-fold.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Any

from protocol.errors import ProtocolError
from protocol.step_limit import StepLimit, TooLargeError
from protocol.varint import decode_unsigned_varint

if TYPE_CHECKING:
    from mmap import mmap

MAX_DECOMPRESSED_BYTES = 1 << 30
PIECE_BYTES = 1 << 20
"""The largest piece of decompressed gzip data."""

_GZIP_MAGIC = b"\x1f\x8b\x08"
# Java's GZIPInputStream reads a further member only if at least this many bytes are left.
_LEAST_GZIP_BYTES = 19
# zlib copies the unread input of each call, so the input of a call is limited. A member begins with
# a small input because the member may be empty.
_FIRST_GZIP_INPUT = 4 << 10
_LARGEST_GZIP_INPUT = 64 << 10
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + Struct(">ii").pack(1, 1)
_XERIAL_CHUNK_BYTES = 32 * 1024
# The LZ4 frame header: magic, version 1 with independent blocks, 64 KiB blocks, and the header
# checksum.
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED = 0x8000_0000
_NO_ROOM = "failed to write whole buffer"
"""The text of Rust's io::ErrorKind::WriteZero: cramjam's error when its output is full."""
_INT32 = Struct(">i")
_UINT32_LITTLE = Struct("<I")


class Compression(IntEnum):
    """The lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(compression: Compression, data: bytes | bytearray | memoryview) -> bytes:
    """Return the data as a compressed frame in the format of Kafka's clients."""
    if compression is Compression.NONE:
        return bytes(data)
    if compression is Compression.GZIP:
        compressor = zlib.compressobj(wbits=31)
        return compressor.compress(data) + compressor.flush()
    if compression is Compression.ZSTD:
        return bytes(_cramjam().zstd.compress(data))
    if compression is Compression.LZ4:
        return _compress_lz4(data)
    return _compress_snappy(data)


def decompress(compression: Compression, data: bytes | bytearray | memoryview) -> bytes:
    """Return the decompressed data.

    Raises ProtocolError for malformed data, and for more than 1 GiB of gzip or snappy data.
    """
    if compression is Compression.NONE:
        return bytes(data)
    if compression is Compression.ZSTD:
        return decompress_zstd(bytes(data))
    if compression is Compression.LZ4:
        return _decompress_lz4(bytes(data))
    most = MAX_DECOMPRESSED_BYTES
    pieces = gzip_pieces if compression is Compression.GZIP else snappy_pieces
    try:
        return join_pieces(pieces(bytes(data), most), most, StepLimit())
    except TooLargeError as error:
        raise ProtocolError(f"a payload of more than {most} bytes") from error


def join_pieces(
    pieces: Iterator[bytes], limit: int, steps: StepLimit, steps_each: int = 1
) -> bytes:
    """Join pieces. Raises TooLargeError for more than `limit` bytes, or if `steps` run out."""
    parts, size = [], 0
    for piece in pieces:
        steps.take(steps_each)
        size += len(piece)
        if size > limit:
            raise TooLargeError
        parts.append(piece)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _cramjam() -> Any:
    import cramjam

    return cramjam


def gzip_pieces(data: bytes, limit: int = MAX_DECOMPRESSED_BYTES) -> Iterator[bytes]:
    """Yield the members of a gzip stream in pieces, at least one per member; a piece may be empty.

    A piece exceeds neither PIECE_BYTES nor `limit` by more than a byte. Bytes after the last member
    are ignored, as in Java. Raises ProtocolError.
    """
    most = min(limit + 1, PIECE_BYTES)
    view, position = memoryview(data), 0
    try:
        while True:
            member, input_bytes = zlib.decompressobj(wbits=31), _FIRST_GZIP_INPUT
            while not member.eof:
                part = view[position : position + input_bytes]
                input_bytes = min(4 * input_bytes, _LARGEST_GZIP_INPUT)
                piece = member.decompress(part, most)
                unread = member.unused_data if member.eof else member.unconsumed_tail
                position += len(part) - len(unread)
                yield piece
                if not piece and not part and not member.eof:
                    raise ProtocolError("gzip data is cut off")
            if len(data) - position < _LEAST_GZIP_BYTES:
                return
            if not data.startswith(_GZIP_MAGIC, position):
                return
    except zlib.error as error:
        raise ProtocolError(f"damaged gzip data: {error}") from error


def decompress_zstd(data: bytes) -> bytes:
    """Return the decompressed data. Raises ProtocolError."""
    cramjam = _cramjam()
    try:
        return bytes(cramjam.zstd.decompress(data))
    except cramjam.DecompressionError as error:
        raise ProtocolError(f"damaged zstd data: {error}") from error


def decompress_zstd_into(data: bytes, memory: mmap) -> int:
    """Decompress into `memory` and return the number of bytes written.

    Raises ProtocolError, and TooLargeError if the memory is too small.
    """
    cramjam = _cramjam()
    try:
        return int(cramjam.zstd.decompress_into(data, memory))
    except cramjam.DecompressionError as error:
        if _NO_ROOM in str(error):
            raise TooLargeError from error
        raise ProtocolError(f"damaged zstd data: {error}") from error


def _compress_snappy(data: bytes | bytearray | memoryview) -> bytes:
    """Return data in xerial's format: a header, then chunks of raw snappy after an int32 length."""
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_CHUNK_BYTES):
        chunk = bytes(_cramjam().snappy.compress_raw(data[start : start + _XERIAL_CHUNK_BYTES]))
        parts += (_INT32.pack(len(chunk)), chunk)
    return b"".join(parts)


def snappy_pieces(data: bytes, limit: int = MAX_DECOMPRESSED_BYTES) -> Iterator[bytes]:
    """Yield the data of xerial's chunks, or of raw snappy if xerial's magic is missing.

    The header of a stream that follows another is an empty piece. Raises ProtocolError;
    TooLargeError for a chunk that claims more than `limit` bytes.
    """
    header_size = len(_XERIAL_HEADER)
    if not data.startswith(_XERIAL_MAGIC) or len(data) < header_size:
        yield _decompress_snappy_chunk(data, limit)
        return
    position = 0
    # As in xerial's reader, fewer than four bytes at the end are ignored.
    while len(data) - position >= 4:
        # One xerial stream may follow another.
        if data.startswith(_XERIAL_MAGIC, position):
            if len(data) - position < header_size:
                raise ProtocolError("snappy header without versions")
            position += header_size
            yield b""
            continue
        (length,) = _INT32.unpack_from(data, position)
        position += 4
        if not 0 < length <= len(data) - position:
            raise ProtocolError(f"snappy chunk of {length} bytes")
        yield _decompress_snappy_chunk(data[position : position + length], limit)
        position += length


def _decompress_snappy_chunk(chunk: bytes, limit: int) -> bytes:
    """Decompress raw snappy.

    The size in the data is checked before allocation: at most 64 times the chunk's size.
    """
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
    """Return the content of the first lz4 frame; as in Kafka, later frames are ignored.

    Also reads frames with dependent blocks, which Kafka does not read but logs may contain.
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


def _compress_lz4(data: bytes | bytearray | memoryview) -> bytes:
    """Return an lz4 frame with independent blocks and without checksums."""
    parts: list[bytes | bytearray | memoryview] = [_LZ4_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(_cramjam().lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += (_UINT32_LITTLE.pack(len(block)), block)
        else:
            parts += (_UINT32_LITTLE.pack(len(plain) | _LZ4_STORED), plain)
    parts.append(bytes(4))
    return b"".join(parts)
