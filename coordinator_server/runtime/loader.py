"""Reading the log of a coordinator's partition from its start to its end, in steps."""

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
"""What one step reads."""


class LogReader:
    """Reads a log to its end. `offset` is where the next step begins: the caller moves it on."""

    __slots__ = ("_log", "offset")

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self.offset = log.log_start_offset

    def chunks(self) -> Iterator[bytes]:
        """Whole batches, some at a time; work through each in one step or several.

        Raises StorageError when the log cannot be read, ProtocolError where it holds no batch.
        """
        log = self._log
        while self.offset < log.log_end_offset:
            start = self.offset
            data = log.read(start, STEP_BYTES)
            yield data
            if self.offset == start:
                raise ProtocolError(f"no whole batch at offset {start}")

    def batches(self, data: bytes) -> Iterator[BatchHeader]:
        """The batches of a chunk; each counts as read when the next one is asked for."""
        for header in iterate_batches(data):
            yield header
            self.offset = header.last_offset + 1


class SkippedRecords:
    """Counts the records of a partition that cannot be loaded, to report all of them as one."""

    __slots__ = ("_count", "_reason")

    def __init__(self) -> None:
        self._count = 0
        self._reason = ""

    def add(self, reason: str, count: int = 1) -> None:
        """Count records; the last reason is reported."""
        if count:
            self._count += count
            self._reason = reason

    def log(self, topic: str, partition: int) -> None:
        """Log how many were skipped, if any were."""
        if self._count:
            LOG.emit(
                "records.skipped",
                topic=topic,
                partition=partition,
                records=self._count,
                reason=self._reason,
            )
