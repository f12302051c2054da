"""Deletes old segments by time, by size, and below the log start offset (Kafka's UnifiedLog)."""

from __future__ import annotations

from typing import NamedTuple

from storage.errors import OffsetOutOfRangeError, StorageError
from storage.partition_log import PartitionLog
from storage.segment import Segment


class DeletedSegment(NamedTuple):
    """A segment that retention deleted, and the rule in `reason`."""

    topic: str
    partition: int
    base_offset: int
    size_bytes: int
    reason: str


def delete_old_segments(log: PartitionLog, now_ms: int) -> list[DeletedSegment]:
    """Delete the oldest segments that retention does not keep, and return them.

    An expired active segment is also deleted, unless empty; a new segment replaces it. With
    `cleanup.policy=compact` only segments below the log start offset are deleted.

    Raises StorageError.
    """
    reasons: list[str] = []
    excess_bytes = log.size_bytes - log.config.retention_bytes
    for number, segment in enumerate(log.segments):
        reason = _reason_to_delete(log, number, segment, now_ms, excess_bytes)
        if reason is None or not segment.size_bytes:
            break
        reasons.append(reason)
        excess_bytes -= segment.size_bytes
    if not reasons:
        return []
    if len(reasons) == len(log.segments):
        log.roll(now_ms)
    deleted = [
        DeletedSegment(log.topic, log.partition, segment.base_offset, segment.size_bytes, reason)
        for segment, reason in zip(log.segments, reasons, strict=False)
    ]
    try:
        log.drop_first_segments(len(reasons))
    except OSError as error:
        raise StorageError(
            f"old segments of {log.topic}-{log.partition} cannot be deleted: {error}"
        ) from error
    counts = log.files.counts
    counts.deleted_segments += len(deleted)
    counts.deleted_bytes += sum(segment.size_bytes for segment in deleted)
    return deleted


def _reason_to_delete(
    log: PartitionLog, number: int, segment: Segment, now_ms: int, excess_bytes: int
) -> str | None:
    """Return the rule that deletes a segment; None if this and all later segments are kept."""
    config = log.config
    is_active = number + 1 == len(log.segments)
    if not is_active and log.segments[number + 1].base_offset <= log.log_start_offset:
        return "below the log start offset"
    if not config.deletes:
        return None
    newest_ms = segment.max_timestamp if segment.max_timestamp >= 0 else segment.created_ms
    if config.retention_ms >= 0 and now_ms - newest_ms > config.retention_ms:
        return "retention.ms"
    if config.retention_bytes >= 0 and excess_bytes - segment.size_bytes >= 0 and not is_active:
        return "retention.bytes"
    return None


def advance_log_start_offset(log: PartitionLog, offset: int) -> int:
    """Raise the log start offset to `offset` (DeleteRecords); return the log start offset.

    Raises OffsetOutOfRangeError beyond the high watermark. The next `delete_old_segments` deletes
    whole segments below; `LogManager.checkpoint` stores the new log start offset.
    """
    if not 0 <= offset <= log.high_watermark:
        raise OffsetOutOfRangeError(
            f"offset {offset} of {log.topic}-{log.partition} is beyond the high watermark "
            f"{log.high_watermark}"
        )
    log.log_start_offset = max(log.log_start_offset, offset)
    return log.log_start_offset
