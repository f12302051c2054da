"""Record batches, format 2 (KIP-98): what the log holds and Produce and Fetch carry.

The append path is lazy: it reads the 61 bytes of the header and checks the CRC, and never looks
at records. Base offset and leader epoch lie before the CRC and are patched in place.
Buffers may hold several batches one behind the other; positions are counted in the buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812 - an exception, named like one

from protocol.batch_layout import (
    AFTER_CRC,
    BEFORE_CRC,
    COMPRESSION_MASK,
    CONTROL,
    CRC_POSITION,
    CRC_START,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    MAX_TIMESTAMP_POSITION,
    TRANSACTIONAL,
)
from protocol.compression import Compression, compress, decompress
from protocol.crc32c import crc32c
from protocol.errors import ProtocolError
from protocol.raw_records import raw_records
from protocol.utf8 import JAVA_REPLACE
from protocol.varint import (
    decode_varint,
    encode_varint,
    unsigned_varint_tail,
)

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_UINT32 = Struct(">I")

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1


class Record:
    """One record. Key, value and the values of headers may be null."""

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


class BatchHeader:
    """The header of one batch, and where the batch lies: `position` to `end` in its buffer."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp_ms",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "length",
        "max_timestamp_ms",
        "position",
        "producer_epoch",
        "producer_id",
        "record_count",
    )

    magic = 2

    attributes: int
    base_offset: int
    base_sequence: int
    base_timestamp_ms: int
    crc: int
    last_offset_delta: int
    leader_epoch: int
    length: int  # as on the wire: without the 12 bytes of base offset and length
    max_timestamp_ms: int
    position: int
    producer_epoch: int
    producer_id: int
    record_count: int

    def __init__(self, buffer: bytes | bytearray | memoryview, position: int = 0) -> None:
        """Read the header at `position`.

        ProtocolError when the buffer ends inside the batch or the bytes are no format 2 batch.
        The CRC is not checked here.
        """
        try:
            (
                self.base_offset,
                self.length,
                self.leader_epoch,
                magic,
                self.crc,
                self.attributes,
                self.last_offset_delta,
                self.base_timestamp_ms,
                self.max_timestamp_ms,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                self.record_count,
            ) = HEADER.unpack_from(buffer, position)
        except StructError as error:
            raise ProtocolError("the buffer ends inside a batch header") from error
        self.position = position
        if magic != 2:
            raise ProtocolError(f"a record batch of magic {magic}, not 2")
        if self.length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
            raise ProtocolError(f"a record batch of length {self.length}")
        if self.end > len(buffer):
            raise ProtocolError("the buffer ends inside a batch")

    @property
    def size_bytes(self) -> int:
        """The whole batch in bytes."""
        return self.length + LOG_OVERHEAD_BYTES

    @property
    def end(self) -> int:
        """The position behind the batch."""
        return self.position + self.length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        """The offset of the last record, also when compaction has removed it."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset behind the last one."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The producer's sequence number of the last record; -1 without one. Wraps to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return add_to_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def compression(self) -> Compression:
        """How the records are compressed; ProtocolError for a number that means nothing."""
        try:
            return Compression(self.attributes & COMPRESSION_MASK)
        except ValueError as error:
            raise ProtocolError(f"unknown compression: {error}") from error

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
        """Whether the records are markers for the broker and clients, not data."""
        return bool(self.attributes & CONTROL)

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent or transactional producer wrote the batch."""
        return self.producer_id != NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the cleaner may drop this batch's tombstones (KIP-534); None when not yet set."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON else None


def add_to_sequence(sequence: int, increment: int) -> int:
    """Sequence numbers are int32 and go on at 0 (Kafka's DefaultRecordBatch.incrementSequence)."""
    return (sequence + increment) & 0x7FFF_FFFF


def crc_is_valid(buffer: bytes | bytearray | memoryview, header: BatchHeader) -> bool:
    """Whether the batch is as it was written; base offset and leader epoch do not count."""
    covered = memoryview(buffer)[header.position + CRC_START : header.end]
    return crc32c(covered) == header.crc


def iterate_batches(
    buffer: bytes | bytearray | memoryview, position: int = 0
) -> Iterator[BatchHeader]:
    """The complete batches from `position` on; a cut one at the end is left out, as in Kafka.

    ProtocolError at bytes that are no batch of format 2.
    """
    size = len(buffer)
    while size - position >= MAGIC_POSITION + 1:
        (length,) = _INT32.unpack_from(buffer, position + 8)
        magic = buffer[position + MAGIC_POSITION]
        if magic != 2 or length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
            raise ProtocolError(f"a record batch of magic {magic} and length {length}")
        if length > size - position - LOG_OVERHEAD_BYTES:
            return
        header = BatchHeader(buffer, position)
        position = header.end
        yield header


