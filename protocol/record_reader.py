"""Decodes the records of a produced batch as strictly, and as leniently, as Kafka's broker.

Kafka reads a compressed batch that it stores unchanged differently from other batches: it skips
keys and values and ignores the length of a record (DefaultRecord.readPartiallyFrom).
`protocol.record_walk` is the fast path for typical batches of clients.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

from protocol.errors import ProtocolError
from protocol.step_limit import StepLimit
from protocol.varint import decode_varint, decode_varlong

Section = bytes | memoryview


class UnreadableError(ProtocolError):
    """Malformed bytes for which Kafka's broker fails with an exception without an error code."""


class ProducedRecord(NamedTuple):
    """One record: its deltas, the sizes of its key and value, and their positions.

    A size of -1 or less means null.
    """

    time_delta: int
    offset_delta: int
    key_size: int
    value_size: int
    key_at: int
    value_at: int
    headers_at: int


def read_records(
    section: Section, count: int, steps: StepLimit, largest: int = sys.maxsize
) -> Iterator[ProducedRecord]:
    """Yield the records, verifying the length of each (DefaultRecord.readFrom).

    Raises UnreadableError for a length of more than five bytes, else ProtocolError, also for a
    length above `largest`; TooLargeError for more headers than `steps`.
    """
    position, size = 0, len(section)
    for _ in range(count):
        try:
            length, position = decode_varint(section, position)
        except IndexError as error:
            raise ProtocolError("the batch ends before its last record") from error
        except ProtocolError as error:
            raise UnreadableError(str(error)) from error
        if length > largest:
            raise ProtocolError(f"a record of {length} bytes, more than {largest}")
        if size - position < length:
            raise ProtocolError(f"a record of {length} bytes where {size - position} are left")
        record, after = _read(section, position, size, steps, is_partial=False)
        if after - position != length:
            raise ProtocolError(f"a record of {length} bytes has {after - position}")
        position = after
        yield record
    if position != size:
        raise ProtocolError(f"{size - position} bytes after the last record")


def read_partially(
    section: Section, count: int, steps: StepLimit, largest: int = sys.maxsize
) -> Iterator[ProducedRecord]:
    """Yield the records by their fields, ignoring their lengths except for the limit `largest`.

    Raises ProtocolError; TooLargeError for more headers than `steps`.
    """
    position, size = 0, len(section)
    for _ in range(count):
        try:
            length, position = decode_varint(section, position)
        except IndexError as error:
            raise ProtocolError("the batch ends before its last record") from error
        if length > largest:
            raise ProtocolError(f"a record of {length} bytes, more than {largest}")
        record, position = _read(section, position, size, steps, is_partial=True)
        yield record
    if position != size:
        raise ProtocolError(f"{size - position} bytes after the last record")


def _read(
    section: Section, position: int, size: int, steps: StepLimit, *, is_partial: bool
) -> tuple[ProducedRecord, int]:
    try:
        time_delta, position = decode_varlong(section, position + 1)
        offset_delta, position = decode_varint(section, position)
        key_size, key_at = decode_varint(section, position)
        value_size, value_at = decode_varint(section, _after(key_at, key_size, size))
        headers_at = _after(value_at, value_size, size)
        headers, position = decode_varint(section, headers_at)
        if headers < 0 or (not is_partial and headers > size - position):
            raise ProtocolError(f"{headers} record headers")
        if headers:
            steps.take(headers)
        for _ in range(headers):
            length, position = decode_varint(section, position)
            if length < 0:
                raise ProtocolError("a record header without a key")
            length, position = decode_varint(section, _after(position, length, size))
            position = _after(position, length, size)
    except IndexError as error:
        raise ProtocolError("the batch ends inside a record") from error
    record = ProducedRecord(
        time_delta, offset_delta, key_size, value_size, key_at, value_at, headers_at
    )
    return record, position


def _after(position: int, length: int, size: int) -> int:
    """Return the end position of bytes with this length; a negative length means null."""
    if length <= 0:
        return position
    if length > size - position:
        raise ProtocolError(f"{length} bytes where {size - position} are left")
    return position + length
