"""Validates, and if necessary rebuilds, the records of a client's batch (Kafka's LogValidator).

Typical batches of clients take the fast path of `protocol.record_walk`. Other batches are read
record by record, with Kafka's errors, and are rebuilt in the same cases as in Kafka.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from mmap import mmap
from time import sleep
from typing import NamedTuple, NoReturn

from protocol.batch import header_parts, read_record_headers, rebuilt_batch
from protocol.batch_header import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
)
from protocol.compression import MAX_DECOMPRESSED_BYTES, PIECE_BYTES, Compression, compress
from protocol.errors import ProtocolError
from protocol.large_payload import decompress_large, decompress_small
from protocol.record_reader import ProducedRecord, UnreadableError, read_partially, read_records
from protocol.record_walk import time_range
from protocol.step_limit import StepLimit, TooLargeError
from protocol.varint import encode_varint
from storage.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    UnreadableBatchError,
    too_large,
)
from storage.log_config import LogConfig

_let_others_run = partial(sleep, 0)
"""Lets threads run that wait for the interpreter lock, such as the event loop."""

# Kafka includes at most the first three bad records in the error message of a batch.
RECORD_ERRORS_SHOWN = 3
MOST_RECORD_ERRORS = 1_000
"""Limit of record errors in the response to a batch."""
BODY_HEADER_BYTES = HEADER_BYTES - CRC_START
"""The size of the header fields that the CRC covers, which precede the records in the body."""
_KEPT_ATTRIBUTES = COMPRESSION_MASK | TRANSACTIONAL | CONTROL | DELETE_HORIZON
"""The attributes that Kafka preserves when rewriting a header, besides the timestamp type."""
_INT64_SIGN = 1 << 63


# Batches above one of these limits are checked in a thread, not on the event loop.
MOST_RECORDS = 5_000
MOST_BYTES = 4 << 20
"""Bytes of the decompressed records."""
MOST_COMPRESSED_BYTES = 512 << 10
"""Bytes of records to recompress for another `compression.type`."""
MOST_STEPS = 10_000
"""Parts of the payload that are read one by one, including record headers."""

Section = bytes | mmap
ByteSection = bytes | memoryview


MOST_LENGTH_BYTES = 5
"""The largest size of a record's length prefix."""
RECORDS_PER_LOOK = 10_000
"""Number of records after which a check looks for cancellation."""


class CancelledCheckError(Exception):
    """The check was cancelled."""


class LongCheckError(Exception):
    """The check is too long for the event loop and must run in a thread."""


class Checked(NamedTuple):
    """The result of a successful check.

    `rebuilt` has the records in Kafka's encoding, with timestamps relative to the first record and
    offsets from 0 on; None if the client's encoding is kept.
    """

    largest_ms: int
    first_ms: int
    rebuilt: bytearray | None = None


