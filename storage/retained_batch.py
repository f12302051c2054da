"""Rebuilds a batch after compaction, with fewer or no records and an optional delete horizon.

Retained records are copied as raw bytes, without decoding and encoding.
"""

from __future__ import annotations

from collections.abc import Sequence

from protocol.batch import rebuilt_batch
from protocol.batch_header import (
    COMPRESSION_MASK,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    BatchHeader,
)
from protocol.compression import compress
from protocol.raw_records import RawKey
from protocol.varint import decode_varint, decode_varlong, encode_varint


def retained_batch(
    header: BatchHeader, kept: Sequence[RawKey], section: bytes, delete_horizon_ms: int | None
) -> bytes:
    """Return a batch with only the `kept` records, its offsets, producer and sequence unchanged.

    `delete_horizon_ms` is the time from which the batch's tombstones can be removed. The horizon is
    stored as base timestamp, and record deltas are relative to it (Kafka's DefaultRecordBatch since
    KIP-534).
    """
    base_ms, attributes = header.base_timestamp_ms, header.attributes
    max_ms = header.max_timestamp_ms
    if not attributes & LOG_APPEND_TIME:  # with LogAppendTime, all records have the same timestamp
        max_ms = max(base_ms + record[2] for record in kept)
    records = [section[record[0] : record[1]] for record in kept]
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON
        shift_ms = base_ms - delete_horizon_ms
        records = [_shifted(record, shift_ms) for record in records]
        base_ms = delete_horizon_ms
    changed = header._replace(
        attributes=attributes,
        base_timestamp_ms=base_ms,
        max_timestamp_ms=max_ms,
        record_count=len(kept),
    )
    return rebuilt_batch(changed, compress(header.compression, b"".join(records))).to_bytes()


def retained_header(header: BatchHeader) -> bytes:
    """Return a batch without records, which preserves a producer's last sequence and the offsets.

    The batch has no codec and no horizon, as in Kafka's DefaultRecordBatch.writeEmptyHeader.
    """
    changed = header._replace(
        attributes=header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON),
        base_timestamp_ms=NO_TIMESTAMP,
        record_count=0,
    )
    return rebuilt_batch(changed, b"").to_bytes()


def _shifted(record: bytes, shift_ms: int) -> bytes:
    """Return a record with its timestamp delta increased by `shift_ms`, for an earlier base."""
    _, at = decode_varint(record, 0)
    delta, rest = decode_varlong(record, at + 1)
    contents = record[at : at + 1] + encode_varint(delta + shift_ms) + record[rest:]
    return encode_varint(len(contents)) + contents
