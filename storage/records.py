"""The records inside a batch, as far as storage has to look: keys, timestamps, tombstones.

Records are walked over their raw bytes, so that compaction can keep those of a record that stays
without decoding and encoding them again. A "body" is a batch behind its CRC (what the CRC covers).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from protocol.compression import Compression, compress, decompress
from protocol.crc32c import crc32c
from protocol.errors import ProtocolError
from protocol.varint import decode_varint, decode_varlong, encode_varint
from storage.batch_scan import COMPRESSION_MASK, DELETE_HORIZON, HEADER
from storage.errors import CorruptBatchError

# A body's fixed part: attributes, last offset delta, base and max timestamp, producer id and epoch,
# base sequence, count.
BODY_HEADER = struct.Struct(">hiqqqhii")
BODY_HEADER_BYTES = BODY_HEADER.size

# Names of compression.type -> the codec bits of a batch's attributes.
CODECS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


class RawRecord(NamedTuple):
    """One record: where its bytes lie in the uncompressed section, and what they say."""

    start: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    value: bytes | None


def records_section(body: bytes) -> bytes:
    """Return the uncompressed records of a body; CorruptBatchError when they do not unpack."""
    codec = body[1] & COMPRESSION_MASK
    section = body[BODY_HEADER_BYTES:]
    if not codec:
        return section
    try:
        return decompress(Compression(codec), section)
    except (ProtocolError, ValueError) as error:
        raise CorruptBatchError(f"the records of a batch do not unpack: {error}") from error


def walk_records(body: bytes) -> Iterator[RawRecord]:
    """Yield the records of a body; CorruptBatchError when they do not parse."""
    count = int.from_bytes(body[36:40], "big", signed=True)
    return walk_section(records_section(body), count)


def walk_section(section: bytes, count: int) -> Iterator[RawRecord]:
    """Yield `count` records of an uncompressed section."""
    position = 0
    size_bytes = len(section)
    try:
        for _ in range(count):
            length, at = decode_varint(section, position)
            end = at + length
            if length < 6 or end > size_bytes:
                raise CorruptBatchError(f"a record of {length} bytes at {position} of {size_bytes}")
            timestamp_delta, at = decode_varlong(section, at + 1)
            offset_delta, at = decode_varint(section, at)
            key, at = _nullable_bytes(section, at, end)
            value, at = _nullable_bytes(section, at, end)
            yield RawRecord(position, end, timestamp_delta, offset_delta, key, value)
            position = end
    except (IndexError, ProtocolError) as error:
        raise CorruptBatchError(f"a record at {position} does not parse: {error}") from error


def _nullable_bytes(section: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = decode_varint(section, at)
    if length < 0:
        return None, at
    if at + length > end:
        raise CorruptBatchError(f"a field of {length} bytes reaches beyond its record")
    return section[at : at + length], at + length


def recompressed(body: bytes, codec: int) -> bytes:
    """Return the body with its records, unchanged, in another codec."""
    section = records_section(body)
    attributes = int.from_bytes(body[:2], "big", signed=True) & ~COMPRESSION_MASK | codec
    if codec:
        section = compress(Compression(codec), section)
    return attributes.to_bytes(2, "big", signed=True) + body[2:BODY_HEADER_BYTES] + section


def retained_batch(
    batch: bytes, kept: list[RawRecord], section: bytes, delete_horizon_ms: int | None
) -> bytes:
    """Return a batch with only the `kept` records, its offsets, producer and sequence unchanged.

    With `delete_horizon_ms` the batch says from when on its tombstones may go: the base timestamp
    holds the horizon then and the records' deltas count from it (Kafka's DefaultRecordBatch since
    KIP-534). An empty `kept` gives a header alone, which keeps a producer's last sequence.
    """
    head = HEADER.unpack_from(batch)
    base_offset, leader_epoch, attributes, last_offset_delta = head[0], head[2], head[5], head[6]
    base_timestamp, max_timestamp = head[7], head[8]
    parts = [section[record.start : record.end] for record in kept]
    if kept:
        max_timestamp = max(base_timestamp + record.timestamp_delta for record in kept)
    if attributes & 0x08:  # LogAppendTime: one time for all
        max_timestamp = head[8]
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON
        shift = base_timestamp - delete_horizon_ms
        parts = [_shifted(section[record.start : record.end], shift) for record in kept]
        base_timestamp = delete_horizon_ms
    codec = attributes & COMPRESSION_MASK
    records = b"".join(parts)
    if codec and kept:
        records = compress(Compression(codec), records)
    elif codec:
        attributes &= ~COMPRESSION_MASK
    body = (
        BODY_HEADER.pack(
            attributes, last_offset_delta, base_timestamp, max_timestamp, *head[9:12], len(kept)
        )
        + records
    )
    length = 9 + len(body)
    return struct.pack(">qiibI", base_offset, length, leader_epoch, 2, crc32c(body)) + body


def _shifted(record: bytes, shift: int) -> bytes:
    """Return a record whose timestamp delta counts from a base `shift` earlier."""
    _, at = decode_varint(record, 0)
    delta, rest = decode_varlong(record, at + 1)
    contents = record[at : at + 1] + encode_varint(delta + shift) + record[rest:]
    return encode_varint(len(contents)) + contents


def coordinator_epoch_of(batch: bytes) -> int:
    """Return the coordinator epoch in a transaction marker's batch; -1 when it has none."""
    for record in walk_records(batch[21:]):
        if record.value is not None and len(record.value) >= 6:
            return int.from_bytes(record.value[2:6], "big", signed=True)
    return -1