def iterate_records(
    buffer: bytes | bytearray | memoryview, header: BatchHeader
) -> Iterator[Record]:
    """The records of one batch, decompressed. ProtocolError when they do not parse."""
    body = memoryview(buffer)[header.position + HEADER_BYTES : header.end]
    if not body and not header.record_count:
        return  # emptied by compaction: whatever the compression, there is no frame
    data = decompress(header.compression, body)
    base_offset, base_ms = header.base_offset, header.base_timestamp_ms
    fixed_ms = header.max_timestamp_ms if header.log_append_time else None
    if header.record_count < 0:
        raise ProtocolError(f"{header.record_count} records")
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
        raise ProtocolError(f"{len(data) - end} bytes behind {header.record_count} records")


def _read_headers(
    data: bytes, position: int, end: int
) -> tuple[list[tuple[str, bytes | None]], int]:
    """The headers of a record, their count in front."""
    count, position = decode_varint(data, position)
    if not 0 < count <= end - position:
        raise ProtocolError(f"{count} record headers")
    headers = []
    for _ in range(count):
        name, position = _read_nullable_bytes(data, position, end)
        if name is None:
            raise ProtocolError("a record header without a key")
        value, position = _read_nullable_bytes(data, position, end)
        headers.append((str(name, "utf-8", JAVA_REPLACE), value))
    return headers, position


def _read_nullable_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    """Bytes behind their zigzag length; a negative one is null."""
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
) -> bytes:
    """One batch of `records`, which lie in the order of their offsets.

    `base_offset` and `last_offset` are those of the records unless compaction keeps the wider
    range of an old batch, or keeps a batch without records.
    """
    if base_offset is None:
        base_offset = records[0].offset
    if last_offset is None:
        last_offset = records[-1].offset if records else base_offset
    base_ms = records[0].timestamp_ms if records else NO_TIMESTAMP
    max_ms = max((record.timestamp_ms for record in records), default=NO_TIMESTAMP)
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
    body = b"".join([_record_bytes(record, base_offset, base_ms) for record in records])
    covered = (
        AFTER_CRC.pack(
            attributes,
            last_offset - base_offset,
            base_ms,
            max_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            len(records),
        )
        # An empty batch, which only compaction makes, has no compressed frame either.
        + (compress(compression, body) if records else b"")
    )
    length = len(covered) + CRC_START - LOG_OVERHEAD_BYTES
    head = BEFORE_CRC.pack(base_offset, length, leader_epoch, 2, crc32c(covered))
    return head + covered


def _record_bytes(record: Record, base_offset: int, base_ms: int) -> bytes:
    """One record as it lies in a batch, its length in front."""
    key, value, headers = record.key, record.value, record.headers
    body = b"".join(
        (
            b"\x00",
            encode_varint(record.timestamp_ms - base_ms),
            encode_varint(record.offset - base_offset),
            b"\x01" if key is None else encode_varint(len(key)),
            key or b"",
            b"\x01" if value is None else encode_varint(len(value)),
            value or b"",
            _header_bytes(headers) if headers else b"\x00",
        )
    )
    return encode_varint(len(body)) + body


def _header_bytes(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """The headers of a record, their number in front."""
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        parts += (encode_varint(len(encoded)), encoded)
        parts += (b"\x01",) if value is None else (encode_varint(len(value)), value)
    return b"".join(parts)


def patch_offset(
    buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int
) -> None:
    """Give the batch at `position` its place in the log; both fields lie before the CRC."""
    _INT64.pack_into(buffer, position, base_offset)
    _INT32.pack_into(buffer, position + LOG_OVERHEAD_BYTES, leader_epoch)


def patch_log_append_time(
    buffer: bytearray | memoryview, header: BatchHeader, timestamp_ms: int
) -> None:
    """Stamp all records of a batch with the time of the append; renews the CRC and `header`."""
    position = header.position
    header.attributes |= LOG_APPEND_TIME
    header.max_timestamp_ms = timestamp_ms
    _INT16.pack_into(buffer, position + CRC_START, header.attributes)
    _INT64.pack_into(buffer, position + MAX_TIMESTAMP_POSITION, timestamp_ms)
    header.crc = crc32c(memoryview(buffer)[position + CRC_START : header.end])
    _UINT32.pack_into(buffer, position + CRC_POSITION, header.crc)
