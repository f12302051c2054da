"""Record batches as objects: reads their records and builds new batches (format 2, KIP-98).

`protocol.batch_header` finds the batches in a buffer, and `protocol.raw_records` reads records
fast. This module has records with all their fields, and the only builder of batches. The builder
returns an `EncodedBatch` with the fields that a log needs, so that a batch built by the broker is
appended without being parsed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from protocol.batch_header import (
    AFTER_CRC,
    BEFORE_CRC,
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
)
from protocol.compression import Compression, compress
from protocol.control_record import EndMarker
from protocol.crc32c import crc32c
from protocol.errors import ProtocolError
from protocol.raw_records import raw_records, records_section
from protocol.utf8 import JAVA_REPLACE
from protocol.varint import (
    SMALL_VARINTS,
    decode_varint,
    encode_varint,
    unsigned_varint_tail,
)

if TYPE_CHECKING:
    from protocol.batch_header import BatchBuffer
    from protocol.control_record import EndTransaction

_LENGTH_BEFORE_BODY = CRC_START - LOG_OVERHEAD_BYTES

Data = TypeVar("Data", bytes, memoryview)


class Record:
    """A record. Key, value and header values may be null."""

    __slots__ = ("headers", "key", "offset", "timestamp_ms", "value")

    def __init__(
        self,
        offset: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.key = key
        self.value = value
        self.headers = headers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return (
            self.offset == other.offset
            and self.timestamp_ms == other.timestamp_ms
            and self.key == other.key
            and self.value == other.value
            and list(self.headers) == list(other.headers)
        )

    __hash__ = None  # type: ignore[assignment]  # mutable: a record is no dict key

    def __repr__(self) -> str:
        return (
            f"Record(offset={self.offset}, timestamp_ms={self.timestamp_ms}, key={self.key!r}, "
            f"value={self.value!r}, headers={list(self.headers)!r})"
        )


def iterate_records(buffer: BatchBuffer, header: BatchHeader, origin: int = 0) -> Iterator[Record]:
    """Yield the records of one batch of any format, decompressed.

    `origin` is used as in `protocol.batch_header`. Raises ProtocolError for malformed records.
    """
    if header.magic < 2:
        # Imported here, because few logs have batches of the formats 0 and 1.
        from protocol.legacy_batch import legacy_records

        for offset, timestamp_ms, key, value in legacy_records(buffer, header, origin):
            yield Record(offset, timestamp_ms, key, value)
        return
    data = records_section(buffer, header, origin)
    base_offset, base_ms = header.base_offset, header.base_timestamp_ms
    fixed_ms = header.max_timestamp_ms if header.log_append_time else None
    end = 0
    try:
        for raw in raw_records(data, header.record_count):
            _, end, timestamp_delta, offset_delta, key, value, position = raw
            headers: Sequence[tuple[str, bytes | None]] = ()
            if data[position]:
                headers, position = _read_headers(data, position, end)
            else:
                position += 1
            if position != end:
                raise ProtocolError("the record's length is not that of its fields")
            timestamp_ms = base_ms + timestamp_delta if fixed_ms is None else fixed_ms
            yield Record(base_offset + offset_delta, timestamp_ms, key, value, headers)
    except IndexError as error:
        raise ProtocolError("the batch ends inside a record") from error
    if end != len(data):
        raise ProtocolError(f"{len(data) - end} bytes after {header.record_count} records")


def _read_headers(data: Data, position: int, end: int) -> tuple[list[tuple[str, Data | None]], int]:
    """Return the headers of a record, and the position after them.

    The headers begin with their count.
    """
    count, position = decode_varint(data, position)
    if not 0 < count <= end - position:
        raise ProtocolError(f"{count} record headers")
    headers: list[tuple[str, Data | None]] = []
    for _ in range(count):
        name, position = _read_nullable_bytes(data, position, end)
        if name is None:
            raise ProtocolError("a record header without a key")
        value, position = _read_nullable_bytes(data, position, end)
        headers.append((str(name, "utf-8", JAVA_REPLACE), value))
    return headers, position


def read_record_headers(data: memoryview, position: int) -> list[tuple[str, memoryview | None]]:
    """Return the headers at `position`, which begin with their count. Raises ProtocolError."""
    return _read_headers(data, position, len(data))[0] if data[position] else []


def _read_nullable_bytes(data: Data, position: int, end: int) -> tuple[Data | None, int]:
    """Return bytes after their zigzag length (negative: None), and the position after them."""
    length = data[position]
    position += 1
    if length > 127:
        length, position = unsigned_varint_tail(data, position, length)
    if length & 1:
        return None, position
    stop = position + (length >> 1)
    if stop > end:
        raise ProtocolError(f"{length >> 1} bytes in a record with {end - position} left")
    return data[position:stop], stop


class EncodedBatch(NamedTuple):
    """A batch ready to append to a log, which sets base offset and leader epoch.

    `body` has the bytes that the CRC covers. `marker` is the transaction marker in a control batch.
    Batches with the same `key_set` object have the same keys, each once, and no tombstones. The
    header's position is 0.
    """

    header: BatchHeader
    body: bytes
    marker: EndMarker | None = None
    key_set: object | None = None

    def to_bytes(self) -> bytes:
        """Return the whole batch, with the base offset and leader epoch of its header."""
        header = self.header
        return (
            BEFORE_CRC.pack(header.base_offset, header.length, header.leader_epoch, 2, header.crc)
            + self.body
        )


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    leader_epoch: int = -1,
    compression: Compression = Compression.NONE,
    log_append_time_ms: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    delete_horizon_ms: int | None = None,
) -> EncodedBatch:
    """Build a batch of `records`, which must be in offset order.

    `base_offset` and `last_offset` default to the offsets of the first and last record. Compaction
    sets them to keep the offset range of an old batch, or to build a batch without records.
    """
    if base_offset is None:
        base_offset = records[0].offset
    if last_offset is None:
        last_offset = records[-1].offset if records else base_offset
    times_ms = [record.timestamp_ms for record in records] or (NO_TIMESTAMP,)
    base_ms, max_ms = times_ms[0], max(times_ms)
    attributes = int(compression)
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME
        max_ms = log_append_time_ms
    if transactional:
        attributes |= TRANSACTIONAL
    if control:
        attributes |= CONTROL
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON
        base_ms = delete_horizon_ms
    section = b"".join(
        [
            record_bytes(
                record.timestamp_ms - base_ms,
                record.offset - base_offset,
                record.key,
                record.value,
                record.headers,
            )
            for record in records
        ]
    )
    if compression is not Compression.NONE and records:  # an empty batch has no compressed frame
        section = compress(compression, section)
    fields = (
        attributes,
        last_offset - base_offset,
        base_ms,
        max_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    return _encoded(base_offset, leader_epoch, fields, section)


def batch_of_section(
    section: bytes,
    record_count: int,
    timestamp_ms: int,
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    key_set: object | None = None,
) -> EncodedBatch:
    """Build a batch of encoded records with one timestamp and offset deltas from 0 on."""
    header, body, *_ = _encoded(
        0,
        -1,
        (
            TRANSACTIONAL if transactional else 0,
            record_count - 1,
            timestamp_ms,
            timestamp_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            record_count,
        ),
        section,
    )
    return EncodedBatch(header, body, None, key_set)


def end_transaction_batch(end: EndTransaction, timestamp_ms: int) -> EncodedBatch:
    """Build the control batch with a transaction marker."""
    key = (0).to_bytes(2, "big") + int(end.commits).to_bytes(2, "big")
    value = (0).to_bytes(2, "big") + end.coordinator_epoch.to_bytes(4, "big", signed=True)
    batch = build_batch(
        [Record(0, timestamp_ms, key, value)],
        producer_id=end.producer_id,
        producer_epoch=end.producer_epoch,
        transactional=True,
        control=True,
    )
    return batch._replace(marker=EndMarker(end.commits, end.coordinator_epoch))


def rebuilt_batch(header: BatchHeader, section: bytes) -> EncodedBatch:
    """Return a batch with the fields of `header`, but with the length and CRC of `section`.

    `section` has the records as stored: compressed, if the attributes say so.
    """
    fields = header[5:13]  # the header fields from the attributes to the record count
    return _encoded(header.base_offset, header.leader_epoch, fields, section)


def _encoded(
    base_offset: int, leader_epoch: int, fields: tuple[int, ...], section: bytes
) -> EncodedBatch:
    """Build a batch from the fields of `AFTER_CRC` and the encoded records."""
    body = AFTER_CRC.pack(*fields) + section
    crc = crc32c(body)
    length = len(body) + _LENGTH_BEFORE_BODY
    header = BatchHeader._make((base_offset, length, leader_epoch, 2, crc, *fields, 0))
    return EncodedBatch(header, body)


def record_bytes(
    delta_ms: int,
    delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> bytes:
    """Return a record in its stored form: its length, then its fields.

    `delta_ms` and `delta` are the timestamp and offset minus those of the batch.
    """
    # Most lengths and deltas are small. A function call for each of them would double the time.
    small = SMALL_VARINTS
    if key is None:
        key, key_size = b"", b"\x01"
    else:
        size = len(key)
        key_size = small[size] if size < 64 else encode_varint(size)
    if value is None:
        value, value_size = b"", b"\x01"
    else:
        size = len(value)
        value_size = small[size] if size < 64 else encode_varint(size)
    body = b"".join(
        (
            b"\x00",
            small[delta_ms] if 0 <= delta_ms < 64 else encode_varint(delta_ms),
            small[delta] if 0 <= delta < 64 else encode_varint(delta),
            key_size,
            key,
            value_size,
            value,
            _header_bytes(headers) if headers else b"\x00",
        )
    )
    size = len(body)
    return (small[size] if size < 64 else encode_varint(size)) + body


def _header_bytes(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """Return the encoded headers of a record, which begin with their count."""
    return b"".join(header_parts(headers))


def header_parts(
    headers: Sequence[tuple[str, bytes | memoryview | None]],
) -> list[bytes | memoryview]:
    """Return the encoded headers of a record in parts; the first part is their count."""
    parts: list[bytes | memoryview] = [encode_varint(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        parts += (encode_varint(len(encoded)), encoded)
        parts += (b"\x01",) if value is None else (encode_varint(len(value)), value)
    return parts
