"""Verifies one segment: every batch of its log, and its indexes against the log.

The log and its indexes are read in step, so memory use does not depend on the segment's size.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from coordinator_server.tools.dump_log import (
    Lines,
    offset_index_lines,
    time_index_lines,
)
from coordinator_server.tools.files import ReadOnlyFile, walk_log
from coordinator_server.tools.findings import Findings
from coordinator_server.tools.verify_transactions import TransactionCheck
from protocol.batch import iterate_records
from protocol.batch_header import NO_TIMESTAMP, BatchHeader
from protocol.compression import Compression
from protocol.errors import ProtocolError
from storage.batch_scan import Corruption
from storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX


class SegmentCheck:
    """The check of one segment.

    `epochs` are the pairs (leader epoch, first offset) of its partition. `transactions` has seen
    all segments before this one.
    """

    def __init__(
        self,
        findings: Findings,
        directory: Path,
        base_offset: int,
        epochs: list[tuple[int, int]],
        transactions: TransactionCheck,
    ) -> None:
        self.findings = findings
        self.base_offset = base_offset
        self.epochs = epochs
        self.transactions = transactions
        self.log_path = directory / f"{base_offset:020d}{LOG_SUFFIX}"

    def run(self) -> int:
        """Check the whole segment and return the offset after the last batch."""
        findings = self.findings
        findings.segments += 1
        with ReadOnlyFile(self.log_path) as file:
            findings.size_bytes += file.size_bytes
            offsets = IndexCheck(findings, self.log_path.with_suffix(INDEX_SUFFIX))
            times = TimeIndexCheck(findings, self.log_path.with_suffix(TIME_INDEX_SUFFIX))
            next_offset = self.base_offset
            for batch in walk_log(file, self.base_offset):
                if isinstance(batch, Corruption):
                    findings.error(self.log_path, f"position {batch.position}: {batch.reason}")
                    continue
                findings.batches += 1
                next_offset = batch.next_offset
                data = file.pread(batch.size_bytes, batch.position)
                self._check_records(data, batch)
                self._check_epoch(batch)
                self.transactions.take(batch, data)
                offsets.take(batch)
                times.take(batch)
            if file.size_bytes:
                offsets.finish()
                times.finish()
        self.transactions.finish_segment(self.log_path)
        return next_offset

    def _check_records(self, data: bytes, batch: BatchHeader) -> None:
        """Report differences between a batch's header and its records.

        These are: an unreadable payload, another record count than in the header, offsets that do
        not increase, and a maximum timestamp that differs from the records'.

        Brokers ignore the offsets in an uncompressed batch, so bad offsets there are only a note.
        Kafka's DumpLogSegments calls such a batch valid, and its offsets non-consecutive.
        """
        expected = batch.base_offset if batch.magic == 2 else -1
        largest_ms = NO_TIMESTAMP
        is_noted = False
        try:
            is_checked = batch.magic != 2 or batch.compression is not Compression.NONE
            for record in iterate_records(data, batch, batch.position):
                self.findings.records += 1
                largest_ms = max(largest_ms, record.timestamp_ms)
                if not expected <= record.offset <= batch.last_offset:
                    reason = f"position {batch.position}: a record of offset {record.offset}"
                    reason += f", {expected} or more was due"
                    if is_checked:
                        self.findings.error(self.log_path, reason)
                        return
                    if not is_noted:
                        self.findings.note(self.log_path, reason)
                    is_noted = True
                expected = record.offset + 1
        except ProtocolError as error:
            self.findings.error(self.log_path, f"position {batch.position}: {error}")
            return
        claimed_ms = batch.max_timestamp_ms
        if batch.magic == 2 and batch.record_count and claimed_ms != largest_ms:
            reason = (
                f"position {batch.position}: largest timestamp {claimed_ms} in the header, "
                f"{largest_ms} in the records"
            )
            # Compaction may have removed the record with the maximum timestamp.
            report = self.findings.error if claimed_ms < largest_ms else self.findings.note
            report(self.log_path, reason)

    def _check_epoch(self, batch: BatchHeader) -> None:
        """Check that the batch has the leader epoch that the checkpoint records for its offset."""
        epoch = None
        for number, start in self.epochs:
            if start <= batch.base_offset:
                epoch = number
        if batch.magic == 2 and epoch not in (None, batch.leader_epoch):
            reason = f"offset {batch.base_offset} has leader epoch {batch.leader_epoch}"
            self.findings.error(self.log_path, f"{reason}, the checkpoint says {epoch}")


class IndexCheck:
    """An offset index, read in step with its log.

    Each entry holds the last offset of a batch and the position where the batch begins.
    """

    def __init__(self, findings: Findings, path: Path) -> None:
        self.findings = findings
        self.path = path
        self._lines = self._read()
        self._entry = next(self._lines, None)

    def lines_of(self, file: ReadOnlyFile) -> Lines:
        """Return the entries of an index file."""
        return offset_index_lines(file)

    def _read(self) -> Iterator[tuple[int, int]]:
        if not self.path.exists():
            self.findings.note(self.path, "is missing; it is rebuilt when it is needed")
            return
        last: tuple[int, int] | None = None
        with ReadOnlyFile(self.path) as file:
            for line in self.lines_of(file):
                if line["kind"] == "damage":
                    self.findings.error(self.path, f"{line['reason']} at {line['position']}")
                    continue
                self.findings.index_entries += 1
                _, first, second = line.values()
                if last is not None and (first <= last[0] or second < last[1]):
                    self.findings.error(self.path, f"{(first, second)} follows {last}")
                last = (first, second)
                yield last

    def take(self, batch: BatchHeader) -> None:
        """Compare the index entries for this batch with the batch."""
        while self._entry is not None and self._entry[1] <= batch.position:
            offset, position = self._entry
            if position != batch.position or offset != batch.last_offset:
                reason = f"offset {offset} at {position}, where no batch with that end begins"
                self.findings.error(self.path, reason)
            self._entry = next(self._lines, None)

    def finish(self) -> None:
        """Report the remaining index entries, which point behind the end of the log."""
        while self._entry is not None:
            self.findings.error(self.path, f"entry {self._entry} lies behind the end of the log")
            self._entry = next(self._lines, None)


class TimeIndexCheck(IndexCheck):
    """A time index, read in step with its log.

    Each entry holds the largest timestamp up to a batch, and an offset in this batch.
    """

    def __init__(self, findings: Findings, path: Path) -> None:
        super().__init__(findings, path)
        self._largest = -1

    def lines_of(self, file: ReadOnlyFile) -> Lines:
        """Return the entries of an index file."""
        return time_index_lines(file)

    def take(self, batch: BatchHeader) -> None:
        """Compare the index entries whose offset lies in this batch with the batch."""
        earlier, self._largest = self._largest, max(self._largest, batch.max_timestamp_ms)
        while self._entry is not None and self._entry[1] <= batch.last_offset:
            timestamp_ms, offset = self._entry
            if timestamp_ms != batch.max_timestamp_ms or timestamp_ms < earlier:
                reason = (
                    f"{timestamp_ms} at offset {offset}, whose batch has {batch.max_timestamp_ms}"
                )
                self.findings.error(self.path, f"{reason}; {self._largest} is the largest so far")
            self._entry = next(self._lines, None)
