"""Verifies transaction indexes: their entries are exactly the aborted transactions of the log.

A transaction may span segments, so one check follows all segments of a partition. Compaction and
retention remove records but leave the index entry: the entry may begin before the remaining
records, or all its records may be gone. The abort marker exists as long as the entry does.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from coordinator_server.tools.dump_log import transaction_index_lines
from coordinator_server.tools.files import ReadOnlyFile
from coordinator_server.tools.findings import Findings
from protocol.batch_header import BatchHeader
from protocol.control_record import end_marker_of
from protocol.errors import ProtocolError
from storage.segment import INDEX_SUFFIX
from storage.transaction_index import TRANSACTION_INDEX_SUFFIX


class _Abort(NamedTuple):
    """An abort marker in a log.

    `first_offset` is the offset of the transaction's first remaining record, or -1 if none remains.
    """

    producer_id: int
    first_offset: int


class TransactionCheck:
    """Tracks the transactions of one partition while its segments are read in order."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._open: dict[int, int] = {}
        # The abort markers of the current segment, by offset.
        self._aborts: dict[int, _Abort] = {}

    def take(self, batch: BatchHeader, data: bytes) -> None:
        """Record the next batch. Unreadable control records are reported elsewhere."""
        if batch.producer_id < 0:
            return
        if not batch.is_control:
            if batch.is_transactional:
                self._open.setdefault(batch.producer_id, batch.base_offset)
            return
        try:
            marker = end_marker_of(data, batch, batch.position)
        except ProtocolError:
            return
        if marker is None:
            return
        first_offset = self._open.pop(batch.producer_id, -1)
        if not marker.commits:
            self._aborts[batch.last_offset] = _Abort(batch.producer_id, first_offset)

    def finish_segment(self, log_path: Path) -> None:
        """Compare the finished segment's transaction index with its abort markers."""
        aborts, self._aborts = self._aborts, {}
        path = log_path.with_suffix(TRANSACTION_INDEX_SUFFIX)
        if path.exists():
            self._compare(path, aborts)
        for offset, abort in aborts.items():
            if abort.first_offset < 0:
                continue  # no record of the transaction remains
            reason = (
                f"the transaction of producer {abort.producer_id} from {abort.first_offset} on, "
                f"aborted at {offset}, is not listed"
            )
            if log_path.with_suffix(INDEX_SUFFIX).exists():
                self._findings.error(path, reason)
            else:
                self._findings.note(path, f"{reason}; all indexes are rebuilt at the next start")

    def _compare(self, path: Path, aborts: dict[int, _Abort]) -> None:
        """Check every index entry; matching abort markers are removed from `aborts`."""
        last = -1
        with ReadOnlyFile(path) as file:
            for line in transaction_index_lines(file):
                if line["kind"] == "damage":
                    self._findings.error(path, f"position {line['position']}: {line['reason']}")
                    continue
                self._findings.index_entries += 1
                first_offset, offset = line["first_offset"], line["last_offset"]
                entry = f"offsets {first_offset} to {offset} of producer {line['producer_id']}"
                abort = aborts.pop(offset, None)
                if abort is None or abort.producer_id != line["producer_id"]:
                    self._findings.error(path, f"{entry}: no abort of that producer ends there")
                elif first_offset >= offset or first_offset > abort.first_offset >= 0:
                    self._findings.error(path, f"{entry}: it began at {abort.first_offset}")
                elif line["last_stable_offset"] > offset + 1:
                    stable = line["last_stable_offset"]
                    self._findings.error(path, f"{entry}: last stable offset {stable}")
                if offset <= last:
                    self._findings.error(path, f"{entry} follows one that ended at {last}")
                last = max(last, offset)
