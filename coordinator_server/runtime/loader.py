"""Reads the log of a coordinator partition from start to end, in steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.events.log import LOG
from protocol.batch_header import iterate_batches
from protocol.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.batch_header import BatchHeader
    from storage.partition_log import PartitionLog

STEP_BYTES = 128 * 1024
"""Log bytes that one step reads."""


class LogReader:
    """Reads a log to its end. The caller advances `offset`, the start of the next chunk."""

    __slots__ = ("_log", "offset")

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self.offset = log.log_start_offset

    def chunks(self) -> Iterator[bytes]:
        """Yield chunks of whole batches; the caller processes each chunk in one or more steps.

        Raises StorageError if the log cannot be read, ProtocolError if the log has bytes that are
        no batch.
        """
        log = self._log
        while self.offset < log.log_end_offset:
            start = self.offset
            data = log.read(start, STEP_BYTES)
            yield data
            if self.offset == start:
                raise ProtocolError(f"no whole batch at offset {start}")

    def batches(self, data: bytes) -> Iterator[BatchHeader]:
        """Yield the batch headers of a chunk, and advance `offset` past each processed batch."""
        for header in iterate_batches(data):
            yield header
            self.offset = header.last_offset + 1


class SkippedRecords:
    """Counts the records of a partition that cannot be loaded, to log them in one event."""

    __slots__ = ("_count", "_reason")

    def __init__(self) -> None:
        self._count = 0
        self._reason = ""

    def add(self, reason: str, count: int = 1) -> None:
        """Add `count` skipped records; the last reason is logged."""
        if count:
            self._count += count
            self._reason = reason

    def log(self, topic: str, partition: int) -> None:
        """Log the number of skipped records, if any."""
        if self._count:
            LOG.emit(
                "records.skipped",
                topic=topic,
                partition=partition,
                records=self._count,
                reason=self._reason,
            )
