"""Decompression of produced batches: small batches at once, large batches in a thread.

A batch of a few kilobytes may decompress to a gigabyte. A thread decompresses it into mapped
memory, which is allocated page by page without holding the interpreter lock.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator

from protocol.compression import (
    MAX_DECOMPRESSED_BYTES,
    Compression,
    decompress_zstd,
    decompress_zstd_into,
    gzip_pieces,
    join_pieces,
    snappy_pieces,
)
from protocol.errors import ProtocolError
from protocol.lz4_frame import frame_pieces
from protocol.step_limit import StepLimit, TooLargeError

_STEPS_OF_GZIP = 4
"""A gzip member counts as four parts, because zlib allocates memory for each member."""
_BLOCK_BYTES = 128 * 1024
"""The largest decompressed size of a zstd block."""
_COPIED_BYTES = 256 * 1024
"""How much is copied at once: the first write to each page of the memory takes time, for which the
copying thread holds the interpreter lock."""
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = b"\x2a\x4d\x18"
_RLE = 1
_ID_BYTES = (0, 1, 2, 4)
_SIZE_BYTES = (0, 2, 4, 8)


def decompress_small(compression: Compression, data: bytes, limit: int, steps: StepLimit) -> bytes:
    """Return the decompressed data of a batch, of at most `limit` bytes.

    Accepts the same data as Kafka's broker. Unlike `decompress`, accepts an empty zstd section and
    rejects lz4 frames with dependent blocks. Raises ProtocolError, TooLargeError.
    """
    if compression is not Compression.ZSTD:
        steps_each = _STEPS_OF_GZIP if compression is Compression.GZIP else 1
        pieces = map(bytes, _pieces(compression, data, limit))  # blocks of lz4 share their memory
        return join_pieces(pieces, limit, steps, steps_each)
    if zstd_bound(data, limit, steps) > limit:
        raise TooLargeError
    return decompress_zstd(data) if data else b""


def decompress_large(
    compression: Compression,
    data: bytes,
    most: int = MAX_DECOMPRESSED_BYTES,
    pause: Callable[[], None] = lambda: None,
) -> tuple[mmap.mmap, int]:
    """Return mapped memory that begins with the decompressed data, and the size of the data.

    `pause` is called again and again, to let threads run that wait for the interpreter lock.
    Accepts the same data as `decompress_small`. Raises ProtocolError for malformed data or more
    than MAX_DECOMPRESSED_BYTES, and TooLargeError for more than `most` bytes if `most` is smaller.
    """
    most = min(most, MAX_DECOMPRESSED_BYTES)
    if compression is Compression.ZSTD:
        bound = zstd_bound(data, most, StepLimit())
        memory = mmap.mmap(-1, max(min(bound, most), 1))
        try:
            return memory, decompress_zstd_into(data, memory) if data else 0
        except TooLargeError as error:
            if most < MAX_DECOMPRESSED_BYTES:
                raise
            raise ProtocolError(f"a payload of more than {most} bytes") from error
    memory, size = mmap.mmap(-1, max(most, 1)), 0
    for piece in _pieces(compression, data, most):
        if size + len(piece) > most:
            if most < MAX_DECOMPRESSED_BYTES:
                raise TooLargeError
            raise ProtocolError(f"a payload of more than {most} bytes")
        view = memoryview(piece)
        for start in range(0, len(view), _COPIED_BYTES):
            part = view[start : start + _COPIED_BYTES]
            memory[size : size + len(part)] = part
            size += len(part)
            pause()
    return memory, size


def _pieces(compression: Compression, data: bytes, limit: int) -> Iterator[bytes | memoryview]:
    if compression is Compression.GZIP:
        return gzip_pieces(data, limit)
    if compression is Compression.SNAPPY:
        return snappy_pieces(data, limit)
    return frame_pieces(data)


def zstd_bound(data: bytes, limit: int, steps: StepLimit) -> int:
    """Return an upper bound of the decompressed size of zstd data, from its headers (RFC 8878).

    Stops at the first bound above `limit`, and at bytes that are not the start of a frame. Raises
    TooLargeError for more frames than `steps`.
    """
    position, bound = 0, 0
    try:
        while position < len(data) and bound <= limit:
            steps.take()
            if data[position + 1 : position + 4] == _SKIPPABLE and data[position] >> 4 == 5:
                position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
                continue
            if not data.startswith(_ZSTD_MAGIC, position):
                return bound
            flags = data[position + 4]
            is_single = flags >> 5 & 1
            size_bytes = _SIZE_BYTES[flags >> 6] or is_single
            position += 5 + (1 - is_single) + _ID_BYTES[flags & 3] + size_bytes
            is_last = False
            while not is_last and bound <= limit:
                block = data[position] | data[position + 1] << 8 | data[position + 2] << 16
                is_last = bool(block & 1)
                position += 3 + (1 if block >> 1 & 3 == _RLE else block >> 3)
                bound += _BLOCK_BYTES
            position += 4 if flags >> 2 & 1 else 0
    except IndexError:
        pass  # the data is truncated; the decoder raises the error
    return bound
