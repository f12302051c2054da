"""Checks the batch of a Produce request (Kafka's UnifiedLog and LogValidator).

This module checks the bytes and the header, `storage.record_check` the records. Batches that the
broker built are not checked here. docs/record-batches.md has a table of all fields.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from protocol.batch_header import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    FLAGS_POSITION,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    TRANSACTIONAL,
    BatchHeader,
    unpack_header,
)
from protocol.compression import Compression
from protocol.crc32c import crc32c
from storage.disk import Buffer
from storage.errors import (
    CorruptBatchError,
    CorruptFrameError,
    InvalidFrameError,
    InvalidRecordError,
    UnreadableBatchError,
    UnreadableFrameError,
    too_large,
)
from storage.log_config import LogConfig
from storage.record_check import RecordCheck

_LENGTH = Struct(">8xi")
_LEAST_LENGTH = 14
"""The shortest message of format 0."""
_LEAST_BYTES_WITH_DELTA = 27


def check_client_batch(
    records: Buffer,
    config: LogConfig,
    now_ms: int,
    topic: str,
    partition: int,
    *,
    may_block: bool = True,
    is_cancelled: Callable[[], bool] | None = None,
) -> tuple[BatchHeader, bytes]:
    """Check the batch of a Produce v3+ request for one partition and return it ready to write.

    The result is the header and the body that the CRC covers. Raises the same error as Kafka:
    InvalidRecordError, CorruptBatchError, MessageTooLargeError, InvalidTimestampError or
    UnreadableBatchError. Without `may_block`, a long check raises LongCheckError; the caller must
    then repeat the check in a thread. Raises CancelledCheckError once `is_cancelled()` returns
    True.
    """
    if len(records) < HEADER_BYTES:
        raise _short_batch(records, config)
    header = unpack_header(records)
    # Unpack all fields at once: this costs as much as three accesses by name.
    first, length, _, magic, crc, attributes, delta, _, _, producer_id, _, sequence, count, _ = (
        header
    )
    size_bytes = length + LOG_OVERHEAD_BYTES
    if magic != 2 or size_bytes != len(records):
        check_frame(records)
    if first != 0:
        raise InvalidRecordError(
            f"The baseOffset of the record batch should be 0, but it is {first}"
        )
    if size_bytes > config.max_message_bytes:
        raise too_large(size_bytes, config.max_message_bytes)
    if size_bytes < HEADER_BYTES:
        raise _too_short(size_bytes)
    body = bytes(records[CRC_START:size_bytes])
    computed_crc = crc32c(body)
    if computed_crc != crc:
        raise CorruptBatchError(
            f"Record is corrupt (stored crc = {crc}, computed crc = {computed_crc})"
        )
    if attributes & COMPRESSION_MASK > Compression.ZSTD:
        raise UnreadableBatchError(f"Unknown compression type id: {attributes & COMPRESSION_MASK}")
    if count <= 0 or delta + 1 != count:
        raise InvalidRecordError(
            f"Inconsistent batch offset range [0, {delta}] and count of records {count}"
        )
    if attributes & CONTROL:
        raise InvalidRecordError("Clients are not allowed to write control records")
    if producer_id >= 0 and sequence < 0:
        raise InvalidRecordError(
            f"Invalid sequence number {sequence} in record batch with producerId {producer_id}"
        )
    place = f"{topic}-{partition}"
    check = RecordCheck(header, body, config, now_ms, place, may_block=may_block)
    check.is_cancelled = is_cancelled
    stored, stored_body = check.run()
    if stored.length > length and stored.size_bytes > config.max_message_bytes:
        raise too_large(stored.size_bytes, config.max_message_bytes)
    return stored, stored_body


def is_transactional(records: Buffer) -> bool:
    """Return whether the first batch is transactional; False if it is missing or incomplete.

    Raises CorruptFrameError for an impossible size or magic.
    """
    if _batch_size(records, 0) is None or records[MAGIC_POSITION] != 2:
        return False
    return len(records) > FLAGS_POSITION and bool(records[FLAGS_POSITION] & TRANSACTIONAL)


def check_frame(records: Buffer) -> None:
    """Raise unless the bytes are one batch of format 2, maybe with an incomplete second batch.

    Kafka ignores an incomplete batch at the end, as in fetched data. Raises InvalidFrameError,
    CorruptFrameError, CorruptBatchError.
    """
    size_bytes = _batch_size(records, 0)
    if size_bytes is None:
        raise InvalidFrameError(
            "Produce requests must have at least one record batch per partition"
        )
    if records[MAGIC_POSITION] != 2:
        raise InvalidFrameError(
            "Produce requests are only allowed to contain record batches with magic version 2"
        )
    try:
        has_second = _batch_size(records, size_bytes) is not None
    except CorruptFrameError as error:
        raise CorruptBatchError(error.message) from error
    if has_second:
        raise InvalidFrameError(
            "Produce requests are only allowed to contain exactly one record batch per partition"
        )


def _batch_size(records: Buffer, position: int) -> int | None:
    """Return the size of the batch at a position; None if the batch is incomplete.

    Raises CorruptFrameError for an impossible size or magic (ByteBufferLogInputStream).
    """
    left = len(records) - position
    if left < LOG_OVERHEAD_BYTES:
        return None
    (length,) = _LENGTH.unpack_from(records, position)
    if length < _LEAST_LENGTH:
        raise CorruptFrameError(
            f"Record size {length} is less than the minimum record overhead ({_LEAST_LENGTH})"
        )
    if left <= MAGIC_POSITION:
        return None
    magic = records[position + MAGIC_POSITION]
    if magic > 2:
        signed = magic - 256 if magic > 127 else magic
        raise CorruptFrameError(f"Invalid magic found in record: {signed}")
    size_bytes: int = length + LOG_OVERHEAD_BYTES
    return size_bytes if size_bytes <= left else None


def _short_batch(records: Buffer, config: LogConfig) -> Exception:
    """Return the error for bytes that are shorter than a batch header.

    Raises the errors of `check_frame`.
    """
    check_frame(records)
    first = int.from_bytes(records[:8], "big", signed=True)
    if first:
        return InvalidRecordError(
            f"The baseOffset of the record batch should be 0, but it is {first}"
        )
    size_bytes = _LENGTH.unpack_from(records)[0] + LOG_OVERHEAD_BYTES
    if size_bytes > config.max_message_bytes:
        return too_large(size_bytes, config.max_message_bytes)
    return _too_short(size_bytes)


def _too_short(size_bytes: int) -> CorruptBatchError | UnreadableBatchError:
    reason = f"Record batch is corrupt (the size {size_bytes} is smaller than {HEADER_BYTES})"
    if size_bytes < _LEAST_BYTES_WITH_DELTA:
        return UnreadableFrameError(reason)
    return CorruptBatchError(reason)
