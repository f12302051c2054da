"""Message formats 0 and 1, from before Kafka 0.11: read only, for old log files and tools.

An entry is offset, size, CRC-32 of the rest, magic, attributes, in format 1 a timestamp, key and
value. A compressed entry's value is itself a list of entries: format 0 keeps absolute offsets
there, format 1 offsets counted from the first one, with the last one's offset outside.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from struct import error as StructError  # noqa: N812 - an exception, named like one

from protocol.batch import NO_TIMESTAMP, BatchHeader, Record
from protocol.batch_layout import LOG_OVERHEAD_BYTES, MAGIC_POSITION
from protocol.compression import Compression, decompress
from protocol.errors import ProtocolError

_ENTRY = Struct(">qiIbb")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_COMPRESSION_MASK = 0x07
_LOG_APPEND_TIME = 0x08
_SMALLEST_LENGTH = (14, 22)  # per magic: CRC, magic, attributes, timestamp, two lengths

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_XX_PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_MASK_32 = 0xFFFF_FFFF


class LegacyEntry:
    """One outermost entry: a record, or a compressed list of records.

    Named like a `BatchHeader` where both know the same thing.
    """

    __slots__ = (
        "attributes",
        "body_position",
        "crc",
        "end",
        "magic",
        "offset",
        "position",
        "timestamp_ms",
    )

    attributes: int
    body_position: int
    crc: int
    end: int
    magic: int
    offset: int
    position: int
    timestamp_ms: int

    def __init__(self, buffer: bytes | memoryview, position: int = 0) -> None:
        """Read the entry at `position`; ProtocolError when it is none or not all there."""
        try:
            self.offset, length, self.crc, self.magic, self.attributes = _ENTRY.unpack_from(
                buffer, position
            )
            if self.magic not in (0, 1) or length < _SMALLEST_LENGTH[self.magic]:
                raise ProtocolError(f"an entry of magic {self.magic} and length {length}")
            self.timestamp_ms = NO_TIMESTAMP
            self.body_position = position + _ENTRY.size
            if self.magic == 1:
                (self.timestamp_ms,) = _INT64.unpack_from(buffer, self.body_position)
                self.body_position += 8
        except StructError as error:
            raise ProtocolError("the buffer ends inside an entry") from error
        self.position = position
        self.end = position + LOG_OVERHEAD_BYTES + length
        if self.end > len(buffer):
            raise ProtocolError("the buffer ends inside an entry")

    @property
    def size_bytes(self) -> int:
        """The whole entry in bytes."""
        return self.end - self.position

    @property
    def compression(self) -> Compression:
        """How the inner records are compressed; ProtocolError for zstd and unknown numbers."""
        number = self.attributes & _COMPRESSION_MASK
        if number >= Compression.ZSTD:
            raise ProtocolError(f"compression {number} in message format {self.magic}")
        return Compression(number)

    @property
    def log_append_time(self) -> bool:
        """Whether the broker set the timestamp (format 1 only)."""
        return self.magic == 1 and bool(self.attributes & _LOG_APPEND_TIME)


def crc_is_valid(buffer: bytes | memoryview, entry: LegacyEntry) -> bool:
    """Whether the entry is as it was written."""
    return zlib.crc32(memoryview(buffer)[entry.position + MAGIC_POSITION : entry.end]) == entry.crc


def iterate_entries(
    buffer: bytes | memoryview, position: int = 0
) -> Iterator[LegacyEntry | BatchHeader]:
    """The complete entries and batches of any format, for logs that were upgraded on the way."""
    size = len(buffer)
    while size - position > MAGIC_POSITION:
        (length,) = _INT32.unpack_from(buffer, position + 8)
        if length < _SMALLEST_LENGTH[0]:
            raise ProtocolError(f"an entry of length {length}")
        if length > size - position - LOG_OVERHEAD_BYTES:
            return
        one: LegacyEntry | BatchHeader
        if buffer[position + MAGIC_POSITION] < 2:
            one = LegacyEntry(buffer, position)
        else:
            one = BatchHeader(buffer, position)
        position = one.end
        yield one


def iterate_entry_records(buffer: bytes | memoryview, entry: LegacyEntry) -> Iterator[Record]:
    """The record of an entry, or the records inside. ProtocolError when they do not parse."""
    key, value = _key_and_value(buffer, entry)
    if entry.compression is Compression.NONE:
        yield Record(entry.offset, entry.timestamp_ms, key, value)
        return
    if value is None:
        raise ProtocolError("a compressed entry without a value")
    if entry.magic == 0 and entry.compression is Compression.LZ4:
        value = _repair_lz4_header(value)
    plain = decompress(entry.compression, value)
    inner = []
    position = 0
    while position < len(plain):
        one = LegacyEntry(plain, position)
        if one.magic != entry.magic or one.compression is not Compression.NONE:
            raise ProtocolError("an inner entry of another format, or compressed again")
        inner.append(one)
        position = one.end
    if not inner:
        raise ProtocolError("a compressed entry with nothing inside")
    base = entry.offset - inner[-1].offset if entry.magic == 1 else 0
    for one in inner:
        key, value = _key_and_value(plain, one)
        timestamp_ms = entry.timestamp_ms if entry.log_append_time else one.timestamp_ms
        yield Record(base + one.offset, timestamp_ms, key, value)


def _key_and_value(
    buffer: bytes | memoryview, entry: LegacyEntry
) -> tuple[bytes | None, bytes | None]:
    """Key and value behind their int32 lengths."""
    found: list[bytes | None] = []
    position = entry.body_position
    for _ in range(2):
        if position + 4 > entry.end:
            raise ProtocolError("the entry ends before its value")
        (length,) = _INT32.unpack_from(buffer, position)
        position += 4
        if length < 0:
            found.append(None)
            continue
        if length > entry.end - position:
            raise ProtocolError(f"{length} bytes in an entry with {entry.end - position} left")
        found.append(bytes(buffer[position : position + length]))
        position += length
    return found[0], found[1]


def _repair_lz4_header(frame: bytes) -> bytes:
    """Old clients took the frame's header checksum over its magic too; put in the right one."""
    if len(frame) < 7 or not frame.startswith(_LZ4_MAGIC):
        raise ProtocolError("no lz4 frame")
    position = 6 + (8 if frame[4] & 0x08 else 0)
    checksum = _xxhash32_short(frame[4:position]) >> 8 & 0xFF
    return frame[:position] + bytes((checksum,)) + frame[position + 1 :]


def _xxhash32_short(data: bytes) -> int:
    """xxHash32 with seed 0 of less than 16 bytes: all that a frame header needs."""
    prime_1, prime_2, prime_3, prime_4, prime_5 = _XX_PRIMES
    value = prime_5 + len(data)
    position = 0
    while position + 4 <= len(data):
        value += int.from_bytes(data[position : position + 4], "little") * prime_3
        value = _rotate(value, 17) * prime_4
        position += 4
    for byte in data[position:]:
        value = _rotate(value + byte * prime_5, 11) * prime_1
    value &= _MASK_32
    value = (value ^ value >> 15) * prime_2 & _MASK_32
    value = (value ^ value >> 13) * prime_3 & _MASK_32
    return value ^ value >> 16


def _rotate(value: int, bits: int) -> int:
    value &= _MASK_32
    return (value << bits | value >> (32 - bits)) & _MASK_32
