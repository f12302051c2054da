"""The errors of storage, each with the Kafka error code for the client.

The handler that called the log copies the error code into the response.
"""

from __future__ import annotations

import errno
from typing import ClassVar

from protocol.errors import ErrorCode


class StorageError(Exception):
    """The base of all storage errors; raised directly if the disk failed (KAFKA_STORAGE_ERROR).

    `record_errors` has the rejected records as (index in the batch, reason), for Produce v8+
    (KIP-467).
    """

    code: ClassVar[ErrorCode] = ErrorCode.KAFKA_STORAGE_ERROR

    def __init__(self, message: str, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.record_errors = record_errors


class DataDirectoryLockedError(StorageError):
    """Another broker uses the data directory."""


class LogOfflineError(StorageError):
    """The log was closed, for example after a disk error, and takes no more requests."""


class CorruptBatchError(StorageError):
    """A batch with malformed bytes or a wrong CRC (CORRUPT_MESSAGE)."""

    code = ErrorCode.CORRUPT_MESSAGE


class InvalidRecordError(StorageError):
    """A well-formed batch that this log does not accept (INVALID_RECORD)."""

    code = ErrorCode.INVALID_RECORD


class InvalidFrameError(InvalidRecordError):
    """Bytes that are not exactly one batch of format 2 (INVALID_RECORD)."""


class CorruptFrameError(CorruptBatchError):
    """Bytes with an impossible size or magic (CORRUPT_MESSAGE)."""


class UnreadableBatchError(StorageError):
    """A batch for which Kafka fails with an unspecific error (UNKNOWN_SERVER_ERROR).

    The payload cannot be decompressed, the codec is unknown, or the offsets of compressed records
    have gaps.
    """

    code = ErrorCode.UNKNOWN_SERVER_ERROR


class UnreadableFrameError(UnreadableBatchError):
    """A batch that is too short to contain its offsets (UNKNOWN_SERVER_ERROR)."""


class InvalidTimestampError(StorageError):
    """A timestamp too far from the broker's clock (INVALID_TIMESTAMP)."""

    code = ErrorCode.INVALID_TIMESTAMP


class MessageTooLargeError(StorageError):
    """A batch above `max.message.bytes` (MESSAGE_TOO_LARGE)."""

    code = ErrorCode.MESSAGE_TOO_LARGE


def too_large(size_bytes: int, most_bytes: int) -> MessageTooLargeError:
    """Return the error of a batch above `max.message.bytes`."""
    return MessageTooLargeError(
        f"The record batch size is {size_bytes} bytes which exceeds the maximum configured value "
        f"of {most_bytes}"
    )


class RecordListTooLargeError(StorageError):
    """A batch larger than `segment.bytes` (RECORD_LIST_TOO_LARGE)."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE


class OffsetOutOfRangeError(StorageError):
    """An offset below the log start or above the log end (OFFSET_OUT_OF_RANGE)."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class OutOfOrderSequenceError(StorageError):
    """An idempotent producer skipped or repeated a sequence (OUT_OF_ORDER_SEQUENCE_NUMBER)."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpochError(StorageError):
    """A batch with an old producer epoch (INVALID_PRODUCER_EPOCH)."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTxnStateError(StorageError):
    """A non-transactional batch of a producer with an open transaction (INVALID_TXN_STATE)."""

    code = ErrorCode.INVALID_TXN_STATE


class TransactionCoordinatorFencedError(StorageError):
    """A marker with an old coordinator epoch (TRANSACTION_COORDINATOR_FENCED)."""

    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class TopicConfigError(StorageError):
    """A config of a topic or a group with an unknown name or a bad value (INVALID_CONFIG)."""

    code = ErrorCode.INVALID_CONFIG


class UnknownPartitionError(StorageError):
    """A topic or partition that does not exist (UNKNOWN_TOPIC_OR_PARTITION)."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class TopicExistsError(StorageError):
    """A topic with this name exists (TOPIC_ALREADY_EXISTS)."""

    code = ErrorCode.TOPIC_ALREADY_EXISTS


_ADVICE = {
    errno.ENOSPC: "make room on the volume; the partition goes on by itself then",
    errno.EDQUOT: "raise the quota; the partition goes on by itself then",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f), or lower segment.bytes",
    errno.EACCES: "give the broker's user the right to write there",
    errno.EPERM: "give the broker's user the right to write there",
    errno.EROFS: "mount the volume for writing; a file system that found errors turns read-only",
    errno.EIO: "check the disk; the other partitions go on",
    errno.ENOENT: "files of the data directory are gone: put them back, or delete the topic",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
}


def advice(error: OSError) -> str:
    """Return the error's text, with advice for the operator if the error is known."""
    known = _ADVICE.get(error.errno or 0)
    return str(error) if known is None else f"{error} ({known})"
