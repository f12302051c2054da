"""The header of a record batch, and the walk from batch to batch (Kafka's DefaultRecordBatch).

Format 2 (KIP-98) is read and written. Entries of formats 0 and 1 from before Kafka 0.11 (a message
or a compressed wrapper of messages) are also treated as batches, for old log files and tools.

All readers use `iterate_batches` to iterate over a buffer, which may be a part of a file. It reads
only the 61-byte header of each batch, so only headers must be in the buffer. Functions take a
header and its buffer; `origin` is the position of the buffer in the file, 0 if positions are
relative to the buffer.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from protocol.compression import Compression
from protocol.crc32c import crc32c
from protocol.errors import ProtocolError

if TYPE_CHECKING:
    from mmap import mmap

    BatchBuffer = bytes | bytearray | memoryview | mmap
    """A buffer with batches, in memory or mapped from a file."""

_HEADER = Struct(">qiibIhiqqqhii")
BEFORE_CRC = Struct(">qiibI")
"""The header up to the CRC, which the log writes and the CRC does not cover."""
AFTER_CRC = Struct(">hiqqqhii")
"""The rest of the header, which the CRC covers: attributes to record count."""

HEADER_BYTES = _HEADER.size
LOG_OVERHEAD_BYTES = 12
"""The size of base offset and length, which is not included in the length."""

# Positions of fields in a batch, for code that reads a single field (of a Produce request before
# the append) or one field of many batches at once (the pipeline, with numpy).
MAGIC_POSITION = 16
CRC_START = 21
"""The CRC covers all bytes from this position (the attributes) on."""
FLAGS_POSITION = 22
"""The low byte of the attributes, with all of the bits below."""
BASE_TIMESTAMP_POSITION = 27
MAX_TIMESTAMP_POSITION = 35
PRODUCER_POSITION = 43
PRODUCER = Struct(">qhi")
"""Producer id, epoch and base sequence."""

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
"""Bits of the attributes. DELETE_HORIZON: the base timestamp is a delete horizon (KIP-534)."""

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1

_LEAST_LENGTH = HEADER_BYTES - LOG_OVERHEAD_BYTES
_CUT = (0,) * len(_HEADER.unpack(bytes(HEADER_BYTES)))
_LEGACY = Struct(">qiIbb")
_LEGACY_TIMESTAMP = Struct(">q")
# Indexed by magic. Format 1 adds a timestamp to the header. At least two lengths (of key and value)
# follow the header.
_LEGACY_HEADER_BYTES = (18, 26)
_LEGACY_LEAST_LENGTH = (14, 22)
_LEGACY_FLAGS = (COMPRESSION_MASK, COMPRESSION_MASK | LOG_APPEND_TIME)
_LEGACY_CRC_START = 16


class BatchHeader(NamedTuple):
    """The header of one batch; the last field is the header's position in the buffer or file.

    For an entry of format 0 or 1, the base offset is the last offset, there is no producer and no
    leader epoch, and the record count is 1 even for a wrapper of compressed messages.
    """

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    position: int

    @property
    def size_bytes(self) -> int:
        """The size of the whole batch."""
        return self.length + LOG_OVERHEAD_BYTES

    @property
    def end(self) -> int:
        """The position after the batch."""
        return self.position + self.length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        """The offset of the last record, even if compaction has removed the record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the last one."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The producer's sequence number of the last record; -1 without one. Wraps to 0."""
        return add_to_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def compression(self) -> Compression:
        """The codec of the records. Raises ProtocolError for an unknown codec."""
        codec = self.attributes & COMPRESSION_MASK
        if codec > Compression.ZSTD or (codec == Compression.ZSTD and self.magic < 2):
            raise ProtocolError(f"unknown compression {codec} in a batch of magic {self.magic}")
        return Compression(codec)

    @property
    def log_append_time(self) -> bool:
        """Whether the timestamp of all records is the append time, `max_timestamp_ms`."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the records are control records, such as transaction markers."""
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which tombstones can be removed (KIP-534); None if not set."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON else None


def add_to_sequence(sequence: int, increment: int) -> int:
    """Return a sequence number plus `increment`, wrapping from int32 to 0.

    NO_SEQUENCE stays unchanged. Source: Kafka's DefaultRecordBatch.incrementSequence.
    """
    return sequence if sequence == NO_SEQUENCE else (sequence + increment) & 0x7FFF_FFFF


HeaderFields = tuple[int, ...]
"""The fields of a BatchHeader, in order."""