class RecordCheck:
    """The check of one batch; `place` is TOPIC-PARTITION, `body` the bytes that the CRC covers."""

    def __init__(
        self,
        header: BatchHeader,
        body: bytes,
        config: LogConfig,
        now_ms: int,
        place: str,
        *,
        may_block: bool,
    ) -> None:
        self._may_block = may_block
        self._steps = StepLimit() if may_block else StepLimit(MOST_STEPS)
        self._header = header
        self._body = body
        self._config = config
        self._now_ms = now_ms
        self._place = place
        self._codec = Compression(header.attributes & COMPRESSION_MASK)
        self._target = _target_codec(config, self._codec)
        self._is_stamped = config.message_timestamp_type == "LogAppendTime"
        self.is_cancelled: Callable[[], bool] | None = None

    def run(self) -> tuple[BatchHeader, bytes]:
        """Return the header and the body to store.

        Raises InvalidRecordError, InvalidTimestampError, UnreadableBatchError, and without
        `may_block` LongCheckError.
        """
        if self._header.record_count > MOST_RECORDS and not self._may_block:
            raise LongCheckError
        try:
            return self._run()
        except TooLargeError as error:
            raise LongCheckError from error

    def _run(self) -> tuple[BatchHeader, bytes]:
        """Like `run`, but raises TooLargeError instead of LongCheckError."""
        start = 0
        section: Section
        if self._codec is Compression.NONE:
            section, start = self._body, BODY_HEADER_BYTES
            end = len(section)
        else:
            section, end = self._decompressed()
        checked = self._walk(section, start, end)
        if checked is None:
            checked = self._read(_part(section, start, end))
        if self._target is self._codec:
            return self._in_place(checked.largest_ms)
        if checked.rebuilt is None:
            return self._recompressed(_part(section, start, end), checked)
        return self._recompressed(checked.rebuilt, checked)

    def _decompressed(self) -> tuple[Section, int]:
        payload = self._body[BODY_HEADER_BYTES:]
        try:
            if self._may_block:
                return decompress_large(self._codec, payload, self._most_bytes(), _let_others_run)
            section = decompress_small(self._codec, payload, MOST_BYTES, self._steps)
            return section, len(section)
        except ProtocolError as error:
            raise UnreadableBatchError(f"the records cannot be decompressed: {error}") from error
        except TooLargeError as error:
            if not self._may_block:
                raise
            raise InvalidRecordError(
                f"a record of more than {self._largest} decompressed bytes"
            ) from error

    @property
    def _largest(self) -> int:
        """The size limit of a record in bytes."""
        limits = self._codec is not Compression.NONE
        return self._config.max_decompressed_message_bytes if limits else sys.maxsize

    def _most_bytes(self) -> int:
        """Return the largest size of all records if no record exceeds the limit.

        A batch that would decompress to more, such as a record of a gigabyte, is rejected early.
        """
        return max(self._header.record_count, 0) * (self._largest + MOST_LENGTH_BYTES)

    # --- fast path --------------------------------------------------------------------------------

    def _walk(self, section: Section, start: int, end: int) -> Checked | None:
        """Check typical records fast; return None if the records must be read one by one."""
        header, config = self._header, self._config
        base_ms = header.base_timestamp_ms
        if header.attributes & LOG_APPEND_TIME or base_ms < 0:
            return None
        if config.max_decompressed_message_bytes < end - start and self._codec:
            return None
        times = time_range(section, start, end, header.record_count, config.compacts, self._steps)
        if times is None:
            return None
        least_ms, largest_ms = base_ms + times[0], base_ms + times[1]
        if not self._is_stamped and (
            largest_ms - self._now_ms > config.message_timestamp_after_max_ms
            or self._now_ms - least_ms > config.message_timestamp_before_max_ms
        ):
            return None
        if least_ms < 0 or largest_ms >= _INT64_SIGN:
            return None
        if self._target is not self._codec and section[start + _time_position(section, start)]:
            return None  # the new base timestamp changes all deltas
        return Checked(largest_ms, base_ms)

    # --- other batches ----------------------------------------------------------------------------

    def _read(self, section: ByteSection) -> Checked:
        header = self._header
        is_in_place = self._target is self._codec
        is_partial = is_in_place and self._codec is not Compression.NONE
        reader = read_partially if is_partial else read_records
        rebuilt = None if is_in_place else bytearray()
        view = memoryview(section)
        records = reader(section, header.record_count, self._steps, self._largest)
        errors: list[tuple[int, str]] = []
        error_count, is_time_wrong, is_ordered, is_negative = 0, False, True, False
        first_ms = largest_ms = NO_TIMESTAMP
        try:
            for index, record in enumerate(records):
                timestamp_ms = self._timestamp(record)
                if index % RECORDS_PER_LOOK == 0 and self.is_cancelled and self.is_cancelled():
                    raise CancelledCheckError
                error = self._key_error(record)
                if error is None:
                    error = self._time_error(record, timestamp_ms, is_partial)
                    is_time_wrong = is_time_wrong or error is not None
                if error is not None:
                    error_count += 1
                    if error_count <= MOST_RECORD_ERRORS:
                        errors.append((index, error))
                    continue
                if index == 0:
                    first_ms = timestamp_ms
                largest_ms = max(largest_ms, timestamp_ms)
                is_ordered = is_ordered and record.offset_delta == index
                is_negative = is_negative or timestamp_ms < NO_TIMESTAMP
                if rebuilt is not None and not error_count and not is_negative:
                    _add_record(rebuilt, view, record, timestamp_ms - first_ms, index)
        except UnreadableError as error:
            raise UnreadableBatchError(f"the records cannot be read: {error}") from error
        except ProtocolError as error:
            raise InvalidRecordError(f"the records cannot be read: {error}") from error
        if errors:
            _reject(errors, error_count, is_time_wrong)
        if is_partial and not is_ordered:
            raise UnreadableBatchError("the offsets of compressed records have gaps")
        if is_negative and not is_in_place:
            raise UnreadableBatchError("a negative timestamp in a batch that is compressed anew")
        return Checked(largest_ms, first_ms, rebuilt)

    def _timestamp(self, record: ProducedRecord) -> int:
        header = self._header
        if header.attributes & LOG_APPEND_TIME:
            return header.max_timestamp_ms
        return _as_int64(header.base_timestamp_ms + record.time_delta)

    def _key_error(self, record: ProducedRecord) -> str | None:
        if record.key_size >= 0 or not self._config.compacts:
            return None
        return f"Compacted topic cannot accept message without key in topic partition {self._place}"

    def _time_error(
        self, record: ProducedRecord, timestamp_ms: int, is_partial: bool
    ) -> str | None:
        """Return the error in a record's timestamp or timestamp type, or None."""
        now_ms = self._now_ms
        if not self._is_stamped and timestamp_ms != NO_TIMESTAMP:
            before_ms = self._config.message_timestamp_before_max_ms
            after_ms = self._config.message_timestamp_after_max_ms
            age_ms = _as_int64(now_ms - timestamp_ms)
            if age_ms <= before_ms and _as_int64(-age_ms) <= after_ms:
                return None
            return (
                f"Timestamp {timestamp_ms} of message with offset {record.offset_delta} is out of "
                f"range. The timestamp should be within [{now_ms - before_ms}, "
                f"{now_ms + after_ms}]"
            )
        if not self._header.attributes & LOG_APPEND_TIME:
            return None
        name, key_size, value_size = "PartialDefaultRecord", record.key_size, record.value_size
        if not is_partial:
            name, key_size, value_size = "DefaultRecord", max(key_size, 0), max(value_size, 0)
        return (
            f"Invalid timestamp type in message {name}(offset={record.offset_delta}, "
            f"timestamp={timestamp_ms}, key={key_size} bytes, value={value_size} bytes). "
            "Producer should not set timestamp type to LogAppendTime."
        )

    # --- stored batches ---------------------------------------------------------------------------

    def _in_place(self, largest_ms: int) -> tuple[BatchHeader, bytes]:
        """Return the batch unchanged except for timestamp type and largest timestamp."""
        header = self._header
        stamp, max_ms = (LOG_APPEND_TIME, self._now_ms) if self._is_stamped else (0, largest_ms)
        if header.max_timestamp_ms == max_ms and header.attributes & LOG_APPEND_TIME == stamp:
            return header, self._body
        attributes = header.attributes & _KEPT_ATTRIBUTES | stamp
        changed = header._replace(attributes=attributes, max_timestamp_ms=max_ms)
        batch = rebuilt_batch(changed, self._body[BODY_HEADER_BYTES:])
        return batch.header, batch.body

    def _recompressed(
        self, section: ByteSection | bytearray, checked: Checked
    ) -> tuple[BatchHeader, bytes]:
        """Return a batch of these records in the topic's codec (MemoryRecordsBuilder).

        Raises MessageTooLargeError, and without `may_block` LongCheckError.
        """
        header = self._header
        if not self._may_block and len(section) > MOST_COMPRESSED_BYTES:
            raise LongCheckError
        if self._target is Compression.NONE:
            size_bytes = HEADER_BYTES + len(section)
            if size_bytes > self._config.max_message_bytes:
                raise too_large(size_bytes, self._config.max_message_bytes)
        stamp, max_ms = 0, checked.largest_ms
        if self._is_stamped:
            stamp, max_ms = LOG_APPEND_TIME, self._now_ms
        changed = header._replace(
            attributes=header.attributes & TRANSACTIONAL | self._target | stamp,
            base_timestamp_ms=checked.first_ms,
            max_timestamp_ms=max_ms,
        )
        batch = rebuilt_batch(changed, compress(self._target, section))
        return batch.header, batch.body


