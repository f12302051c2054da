"""Payloads that become large: how large, and where they are decompressed to.

A batch of a few kilobytes may become a gigabyte. A thread decompresses such a payload into mapped
memory, which is not zeroed or copied while other threads wait for the interpreter.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from protocol.compression import (
    MAX_DECOMPRESSED_BYTES,
    Compression,
    TooLargeError,
    gzip_pieces,
    snappy_pieces,
    zstd_decompressor,
)
from protocol.errors import ProtocolError
from protocol.lz4_frame import frame_pieces

if TYPE_CHECKING:
    Pieces = Callable[[bytes, int], Iterator[bytes]]

_BLOCK_BYTES = 128 * 1024
"""What a block of zstd becomes at most."""
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = b"\x2a\x4d\x18"
_RLE = 1
_ID_BYTES = (0, 1, 2, 4)
_SIZE_BYTES = (0, 2, 4, 8)


def decompress_small(compression: Compression, data: bytes, limit: int) -> bytes:
    """Return what was compressed, if Kafka's broker reads it, and if it is no more than `limit`.

    Unlike `decompress` this takes no lz4 frame with blocks that depend on each other, and no data
    at all as an empty section of zstd. Raises ProtocolError, TooLargeError.
    """
    if compression is Compression.ZSTD:
        if not data:
            return b""
        if zstd_bound(data, limit) > limit:
            raise TooLargeError
        return bytes(zstd_decompressor()(data, None))
    parts, size = [], 0
    for piece in _PIECES[compression](data, limit):
        size += len(piece)
        if size > limit:
            raise TooLargeError
        parts.append(piece)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def decompress_large(compression: Compression, data: bytes) -> tuple[mmap.mmap, int]:
    """Return mapped memory that begins with what was compressed, and the size of that.

    Raises ProtocolError as `decompress_small` does, and above MAX_DECOMPRESSED_BYTES.
    """
    most = MAX_DECOMPRESSED_BYTES
    if compression is Compression.ZSTD:
        memory = mmap.mmap(-1, max(min(zstd_bound(data, most), most), 1))
        written: int = zstd_decompressor()(data, memory) if data else 0
        return memory, written
    memory, size = mmap.mmap(-1, most), 0
    for piece in _PIECES[compression](data, most):
        if size + len(piece) > most:
            raise ProtocolError(f"a payload of more than {most} bytes")
        memory[size : size + len(piece)] = piece
        size += len(piece)
    return memory, size


def zstd_bound(data: bytes, limit: int) -> int:
    """Return a size that what was compressed does not exceed; above `limit` any that exceeds it.

    Only headers of frames and blocks are looked at (RFC 8878). 0 for what is no frame.
    """
    position, bound = 0, 0
    try:
        while position < len(data) and bound <= limit:
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
        pass  # cut: the decoder says so
    return bound


_PIECES: dict[Compression, Pieces] = {
    Compression.GZIP: gzip_pieces,
    Compression.SNAPPY: snappy_pieces,
    Compression.LZ4: frame_pieces,
}
