"""Decodes the records of a batch into plain tuples with position, key and value.

`protocol.batch` and the loading of logs with millions of commits use this reader. Tuples take half
the time of objects, and varints of one and two bytes, the most frequent ones, are decoded inline.
Compaction (`storage.cleaner`) reads only keys with `raw_keys`, in half the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from protocol.batch_header import COMPRESSION_MASK, HEADER_BYTES, LOG_OVERHEAD_BYTES
from protocol.compression import decompress
from protocol.errors import ProtocolError
from protocol.varint import decode_varlong, unsigned_varint_tail

if TYPE_CHECKING:
    from protocol.batch_header import BatchBuffer, BatchHeader

RawKey = tuple[int, int, int, int, bytes | None, bool]
"""(start, end, timestamp delta, offset delta, key, whether there is a value)."""

RawRecord = tuple[int, int, int, int, bytes | None, bytes | None, int]
"""(start, end, timestamp delta, offset delta, key, value, position of the header count)."""


def records_section(buffer: BatchBuffer, header: BatchHeader, origin: int = 0) -> bytes:
    """Return the decompressed records of a batch of format 2.

    `origin` is used as in `protocol.batch_header`. Raises ProtocolError for damaged data.
    """
    at = header.position - origin
    section = buffer[at + HEADER_BYTES : at + header.length + LOG_OVERHEAD_BYTES]
    # A batch that compaction has emptied has no compressed frame, whatever its codec.
    if header.attributes & COMPRESSION_MASK and section:
        return decompress(header.compression, section)
    return section if type(section) is bytes else bytes(section)


def batch_records(buffer: BatchBuffer, header: BatchHeader, origin: int = 0) -> Iterator[RawRecord]:
    """Return the records of a batch of format 2, with unspecified record positions.

    Raises ProtocolError like `raw_records`.
    """
    if header.attributes & COMPRESSION_MASK or type(buffer) is not bytes:
        return raw_records(records_section(buffer, header, origin), header.record_count)
    # Decode without copying the section: the copy would be a large part of the cost of a batch
    # with one record.
    at = header.position - origin
    end = at + header.length + LOG_OVERHEAD_BYTES
    return raw_records(buffer, header.record_count, at + HEADER_BYTES, end)


def raw_records(
    section: bytes, count: int, position: int = 0, size: int | None = None
) -> Iterator[RawRecord]:
    """Yield the `count` uncompressed records in `section`, from `position` to `size`.

    Raises ProtocolError for malformed records. Headers are not checked: any bytes may follow the
    value.
    """
    if size is None:
        size = len(section)
    if count < 0:
        raise ProtocolError(f"a record count of {count}")
    try:
        for _ in range(count):
            start = position
            length = section[position]
            position += 1
            if length > 127:
                if section[position] < 128:
                    # The length has two bytes, as in most records of the offsets topic.
                    length = length & 127 | section[position] << 7
                    position += 1
                else:
                    length, position = unsigned_varint_tail(section, position, length)
            end = position + (length >> 1)
            if length & 1 or not position < end <= size:
                raise ProtocolError(f"a record of {end - position} bytes at {start} of {size}")
            position += 1  # skip the attributes
            timestamp_delta = section[position]
            if timestamp_delta > 127:
                timestamp_delta, position = decode_varlong(section, position)
            else:
                timestamp_delta = (timestamp_delta >> 1) ^ -(timestamp_delta & 1)
                position += 1
            offset_delta = section[position]
            position += 1
            if offset_delta > 127:
                if section[position] < 128:
                    offset_delta = offset_delta & 127 | section[position] << 7
                    position += 1
                else:
                    offset_delta, position = unsigned_varint_tail(section, position, offset_delta)
            offset_delta = (offset_delta >> 1) ^ -(offset_delta & 1)
            key = value = None
            length = section[position]
            position += 1
            if length > 127:
                length, position = unsigned_varint_tail(section, position, length)
            if not length & 1:
                stop = position + (length >> 1)
                key = section[position:stop]
                position = stop
            length = section[position]
            position += 1
            if length > 127:
                length, position = unsigned_varint_tail(section, position, length)
            if not length & 1:
                stop = position + (length >> 1)
                value = section[position:stop]
                position = stop
            if position > end:
                raise ProtocolError(f"a field reaches beyond its record at {start} of {size}")
            yield start, end, timestamp_delta, offset_delta, key, value, position
            position = end
    except IndexError as error:
        raise ProtocolError("the batch ends inside a record") from error


def raw_keys(section: bytes, count: int) -> Iterator[RawKey]:
    """Yield the keys of `count` records, without decoding the bytes after each key.

    The CRC of the bytes must have been verified. Raises ProtocolError for malformed records.
    """
    size = len(section)
    position = 0
    try:
        for _ in range(count):
            start = position
            length = section[position]
            position += 1
            if length > 127:
                if section[position] < 128:
                    # The length has two bytes, as in most records of the offsets topic.
                    length = length & 127 | section[position] << 7
                    position += 1
                else:
                    length, position = unsigned_varint_tail(section, position, length)
            end = position + (length >> 1)
            if length & 1 or not position < end <= size:
                raise ProtocolError(f"a record of {end - position} bytes at {start} of {size}")
            position += 1  # skip the attributes
            timestamp_delta = section[position]
            if timestamp_delta > 127:
                timestamp_delta, position = decode_varlong(section, position)
            else:
                timestamp_delta = (timestamp_delta >> 1) ^ -(timestamp_delta & 1)
                position += 1
            offset_delta = section[position]
            position += 1
            if offset_delta > 127:
                offset_delta, position = unsigned_varint_tail(section, position, offset_delta)
            offset_delta = (offset_delta >> 1) ^ -(offset_delta & 1)
            key = None
            length = section[position]
            position += 1
            if length > 127:
                length, position = unsigned_varint_tail(section, position, length)
            if not length & 1:
                stop = position + (length >> 1)
                key = section[position:stop]
                position = stop
            if position >= end:
                raise ProtocolError(f"a key reaches beyond its record at {start} of {size}")
            # A null is written as length -1 in one byte. Any other encoding of -1 must not count as
            # a tombstone.
            yield start, end, timestamp_delta, offset_delta, key, section[position] != 1
            position = end
    except IndexError as error:
        raise ProtocolError("the batch ends inside a record") from error
