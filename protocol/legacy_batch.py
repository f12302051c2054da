"""Decodes records of formats 0 and 1, from before Kafka 0.11, for old logs and tools.

An entry has offset, size, CRC-32 of the rest, magic, attributes, in format 1 a timestamp, key and
value; `protocol.batch_header` reads the fields up to the timestamp. The value of a compressed entry
is a list of entries, with absolute offsets in format 0 and relative offsets in format 1. The outer
entry has the offset of the last inner one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING

from protocol.batch_header import BatchHeader, iterate_batches
from protocol.compression import Compression, decompress
from protocol.errors import ProtocolError
from protocol.lz4_frame import xxhash32
from protocol.step_limit import TooLargeError

if TYPE_CHECKING:
    from protocol.batch_header import BatchBuffer

_INT32 = Struct(">i")
_KEY_POSITION = (18, 26)  # indexed by magic: the key follows the attributes, or the timestamp

_LZ4_MAGIC = b"\x04\x22\x4d\x18"

LegacyRecord = tuple[int, int, bytes | None, bytes | None]
"""(offset, timestamp in ms, key, value)."""
Decompressor = Callable[[Compression, bytes], bytes]
_NO_LIMIT = 1 << 32


def legacy_records(
    buffer: BatchBuffer,
    header: BatchHeader,
    origin: int = 0,
    decompressor: Decompressor = decompress,
    most_entries: int = _NO_LIMIT,
) -> Iterator[LegacyRecord]:
    """Yield the record of an entry of format 0 or 1, or the records in its compressed value.

    `origin` is used as in `protocol.batch_header`. Raises ProtocolError for malformed records, and
    TooLargeError, before the first record, for more than `most_entries` in a compressed value.
    """
    at = header.position - origin
    key, value = _key_and_value(buffer[at : at + header.size_bytes], header.magic)
    codec = header.compression
    if codec is Compression.NONE:
        yield header.base_offset, header.max_timestamp_ms, key, value
        return
    if value is None:
        raise ProtocolError("a compressed entry without a value")
    if header.magic == 0 and codec is Compression.LZ4:
        value = _repair_lz4_header(value)
    plain = decompressor(codec, value)
    inner = list(islice(iterate_batches(plain), most_entries + 1))
    if len(inner) > most_entries:
        raise TooLargeError
    if not inner or inner[-1].end != len(plain):
        raise ProtocolError("a compressed entry with no entries in it, or a cut one")
    base = header.base_offset - inner[-1].base_offset if header.magic == 1 else 0
    for entry in inner:
        if entry.magic != header.magic or entry.compression is not Compression.NONE:
            raise ProtocolError("an inner entry of another format, or compressed again")
        key, value = _key_and_value(plain[entry.position : entry.end], entry.magic)
        time_ms = header.max_timestamp_ms if header.log_append_time else entry.max_timestamp_ms
        yield base + entry.base_offset, time_ms, key, value


def _key_and_value(entry: BatchBuffer, magic: int) -> tuple[bytes | None, bytes | None]:
    """Return key and value, each stored after its int32 length. Raises ProtocolError."""
    fields: list[bytes | None] = []
    position = _KEY_POSITION[magic]
    for _ in range(2):
        if position + 4 > len(entry):
            raise ProtocolError("the entry ends before its value")
        (length,) = _INT32.unpack_from(entry, position)
        position += 4
        if length < 0:
            fields.append(None)
            continue
        if length > len(entry) - position:
            raise ProtocolError(f"{length} bytes in an entry with {len(entry) - position} left")
        fields.append(bytes(entry[position : position + length]))
        position += length
    return fields[0], fields[1]


def _repair_lz4_header(frame: bytes) -> bytes:
    """Correct the header checksum of an lz4 frame: old clients also hashed the magic."""
    if len(frame) < 7 or not frame.startswith(_LZ4_MAGIC):
        raise ProtocolError("no lz4 frame")
    position = 6 + (8 if frame[4] & 0x08 else 0)
    checksum = xxhash32(frame[4:position]) >> 8 & 0xFF
    return frame[:position] + bytes((checksum,)) + frame[position + 1 :]
