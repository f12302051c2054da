"""Checking one segment: its log from the first byte to the last, and its indexes against it.

Log and indexes are walked side by side, so a segment of any size needs no memory.
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
    """The check of one segment; `epochs` are (leader epoch, first offset) of its partition, and
    `transactions` has seen the segments before it."""

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
        """Read everything; returns the offset after the last batch."""
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
        """Report an unreadable payload, another count of records than the header has, offsets that
        do not rise inside the batch, and a largest timestamp that is not that of the records.

        Brokers do not look at the offsets in an uncompressed batch. Such offsets are a note.
        Kafka's DumpLogSegments calls the batch valid, and the offsets non-consecutive.
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
            # Compaction may have removed the record with the largest one.
            report = self.findings.error if claimed_ms < largest_ms else self.findings.note
            report(self.log_path, reason)

    def _check_epoch(self, batch: BatchHeader) -> None:
        """A batch bears the epoch that the checkpoint has for its offset."""
        epoch = None
        for number, start in self.epochs:
            if start <= batch.base_offset:
                epoch = number
        if batch.magic == 2 and epoch not in (None, batch.leader_epoch):
            reason = f"offset {batch.base_offset} has leader epoch {batch.leader_epoch}"
            self.findings.error(self.log_path, f"{reason}, the checkpoint says {epoch}")


class IndexCheck:
    """An offset index walked beside its log: an entry is the last offset of a batch, and where that
    batch begins."""

    def __init__(self, findings: Findings, path: Path) -> None:
        self.findings = findings
        self.path = path
        self._lines = self._read()
        self._entry = next(self._lines, None)

    def lines_of(self, file: ReadOnlyFile) -> Lines:
        """The entries of the file."""
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
        """Compare the entries that speak of this batch."""
        while self._entry is not None and self._entry[1] <= batch.position:
            offset, position = self._entry
            if position != batch.position or offset != batch.last_offset:
                reason = f"offset {offset} at {position}, where no batch with that end begins"
                self.findings.error(self.path, reason)
            self._entry = next(self._lines, None)

    def finish(self) -> None:
        """What is left speaks of nothing that is in the log."""
        while self._entry is not None:
            self.findings.error(self.path, f"entry {self._entry} lies behind the end of the log")
            self._entry = next(self._lines, None)


class TimeIndexCheck(IndexCheck):
    """A time index walked beside its log: an entry is the largest timestamp so far, and an offset
    in the batch that has it."""

    def __init__(self, findings: Findings, path: Path) -> None:
        super().__init__(findings, path)
        self._largest = -1

    def lines_of(self, file: ReadOnlyFile) -> Lines:
        """The entries of the file."""
        return time_index_lines(file)

    def take(self, batch: BatchHeader) -> None:
        """Compare the entries whose offset lies in this batch."""
        earlier, self._largest = self._largest, max(self._largest, batch.max_timestamp_ms)
        while self._entry is not None and self._entry[1] <= batch.last_offset:
            timestamp_ms, offset = self._entry
            if timestamp_ms != batch.max_timestamp_ms or timestamp_ms < earlier:
                reason = (
                    f"{timestamp_ms} at offset {offset}, whose batch has {batch.max_timestamp_ms}"
                )
                self.findings.error(self.path, f"{reason}; {self._largest} is the largest so far")
            self._entry = next(self._lines, None)
