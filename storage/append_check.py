"""What a client's Produce may put into a log, and the stamps it gets (Kafka's LogValidator).

A batch is judged by its header and its CRC. Its records are opened only where a rule needs them:
keys in a compacted topic, `message.timestamp.before.max.ms`, another `compression.type`.
"""

from __future__ import annotations

from typing import NamedTuple

from protocol.batch_layout import (
    BEFORE_CRC,
    COMPRESSION_MASK,
    CONTROL,
    CRC_POSITION,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
)
from protocol.crc32c import crc32c
from storage.batch_scan import StoredBatch, parse_header
from storage.config_def import LONG_MAX
from storage.disk import Buffer
from storage.errors import (
    CorruptBatchError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
)
from storage.log_config import LogConfig
from storage.records import CODECS, recompressed, walk_records

# The largest of the codec numbers.
ZSTD = CODECS["zstd"]
NO_TIMESTAMP = -1
# Kafka names at most the first three bad records in the batch's message.
RECORD_ERRORS_SHOWN = 3


class CheckedBatch(NamedTuple):
    """A batch fit for the log: its CRC, the bytes behind it, and what the log needs to know."""

    crc: int
    body: bytes
    attributes: int
    last_offset_delta: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    log_append_time_ms: int


def check_client_batch(
    records: Buffer, config: LogConfig, now_ms: int, topic: str, partition: int
) -> CheckedBatch:
    """Return the one batch of a Produce v3+ request for one partition, ready to be written.

    Raises the StorageError that Kafka would answer: InvalidRecordError, CorruptBatchError,
    MessageTooLargeError, InvalidTimestampError.
    """
    if len(records) < HEADER_BYTES:
        raise _no_batch(records)
    (
        base_offset,
        length,
        _,
        magic,
        crc,
        attributes,
        last_offset_delta,
        _,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) = HEADER.unpack_from(records)
    size_bytes = length + LOG_OVERHEAD_BYTES
    if magic != 2 or size_bytes != len(records):
        raise _wrong_frame(magic, size_bytes, len(records))
    if base_offset != 0:
        raise InvalidRecordError(
            f"The baseOffset of the record batch should be 0, but it is {base_offset}"
        )
    if size_bytes > config.max_message_bytes:
        raise _too_large(size_bytes, config.max_message_bytes)
    body = bytes(records[CRC_START:])
    if crc32c(body) != crc:
        raise CorruptBatchError(
            f"Record is corrupt (stored crc = {crc}, computed crc = {crc32c(body)})"
        )
    if count <= 0 or last_offset_delta + 1 != count:
        raise InvalidRecordError(
            f"Inconsistent batch offset range [0, {last_offset_delta}] and count of records {count}"
        )
    if attributes & COMPRESSION_MASK > ZSTD:
        raise InvalidRecordError(f"Unknown compression type id: {attributes & COMPRESSION_MASK}")
    if attributes & CONTROL:
        raise InvalidRecordError("Clients are not allowed to write control records")
    if producer_id >= 0 and base_sequence < 0:
        raise InvalidRecordError(
            f"Invalid sequence number {base_sequence} in record batch with producerId {producer_id}"
        )
    checked = CheckedBatch(
        crc,
        body,
        attributes,
        last_offset_delta,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        -1,
    )
    if config.compacts:
        _check_keys(checked, topic, partition)
    return _apply_topic_rules(checked, config, now_ms)


def own_batches(data: bytes, base_offset: int, max_message_bytes: int) -> list[StoredBatch]:
    """Return the headers of the broker's own batches, with the offsets that they will get.

    MessageTooLargeError as for clients: what is above `max.message.bytes` not everyone could fetch.
    """
    batches: list[StoredBatch] = []
    position = 0
    while position < len(data):
        batch = parse_header(data, position, position)
        assert batch.magic == 2, batch
        assert position + batch.size_bytes <= len(data), batch
        if batch.size_bytes > max_message_bytes:
            raise _too_large(batch.size_bytes, max_message_bytes)
        last_offset = base_offset + batch.last_offset_delta
        batches.append(batch._replace(base_offset=base_offset, last_offset=last_offset))
        base_offset = last_offset + 1
        position += batch.size_bytes
    assert batches, "an append without a batch"
    return batches


def stamped(data: bytes, batches: list[StoredBatch], leader_epoch: int) -> list[Buffer]:
    """Return what to write of the broker's own batches: offsets and leader epoch put in front."""
    buffers: list[Buffer] = []
    for batch in batches:
        at = batch.position
        crc = int.from_bytes(data[at + CRC_POSITION : at + CRC_START], "big")
        length = batch.size_bytes - LOG_OVERHEAD_BYTES
        buffers.append(BEFORE_CRC.pack(batch.base_offset, length, leader_epoch, 2, crc))
        buffers.append(data[at + CRC_START : at + batch.size_bytes])
    return buffers


