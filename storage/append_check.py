"""What a client's Produce may put into a log, and the stamps it gets (Kafka's LogValidator).

A batch is judged by its header and its CRC. Its records are opened only where a rule needs them:
keys in a compacted topic, `message.timestamp.before.max.ms`, another `compression.type`. Batches
that the broker built itself do not come here; of theirs only the size is checked.
"""

from __future__ import annotations

from protocol.batch import rebuilt_batch
from protocol.batch_header import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    NO_TIMESTAMP,
    BatchHeader,
    unpack_header,
)
from protocol.compression import Compression, compress
from protocol.crc32c import crc32c
from protocol.errors import ProtocolError
from protocol.raw_records import batch_records, records_section
from storage.config_def import LONG_MAX
from storage.disk import Buffer
from storage.errors import (
    CorruptBatchError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
)
from storage.log_config import LogConfig

# Kafka names at most the first three bad records in the batch's message.
RECORD_ERRORS_SHOWN = 3
# What the body of a batch, which the CRC covers, has of the header.
_BODY_HEADER_BYTES = HEADER_BYTES - CRC_START


def check_client_batch(
    records: Buffer, config: LogConfig, now_ms: int, topic: str, partition: int
) -> tuple[BatchHeader, bytes]:
    """Return the one batch of a Produce v3+ request for one partition, ready to be written: its
    header, and the body that the CRC covers.

    Raises the StorageError that Kafka would answer: InvalidRecordError, CorruptBatchError,
    MessageTooLargeError, InvalidTimestampError.
    """
    if len(records) < HEADER_BYTES:
        raise _no_batch(records)
    header = unpack_header(records)
    # Taken apart at once: that costs as much as three of its fields by their names.
    first, length, _, magic, crc, attributes, delta, _, _, producer_id, _, sequence, count, _ = (
        header
    )
    size_bytes = length + LOG_OVERHEAD_BYTES
    if magic != 2 or size_bytes != len(records):
        raise _wrong_frame(magic, size_bytes, len(records))
    if first != 0:
        raise InvalidRecordError(
            f"The baseOffset of the record batch should be 0, but it is {first}"
        )
    if size_bytes > config.max_message_bytes:
        raise too_large(size_bytes, config)
    body = bytes(records[CRC_START:])
    computed_crc = crc32c(body)
    if computed_crc != crc:
        raise CorruptBatchError(
            f"Record is corrupt (stored crc = {crc}, computed crc = {computed_crc})"
        )
    if count <= 0 or delta + 1 != count:
        raise InvalidRecordError(
            f"Inconsistent batch offset range [0, {delta}] and count of records {count}"
        )
    if attributes & COMPRESSION_MASK > Compression.ZSTD:
        raise InvalidRecordError(f"Unknown compression type id: {attributes & COMPRESSION_MASK}")
    if attributes & CONTROL:
        raise InvalidRecordError("Clients are not allowed to write control records")
    if producer_id >= 0 and sequence < 0:
        raise InvalidRecordError(
            f"Invalid sequence number {sequence} in record batch with producerId {producer_id}"
        )
    try:
        if config.compacts:
            _check_keys(records, header, topic, partition)
        return _with_topic_rules(records, header, body, config, now_ms)
    except ProtocolError as error:
        raise CorruptBatchError(f"the records of a batch cannot be read: {error}") from error


def too_large(size_bytes: int, config: LogConfig) -> MessageTooLargeError:
    """Return the error of a batch above `max.message.bytes`."""
    return MessageTooLargeError(
        f"The record batch size is {size_bytes} bytes which exceeds the maximum configured value "
        f"of {config.max_message_bytes}"
    )


