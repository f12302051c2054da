"""The records inside a batch, as far as storage has to look: keys, timestamps, tombstones.

Records are walked over their raw bytes, so that compaction can keep those of a record that stays
without decoding and encoding them again. A "body" is a batch behind its CRC (what the CRC covers).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from protocol.batch_layout import (
    AFTER_CRC,
    BEFORE_CRC,
    COMPRESSION_MASK,
    CRC_START,
    DELETE_HORIZON,
    HEADER,
    LOG_APPEND_TIME,
)
from protocol.compression import Compression, compress, decompress
from protocol.crc32c import crc32c
from protocol.errors import ProtocolError
from protocol.raw_records import RawKey, RawRecord, raw_records
from protocol.varint import decode_varint, decode_varlong, encode_varint
from storage.errors import CorruptBatchError

BODY_HEADER_BYTES = AFTER_CRC.size
NO_TIMESTAMP = -1

# Names of compression.type -> the codec bits of a batch's attributes.
CODECS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


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
    """Yield `count` records of an uncompressed section; CorruptBatchError as above."""
    try:
        yield from raw_records(section, count)
    except ProtocolError as error:
        raise CorruptBatchError(f"the records of a batch do not parse: {error}") from error


def recompressed(body: bytes, codec: int) -> bytes:
    """Return the body with its records, unchanged, in another codec."""
    section = records_section(body)
    attributes = int.from_bytes(body[:2], "big", signed=True) & ~COMPRESSION_MASK | codec
    if codec:
        section = compress(Compression(codec), section)
    return attributes.to_bytes(2, "big", signed=True) + body[2:BODY_HEADER_BYTES] + section


def retained_batch(
    batch: bytes, kept: Sequence[RawKey], section: bytes, delete_horizon_ms: int | None
) -> bytes:
    """Return a batch with only the `kept` records, its offsets, producer and sequence unchanged.

    With `delete_horizon_ms` the batch says from when on its tombstones may go: the base timestamp
    holds the horizon then and the records' deltas count from it (Kafka's DefaultRecordBatch since
    KIP-534). An empty `kept` gives a header alone, which keeps a producer's last sequence.
    """
    head = HEADER.unpack_from(batch)
    base_offset, leader_epoch, attributes, last_offset_delta = head[0], head[2], head[5], head[6]
    base_timestamp, max_timestamp = head[7], head[8]
    parts = [section[record[0] : record[1]] for record in kept]
    if kept:
        max_timestamp = max(base_timestamp + record[2] for record in kept)
    if attributes & LOG_APPEND_TIME:  # one time for all
        max_timestamp = head[8]
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON
        shift = base_timestamp - delete_horizon_ms
        parts = [_shifted(section[record[0] : record[1]], shift) for record in kept]
        base_timestamp = delete_horizon_ms
    codec = attributes & COMPRESSION_MASK
    records = b"".join(parts)
    if codec and kept:
        records = compress(Compression(codec), records)
    if not kept:  # as DefaultRecordBatch.writeEmptyHeader has it
        attributes &= ~(COMPRESSION_MASK | DELETE_HORIZON)
        base_timestamp = NO_TIMESTAMP
    body = (
        AFTER_CRC.pack(
            attributes, last_offset_delta, base_timestamp, max_timestamp, *head[9:12], len(kept)
        )
        + records
    )
    length = 9 + len(body)
    return BEFORE_CRC.pack(base_offset, length, leader_epoch, 2, crc32c(body)) + body


def _shifted(record: bytes, shift: int) -> bytes:
    """Return a record whose timestamp delta counts from a base `shift` earlier."""
    _, at = decode_varint(record, 0)
    delta, rest = decode_varlong(record, at + 1)
    contents = record[at : at + 1] + encode_varint(delta + shift) + record[rest:]
    return encode_varint(len(contents)) + contents


class EndMarker(NamedTuple):
    """The end of a transaction, as its marker tells it (KIP-98, Kafka's EndTransactionMarker)."""

    commits: bool
    coordinator_epoch: int


_MARKER_TYPES = {0: False, 1: True}


def end_marker_of(batch: bytes) -> EndMarker | None:
    """Return what a control batch says; None when compaction has emptied it, or when it speaks of
    something else than a transaction's end."""
    for *_, key, value, _ in walk_records(batch[CRC_START:]):
        if key is None or len(key) < 4 or value is None or len(value) < 6:
            return None
        commits = _MARKER_TYPES.get(int.from_bytes(key[2:4], "big"))
        if commits is None:
            return None
        return EndMarker(commits, int.from_bytes(value[2:6], "big", signed=True))
    return None
