"""What can go wrong with bytes at rest, each error with the Kafka error code a client gets for it.

Raised by the log and mapped to an answer at one place (the handler that called the log), so the
code travels with the error instead of being guessed from its type.
"""

from __future__ import annotations

import errno
from typing import ClassVar

from protocol.errors import ErrorCode


class StorageError(Exception):
    """The base of all storage errors; by itself: the disk failed (KAFKA_STORAGE_ERROR).

    `record_errors` names single records that were refused, as (index in the batch, reason); Produce
    v8+ hands them to the client (KIP-467).
    """

    code: ClassVar[ErrorCode] = ErrorCode.KAFKA_STORAGE_ERROR

    def __init__(self, message: str, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.record_errors = record_errors


class DataDirectoryLockedError(StorageError):
    """Another broker uses the data directory."""


class LogOfflineError(StorageError):
    """The partition met a disk error it could not undo; it takes no more requests."""


class CorruptBatchError(StorageError):
    """A batch whose bytes or CRC are wrong (CORRUPT_MESSAGE)."""

    code = ErrorCode.CORRUPT_MESSAGE


class InvalidRecordError(StorageError):
    """A well-formed batch that this log may not take (INVALID_RECORD)."""

    code = ErrorCode.INVALID_RECORD


class InvalidFrameError(InvalidRecordError):
    """Bytes that are not one whole batch of format 2; they never reach the log (INVALID_RECORD)."""


class CorruptFrameError(CorruptBatchError):
    """Bytes with an impossible size or magic; the client gets the message (CORRUPT_MESSAGE)."""


class UnreadableBatchError(StorageError):
    """A batch at which Kafka fails with an error that has no code (UNKNOWN_SERVER_ERROR).

    Its payload cannot be decompressed, its codec does not exist, or the offsets of its compressed
    records have gaps.
    """

    code = ErrorCode.UNKNOWN_SERVER_ERROR


class UnreadableFrameError(UnreadableBatchError):
    """A batch that ends before its offsets; it never reaches the log (UNKNOWN_SERVER_ERROR)."""


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
    """A batch that fits no segment of this topic (RECORD_LIST_TOO_LARGE)."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE


class OffsetOutOfRangeError(StorageError):
    """An offset below the log start or above the log end (OFFSET_OUT_OF_RANGE)."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class OutOfOrderSequenceError(StorageError):
    """An idempotent producer skipped or repeated a sequence (OUT_OF_ORDER_SEQUENCE_NUMBER)."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpochError(StorageError):
    """A batch of an older epoch of its producer id (INVALID_PRODUCER_EPOCH)."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTxnStateError(StorageError):
    """A plain batch of a producer whose transaction is open (INVALID_TXN_STATE)."""

    code = ErrorCode.INVALID_TXN_STATE


class TransactionCoordinatorFencedError(StorageError):
    """A marker of a coordinator that a later one has replaced (TRANSACTION_COORDINATOR_FENCED)."""

    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class TopicConfigError(StorageError):
    """A config of a topic or a group with an unknown name or a bad value (INVALID_CONFIG)."""

    code = ErrorCode.INVALID_CONFIG


class UnknownPartitionError(StorageError):
    """A topic or partition that the data directory does not hold (UNKNOWN_TOPIC_OR_PARTITION)."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class TopicExistsError(StorageError):
    """A topic with this name is there already, or still being deleted (TOPIC_ALREADY_EXISTS)."""

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
    """Return the error's text, and what an operator can do about it."""
    known = _ADVICE.get(error.errno or 0)
    return str(error) if known is None else f"{error} ({known})"