def _with_topic_rules(
    records: Buffer, header: BatchHeader, body: bytes, config: LogConfig, now_ms: int
) -> tuple[BatchHeader, bytes]:
    """Check timestamps; stamp or recompress the batch, as far as the topic's settings ask for."""
    changed, section = header, None
    if config.compression_type != "producer":
        codec = _codec(config)
        if codec is not header.compression:
            section = compress(codec, records_section(records, header))
            attributes = header.attributes & ~COMPRESSION_MASK | codec
            changed = header._replace(attributes=attributes)
    if config.message_timestamp_type == "LogAppendTime":
        attributes = changed.attributes | LOG_APPEND_TIME
        changed = changed._replace(attributes=attributes, max_timestamp_ms=now_ms)
    else:
        is_ahead = header.max_timestamp_ms > now_ms + config.message_timestamp_after_max_ms
        if is_ahead or config.message_timestamp_before_max_ms != LONG_MAX:
            _check_timestamps(records, header, config, now_ms, is_ahead)
        if header.attributes & LOG_APPEND_TIME:  # the topic decides, not the producer
            changed = changed._replace(attributes=changed.attributes & ~LOG_APPEND_TIME)
    if changed is header:
        return header, body
    rebuilt = rebuilt_batch(changed, body[_BODY_HEADER_BYTES:] if section is None else section)
    return rebuilt.header, rebuilt.body


def _codec(config: LogConfig) -> Compression:
    name = config.compression_type
    return Compression.NONE if name == "uncompressed" else Compression[name.upper()]


def _check_keys(records: Buffer, header: BatchHeader, topic: str, partition: int) -> None:
    reason = (
        f"Compacted topic cannot accept message without key in topic partition {topic}-{partition}"
    )
    errors = tuple(
        (index, reason)
        for index, record in enumerate(batch_records(records, header))
        if record[4] is None
    )
    if errors:
        shown = (
            f"RecordError(batchIndex={index}, message='{reason}')"
            for index, reason in errors[:RECORD_ERRORS_SHOWN]
        )
        raise InvalidRecordError(
            f"One or more records have been rejected due to {len(errors)} record errors in total, "
            "and only showing the first three errors at most: "
            f"[{', '.join(shown)}]",
            errors,
        )


def _check_timestamps(
    records: Buffer, header: BatchHeader, config: LogConfig, now_ms: int, is_ahead: bool
) -> None:
    """Raise InvalidTimestampError, with the records that are too old or too far ahead.

    `is_ahead`: the header says that one is too far ahead, which is reason enough.
    """
    before_max_ms = LONG_MAX if is_ahead else config.message_timestamp_before_max_ms
    after_max_ms = config.message_timestamp_after_max_ms
    errors: list[tuple[int, str]] = []
    for index, record in enumerate(batch_records(records, header)):
        timestamp_ms = header.base_timestamp_ms + record[2]
        if timestamp_ms == NO_TIMESTAMP:
            continue
        if now_ms - timestamp_ms > before_max_ms or timestamp_ms - now_ms > after_max_ms:
            errors.append(
                (
                    index,
                    f"Timestamp {timestamp_ms} of message with offset {index} is out of "
                    f"range. The timestamp should be within [{now_ms - before_max_ms}, "
                    f"{now_ms + after_max_ms}]",
                )
            )
    if errors or is_ahead:
        raise InvalidTimestampError(
            "One or more records have been rejected due to invalid timestamp", tuple(errors)
        )


def _no_batch(records: Buffer) -> InvalidRecordError | CorruptBatchError:
    if len(records) > MAGIC_POSITION and records[MAGIC_POSITION] > 2:
        return CorruptBatchError(f"Invalid magic found in record: {records[MAGIC_POSITION]}")
    return InvalidRecordError("Produce requests must have exactly one record batch per partition")


def _wrong_frame(
    magic: int, size_bytes: int, claimed_bytes: int
) -> InvalidRecordError | CorruptBatchError:
    if not 0 <= magic <= 2:
        return CorruptBatchError(f"Invalid magic found in record: {magic}")
    if magic != 2:
        return InvalidRecordError(
            "Produce requests with version 3 or newer are only allowed to contain record batches "
            "with magic version 2"
        )
    if size_bytes < HEADER_BYTES:
        return CorruptBatchError(f"Record size {size_bytes} is less than the minimum")
    if size_bytes > claimed_bytes:
        return InvalidRecordError("The record batch is cut short")
    return InvalidRecordError(
        "Produce requests with version 3 or newer are only allowed to contain exactly one record "
        "batch per partition"
    )
