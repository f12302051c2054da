"""The header of a record batch, and the walk from batch to batch (Kafka's DefaultRecordBatch).

Format 2 (KIP-98) is read and written. Of the formats 0 and 1 from before Kafka 0.11 the entries,
a message or a compressed wrapper of messages, are batches too, for old log files and the tools.

Every reader walks with `iterate_batches`: a buffer, a part of a file. It looks at the first 61
bytes of each batch and never at its records, so only the headers need to be in the buffer.
Functions take the header and the buffer that it was read from; `origin` is the position in the
file at which the buffer begins, 0 when positions are counted in the buffer.
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
    """What batches are read from, in memory or mapped from a file."""

_HEADER = Struct(">qiibIhiqqqhii")
BEFORE_CRC = Struct(">qiibI")
"""The part of the header that the log fills in, up to the CRC, which does not cover it."""
AFTER_CRC = Struct(">hiqqqhii")
"""The rest of the header, which the CRC covers: attributes to record count."""

HEADER_BYTES = _HEADER.size
LOG_OVERHEAD_BYTES = 12
"""Base offset and length, which the length does not count."""

# Where fields lie in a batch. For what reads a single field (a Produce request before it reaches
# the log) or one field of many batches at once (the pipeline, with numpy).
MAGIC_POSITION = 16
CRC_START = 21
"""The CRC covers everything from here, the attributes, on."""
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
"""Bits of the attributes; the last one says that the base timestamp is a horizon (KIP-534)."""

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1

_LEAST_LENGTH = HEADER_BYTES - LOG_OVERHEAD_BYTES
_CUT = (0,) * len(_HEADER.unpack(bytes(HEADER_BYTES)))
_LEGACY = Struct(">qiIbb")
_LEGACY_TIMESTAMP = Struct(">q")
# By magic. The header has a timestamp in format 1; after it come at least two lengths.
_LEGACY_HEADER_BYTES = (18, 26)
_LEGACY_LEAST_LENGTH = (14, 22)
_LEGACY_FLAGS = (COMPRESSION_MASK, COMPRESSION_MASK | LOG_APPEND_TIME)
_LEGACY_CRC_START = 16


class BatchHeader(NamedTuple):
    """The header of one batch, and its position in the buffer or file, last of the fields.

    An entry of format 0 or 1 has one offset, its last one, no producer and no leader epoch. The
    record count is 1 there, whatever its compressed wrapper contains.
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
        """The whole batch in bytes."""
        return self.length + LOG_OVERHEAD_BYTES

    @property
    def end(self) -> int:
        """The position after the batch."""
        return self.position + self.length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        """The offset of the last record, also when compaction has removed it."""
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
        """The codec of the records. Raises ProtocolError for one that the format does not have."""
        codec = self.attributes & COMPRESSION_MASK
        if codec > Compression.ZSTD or (codec == Compression.ZSTD and self.magic < 2):
            raise ProtocolError(f"unknown compression {codec} in a batch of magic {self.magic}")
        return Compression(codec)

    @property
    def log_append_time(self) -> bool:
        """Whether all records carry the time of the append, `max_timestamp_ms`."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the records are markers of transactions, not data."""
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the cleaner may drop this batch's tombstones (KIP-534); None when not yet set."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON else None


def add_to_sequence(sequence: int, increment: int) -> int:
    """Sequence numbers are int32 and wrap to 0 (Kafka's DefaultRecordBatch.incrementSequence).

    Batches without a sequence, as transactional commits of offsets have none, stay without.
    """
    return sequence if sequence == NO_SEQUENCE else (sequence + increment) & 0x7FFF_FFFF


HeaderFields = tuple[int, ...]
"""What a BatchHeader has, in its order."""

# Makes a header of its fields by tuple's constructor: that of the class costs twice as much.
_named: Callable[[HeaderFields], BatchHeader] = partial(tuple.__new__, BatchHeader)


def unpack_header(buffer: BatchBuffer, at: int = 0) -> BatchHeader:
    """The 61 bytes at `at` as a header of format 2, whatever they are; nothing is checked.

    For a caller with errors of its own for each field, which looks at `magic` first.
    """
    fields: HeaderFields = _HEADER.unpack_from(buffer, at)
    fields += (at,)
    return _named(fields)


def read_header(buffer: BatchBuffer, position: int = 0) -> BatchHeader:
    """The header of the batch at `position`, which has to be there as a whole.

    Raises ProtocolError for a cut batch, and where `iterate_batches` does.
    """
    for header in iterate_batches(buffer, position):
        return header
    raise ProtocolError("the buffer ends inside a batch")


def iterate_batches(
    buffer: BatchBuffer, position: int = 0, *, origin: int = 0, end: int | None = None
) -> Iterator[BatchHeader]:
    """The batches from `position` on, of any format.

    Ends where a batch reaches beyond `end` (of the file; None is the end of the buffer) or where
    the buffer ends inside a header, as Kafka's clients do with the cut batch that ends a fetch.
    Raises ProtocolError at bytes that cannot be a batch. CRCs are not checked.
    """
    return map(_named, iterate_header_fields(buffer, position, origin=origin, end=end))


def iterate_header_fields(
    buffer: BatchBuffer, position: int = 0, *, origin: int = 0, end: int | None = None
) -> Iterator[HeaderFields]:
    """The walk of `iterate_batches` as plain tuples, for the loading of the offsets log.

    Its batches may hold one record each, and a tuple that is taken apart at once saves a quarter
    of what such a batch costs.
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
    """The header of an entry of format 0 or 1; None when it is cut, as one of format 2 is here."""
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
    """How the CRC differs from the bytes that it covers; None when it is right."""
    at = header.position - origin
    end = at + header.length + LOG_OVERHEAD_BYTES
    if header.magic == 2:
        computed = crc32c(buffer[at + CRC_START : end])
    else:
        computed = zlib.crc32(buffer[at + _LEGACY_CRC_START : end])
    return None if computed == header.crc else f"CRC is {header.crc}, the bytes give {computed}"


def crc_is_valid(buffer: BatchBuffer, header: BatchHeader, origin: int = 0) -> bool:
    """Whether the batch is as it was written; base offset and leader epoch do not count."""
    return crc_mismatch(buffer, header, origin) is None