def _target_codec(config: LogConfig, codec: Compression) -> Compression:
    name = config.compression_type
    if name == "producer":
        return codec
    return Compression.NONE if name == "uncompressed" else Compression[name.upper()]


def _time_position(section: Section, start: int) -> int:
    """Return the position of the first record's timestamp delta, relative to `start`."""
    position = start
    while section[position] > 127:
        position += 1
    return position + 2 - start


def _part(section: Section, start: int, end: int) -> ByteSection:
    """Return a part of a section; a view if large, as copying would block the event loop."""
    if isinstance(section, bytes) and end <= MOST_BYTES:
        return section[start:end]
    return memoryview(section)[start:end]


def _add_record(
    rebuilt: bytearray, section: memoryview, record: ProducedRecord, delta_ms: int, index: int
) -> None:
    """Append a record to `rebuilt` with these deltas. Raises UnreadableBatchError above 1 GiB."""
    parts: list[bytes | memoryview] = [b"\x00", encode_varint(delta_ms), encode_varint(index)]
    for at, size in ((record.key_at, record.key_size), (record.value_at, record.value_size)):
        parts.append(encode_varint(max(size, -1)))
        parts.append(section[at : at + max(size, 0)])
    parts += header_parts(read_record_headers(section, record.headers_at))
    rebuilt += encode_varint(sum(map(len, parts)))
    for part in parts:
        for start in range(0, len(part), PIECE_BYTES):  # a large copy would block the event loop
            rebuilt += part[start : start + PIECE_BYTES]
    if len(rebuilt) > MAX_DECOMPRESSED_BYTES:
        raise UnreadableBatchError(f"records of more than {MAX_DECOMPRESSED_BYTES} bytes")


def _reject(errors: list[tuple[int, str]], count: int, is_time_wrong: bool) -> NoReturn:
    """Raise the error of a batch with `count` bad records; `errors` has the first few errors."""
    if is_time_wrong:
        raise InvalidTimestampError(
            "One or more records have been rejected due to invalid timestamp", tuple(errors)
        )
    shown = (
        f"RecordError(batchIndex={index}, message='{reason}')"
        for index, reason in errors[:RECORD_ERRORS_SHOWN]
    )
    raise InvalidRecordError(
        f"One or more records have been rejected due to {count} record errors in total, "
        f"and only showing the first three errors at most: [{', '.join(shown)}]",
        tuple(errors),
    )


def _as_int64(number: int) -> int:
    """Return a number wrapped to 64 bits, like Java's long."""
    return (number + _INT64_SIGN) % (2 * _INT64_SIGN) - _INT64_SIGN