# Create the header with tuple's constructor, which takes half the time of BatchHeader's.
_named: Callable[[HeaderFields], BatchHeader] = partial(tuple.__new__, BatchHeader)


def unpack_header(buffer: BatchBuffer, at: int = 0) -> BatchHeader:
    """Unpack the 61 bytes at `at` as a header of format 2, without checks.

    Callers must check `magic` first, and then the other fields.
    """
    fields: HeaderFields = _HEADER.unpack_from(buffer, at)
    fields += (at,)
    return _named(fields)


def read_header(buffer: BatchBuffer, position: int = 0) -> BatchHeader:
    """Return the header of the batch at `position`, which must be complete.

    Raises ProtocolError for an incomplete batch, and as `iterate_batches` does.
    """
    for header in iterate_batches(buffer, position):
        return header
    raise ProtocolError("the buffer ends inside a batch")


def iterate_batches(
    buffer: BatchBuffer, position: int = 0, *, origin: int = 0, end: int | None = None
) -> Iterator[BatchHeader]:
    """Yield the headers of batches of any format from `position` on.

    Iteration ends at a batch that exceeds `end` (a file position; None: the end of the buffer) and
    at an incomplete header, like Kafka's clients at the end of fetched data. Raises ProtocolError
    for bytes that cannot be a batch. CRCs are not verified.
    """
    return map(_named, iterate_header_fields(buffer, position, origin=origin, end=end))


def iterate_header_fields(
    buffer: BatchBuffer, position: int = 0, *, origin: int = 0, end: int | None = None
) -> Iterator[HeaderFields]:
    """Like `iterate_batches`, but yield plain tuples, for loading the offsets log.

    Tuples save a quarter of the time for batches with one record, which are common there.
    """
    limit = len(buffer) if end is None else end - origin
    size = min(len(buffer), limit)
    last = size - HEADER_BYTES
    unpack = _HEADER.unpack_from
    at = position - origin
    while True:
        fields = unpack(buffer, at) if at <= last else _CUT
        length = fields[1]
        if fields[3] == 2 and length >= _LEAST_LENGTH:
            fields += (at + origin,)
        else:
            other = _other_header(buffer, at, size, origin)
            if other is None:
                return
            fields, length = other, other.length
        at += length + LOG_OVERHEAD_BYTES
        if at > limit:
            return
        yield fields


def _other_header(buffer: BatchBuffer, at: int, size: int, origin: int) -> BatchHeader | None:
    """Return the header of an entry of format 0 or 1; None if incomplete, as for format 2."""
    left = size - at
    if left <= MAGIC_POSITION:
        return None
    magic = buffer[at + MAGIC_POSITION]
    if magic > 2:
        raise ProtocolError(f"unknown magic {magic}")
    if left < _LEGACY.size:
        return None
    offset, length, crc, _, attributes = _LEGACY.unpack_from(buffer, at)
    if length < (_LEAST_LENGTH if magic == 2 else _LEGACY_LEAST_LENGTH[magic]):
        raise ProtocolError(f"impossible batch size {length + LOG_OVERHEAD_BYTES}")
    if magic == 2 or left < _LEGACY_HEADER_BYTES[magic]:
        return None
    timestamp_ms = NO_TIMESTAMP
    if magic == 1:
        (timestamp_ms,) = _LEGACY_TIMESTAMP.unpack_from(buffer, at + _LEGACY.size)
    return BatchHeader(
        offset,
        length,
        -1,
        magic,
        crc,
        attributes & _LEGACY_FLAGS[magic],
        0,
        timestamp_ms,
        timestamp_ms,
        NO_PRODUCER_ID,
        -1,
        NO_SEQUENCE,
        1,
        at + origin,
    )


def crc_mismatch(buffer: BatchBuffer, header: BatchHeader, origin: int = 0) -> str | None:
    """Return a description of a CRC mismatch; None if the CRC matches."""
    at = header.position - origin
    end = at + header.length + LOG_OVERHEAD_BYTES
    if header.magic == 2:
        computed = crc32c(buffer[at + CRC_START : end])
    else:
        computed = zlib.crc32(buffer[at + _LEGACY_CRC_START : end])
    return None if computed == header.crc else f"CRC is {header.crc}, the bytes give {computed}"


def crc_is_valid(buffer: BatchBuffer, header: BatchHeader, origin: int = 0) -> bool:
    """Return whether the CRC matches. The base offset and leader epoch are not covered by it."""
    return crc_mismatch(buffer, header, origin) is None