def _too_large(size_bytes: int, max_message_bytes: int) -> MessageTooLargeError:
    return MessageTooLargeError(
        f"The record batch size is {size_bytes} bytes which exceeds the maximum configured value "
        f"of {max_message_bytes}"
    )


def _apply_topic_rules(batch: CheckedBatch, config: LogConfig, now_ms: int) -> CheckedBatch:
    """Check timestamps and stamp or recompress, as far as the topic's settings ask for."""
    if config.compression_type != "producer":
        codec = CODECS[config.compression_type]
        if codec != batch.attributes & COMPRESSION_MASK:
            batch = _with_body(batch, recompressed(batch.body, codec))
    if config.message_timestamp_type == "LogAppendTime":
        return _stamped(batch, now_ms)
    if batch.max_timestamp > now_ms + config.message_timestamp_after_max_ms:
        raise InvalidTimestampError(
            "One or more records have been rejected due to invalid timestamp",
            _records_outside(batch, LONG_MAX, config.message_timestamp_after_max_ms, now_ms),
        )
    if config.message_timestamp_before_max_ms != LONG_MAX:
        errors = _records_outside(
            batch,
            config.message_timestamp_before_max_ms,
            config.message_timestamp_after_max_ms,
            now_ms,
        )
        if errors:
            raise InvalidTimestampError(
                "One or more records have been rejected due to invalid timestamp", errors
            )
    if batch.attributes & LOG_APPEND_TIME:  # the topic decides, not the producer
        attributes = batch.attributes & ~LOG_APPEND_TIME
        return _with_body(batch, attributes.to_bytes(2, "big", signed=True) + batch.body[2:])
    return batch


def _stamped(batch: CheckedBatch, now_ms: int) -> CheckedBatch:
    """Return the batch with the broker's time as its timestamp."""
    attributes = batch.attributes | LOG_APPEND_TIME
    body = (
        attributes.to_bytes(2, "big", signed=True)
        + batch.body[2:14]
        + now_ms.to_bytes(8, "big", signed=True)
        + batch.body[22:]
    )
    return _with_body(batch, body)._replace(max_timestamp=now_ms, log_append_time_ms=now_ms)


def _with_body(batch: CheckedBatch, body: bytes) -> CheckedBatch:
    attributes = int.from_bytes(body[:2], "big", signed=True)
    return batch._replace(crc=crc32c(body), body=body, attributes=attributes)


def _check_keys(batch: CheckedBatch, topic: str, partition: int) -> None:
    reason = (
        f"Compacted topic cannot accept message without key in topic partition {topic}-{partition}"
    )
    errors = tuple(
        (index, reason)
        for index, record in enumerate(walk_records(batch.body))
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


def _records_outside(
    batch: CheckedBatch, before_max_ms: int, after_max_ms: int, now_ms: int
) -> tuple[tuple[int, str], ...]:
    """Return the records whose timestamp is too old or too far ahead, with the reason."""
    base_timestamp = int.from_bytes(batch.body[6:14], "big", signed=True)
    errors: list[tuple[int, str]] = []
    for index, record in enumerate(walk_records(batch.body)):
        timestamp = base_timestamp + record[2]
        if timestamp == NO_TIMESTAMP:
            continue
        if now_ms - timestamp > before_max_ms or timestamp - now_ms > after_max_ms:
            errors.append(
                (
                    index,
                    f"Timestamp {timestamp} of message with offset {index} is out of "
                    f"range. The timestamp should be within [{now_ms - before_max_ms}, "
                    f"{now_ms + after_max_ms}]",
                )
            )
    return tuple(errors)


def _no_batch(records: Buffer) -> InvalidRecordError | CorruptBatchError:
    if len(records) > 16 and not 0 <= records[16] <= 2:
        return CorruptBatchError(f"Invalid magic found in record: {records[16]}")
    return InvalidRecordError("Produce requests must have exactly one record batch per partition")


def _wrong_frame(magic: int, size_bytes: int, given: int) -> InvalidRecordError | CorruptBatchError:
    if not 0 <= magic <= 2:
        return CorruptBatchError(f"Invalid magic found in record: {magic}")
    if magic != 2:
        return InvalidRecordError(
            "Produce requests with version 3 or newer are only allowed to contain record batches "
            "with magic version 2"
        )
    if size_bytes < HEADER_BYTES:
        return CorruptBatchError(f"Record size {size_bytes} is less than the minimum")
    if size_bytes > given:
        return InvalidRecordError("The record batch is cut short")
    return InvalidRecordError(
        "Produce requests with version 3 or newer are only allowed to contain exactly one record "
        "batch per partition"
    )
