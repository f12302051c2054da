"""Offset lookup by timestamp and by largest timestamp, for ListOffsets (KIP-79, KIP-734)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from protocol.batch_header import COMPRESSION_MASK, BatchHeader
from protocol.errors import ProtocolError
from protocol.raw_records import RawRecord, batch_records
from protocol.varint import encode_varint
from storage.log_config import LogConfig
from storage.segment import Segment


class TimestampedOffset(NamedTuple):
    """A record's timestamp and offset, and the leader epoch of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


def first_record_since(
    segments: Sequence[Segment],
    timestamp: int,
    log_start_offset: int,
    config: LogConfig,
) -> TimestampedOffset | None:
    """Return the first record at or after `timestamp`; None if all records are older.

    Raises ProtocolError if the records of a batch are unreadable, or if a compressed batch has a
    record larger than `max.decompressed.message.bytes`.
    """
    for segment in segments:
        if segment.max_timestamp >= timestamp:
            batch = segment.first_batch_since(timestamp, log_start_offset)
            while batch is not None:
                record = _record_since(segment, batch, timestamp, log_start_offset, config)
                if record is not None:
                    return record
                # All records at or after the timestamp are below the log start offset, or
                # compaction has removed them.
                batch = segment.first_batch_since(timestamp, batch.last_offset + 1)
    return None


def record_with_max_timestamp(
    segments: Sequence[Segment], log_start_offset: int, config: LogConfig
) -> TimestampedOffset | None:
    """Return the first record with the largest timestamp of the log; None if the log is empty.

    Raises the ProtocolErrors of `first_record_since`.
    """
    latest = max(segments, key=lambda segment: segment.max_timestamp)
    timestamp = latest.max_timestamp
    if timestamp >= 0:
        first = first_record_since([latest], timestamp, log_start_offset, config)
        if first is not None:
            return first
    # `first_record_since` returns no record without a timestamp (-1), and no record whose negative
    # offset delta puts it below the log start offset.
    batch = latest.first_batch_since(timestamp, log_start_offset)
    if batch is None or batch.log_append_time or batch.magic < 2:
        return None
    for record in _records(latest, batch, config):
        if batch.base_timestamp_ms + record[2] == timestamp:
            return TimestampedOffset(timestamp, batch.base_offset + record[3], batch.leader_epoch)
    return None


def _record_since(
    segment: Segment, batch: BatchHeader, timestamp: int, log_start_offset: int, config: LogConfig
) -> TimestampedOffset | None:
    if batch.log_append_time or batch.magic < 2:
        offset = max(batch.base_offset, log_start_offset)
        return TimestampedOffset(batch.max_timestamp_ms, offset, batch.leader_epoch)
    for record in _records(segment, batch, config):
        offset = batch.base_offset + record[3]
        record_timestamp = batch.base_timestamp_ms + record[2]
        if record_timestamp >= timestamp and offset >= log_start_offset:
            return TimestampedOffset(record_timestamp, offset, batch.leader_epoch)
    return None


def _records(segment: Segment, batch: BatchHeader, config: LogConfig) -> Iterator[RawRecord]:
    """Yield the records of a batch. Raises the ProtocolErrors of `first_record_since`."""
    largest = config.max_decompressed_message_bytes
    is_limited = bool(batch.attributes & COMPRESSION_MASK)
    for record in batch_records(segment.read_batch(batch), batch, batch.position):
        size = record[1] - record[0]
        if is_limited and size > largest and _body_bytes(size) > largest:
            raise ProtocolError(f"a record of {size} bytes, more than {largest}")
        yield record


def _body_bytes(size: int) -> int:
    """Return the size of a record without its length prefix."""
    return size - next((n for n in range(1, 5) if len(encode_varint(size - n)) == n), 5)
