"""The records of a batch as they lie there: where each one is, its key and its value.

The walk over records that everything is built on: decoding them (`protocol.batch`), loading a log
of millions of commits. It makes a plain tuple per record and reads varints of one and two bytes,
nearly all there are, in place. Compaction (`storage.cleaner`), which looks at each record more than
once, has a walk over the keys alone that costs half.
"""

from __future__ import annotations

from collections.abc import Iterator

from protocol.errors import ProtocolError
from protocol.varint import decode_varlong, unsigned_varint_tail

RawKey = tuple[int, int, int, int, bytes | None, bool]
"""(start, end, timestamp delta, offset delta, key, whether there is a value)."""

RawRecord = tuple[int, int, int, int, bytes | None, bytes | None, int]
"""(start, end, timestamp delta, offset delta, key, value, where the headers' count stands)."""


def raw_records(section: bytes, count: int, position: int = 0) -> Iterator[RawRecord]:
    """The `count` records at `position` of uncompressed bytes, one behind the other.

    ProtocolError when they do not parse. Headers are not looked at: behind the value a record may
    hold anything up to its end.
    """
    size = len(section)
    try:
        for _ in range(count):
            start = position
            length = section[position]
            position += 1
            if length > 127:
                if section[position] < 128:  # two bytes, as in most records of the offsets topic
                    length = length & 127 | section[position] << 7
                    position += 1
                else:
                    length, position = unsigned_varint_tail(section, position, length)
            end = position + (length >> 1)
            if length & 1 or not position < end <= size:
                raise ProtocolError(f"a record of {end - position} bytes at {start} of {size}")
            position += 1  # the attributes
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
    """The keys of `count` records; what stands behind a key is not looked at.

    ProtocolError when they do not parse. For bytes whose CRC is known to be right.
    """
    size = len(section)
    position = 0
    try:
        for _ in range(count):
            start = position
            length = section[position]
            position += 1
            if length > 127:
                if section[position] < 128:  # two bytes, as in most records of the offsets topic
                    length = length & 127 | section[position] << 7
                    position += 1
                else:
                    length, position = unsigned_varint_tail(section, position, length)
            end = position + (length >> 1)
            if length & 1 or not position < end <= size:
                raise ProtocolError(f"a record of {end - position} bytes at {start} of {size}")
            position += 1  # the attributes
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
            # A length of -1 is null; written in one byte by everybody, and others must not count
            # as a tombstone.
            yield start, end, timestamp_delta, offset_delta, key, section[position] != 1
            position = end
    except IndexError as error:
        raise ProtocolError("the batch ends inside a record") from error
