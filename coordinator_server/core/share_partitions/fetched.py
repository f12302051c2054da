"""FetchedBatches: record batches that were read for a share group, and aborted transactions.

Only batch headers are decoded, and the markers of control batches to find aborted transactions.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from protocol.batch_header import (
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    HeaderFields,
    iterate_batches,
    iterate_header_fields,
)
from protocol.control_record import end_marker_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_BASE, _LENGTH, _DELTA, _POSITION = map(
    BatchHeader._fields.index, ("base_offset", "length", "last_offset_delta", "position")
)


ALL = 2**63 - 1


class FetchedBatches:
    """The batches in `records`, which starts with a complete batch.

    Batches after `stop_offset` are left out. `stop_offset` is the first base offset or
    `floor_offset`, whichever is higher, plus `most`. `aborted` has the aborted transactions as
    (producer id, first offset), and is empty if the group also reads uncommitted records.
    """

    __slots__ = ("_end", "_fields", "aborted", "base_offsets", "records", "stop_offset")

    def __init__(
        self,
        records: bytes,
        aborted: Sequence[tuple[int, int]] = (),
        floor_offset: int = 0,
        most: int = ALL,
    ) -> None:
        self.records = records
        self.aborted = aborted
        self._fields: list[HeaderFields] = []
        self.stop_offset = -1
        for fields in iterate_header_fields(records):
            if self.stop_offset < 0:
                self.stop_offset = max(fields[_BASE], floor_offset) + most
            self._fields.append(fields)
            if fields[_BASE] + fields[_DELTA] >= self.stop_offset:
                break
        self.base_offsets = [fields[_BASE] for fields in self._fields]
        self._end = self._end_of(-1) if self._fields else 0

    @property
    def first_offset(self) -> int:
        """The base offset of the first batch."""
        return self.base_offsets[0]

    @property
    def last_offset(self) -> int:
        """The last offset of the last batch."""
        return self._last_of(-1)

    def end_of_batch_with(self, offset: int) -> int:
        """Return the last offset of the batch with `offset`, or `offset` if there is none."""
        index = bisect_right(self.base_offsets, offset) - 1
        return max(self._last_of(index), offset) if index >= 0 else offset

    def slice(self, first: int, last: int) -> bytes:
        """Return the batches from the batch with offset `first` to the batch with offset `last`."""
        low = max(bisect_right(self.base_offsets, first) - 1, 0)
        high = max(bisect_right(self.base_offsets, last) - 1, low)
        return self.records[self._fields[low][_POSITION] : self._end_of(high)]

    def aborted_ranges(self) -> list[tuple[int, int]]:
        """Return the first and last offset of each batch of an aborted transaction.

        An aborted transaction covers its producer's batches from its first offset to its marker.
        """
        if not self.aborted:
            return []
        waiting = sorted(self.aborted, key=lambda transaction: -transaction[1])
        producer_ids: set[int] = set()
        ranges: list[tuple[int, int]] = []
        for header in iterate_batches(self.records, end=self._end):
            if header.producer_id < 0:
                continue
            while waiting and waiting[-1][1] <= header.last_offset:
                producer_ids.add(waiting.pop()[0])
            if header.is_control:
                marker = end_marker_of(self.records, header)
                if marker is not None and not marker.commits:
                    producer_ids.discard(header.producer_id)
                    continue
            if header.is_transactional and header.producer_id in producer_ids:
                ranges.append((header.base_offset, header.last_offset))
        return ranges

    def _last_of(self, index: int) -> int:
        fields = self._fields[index]
        return fields[_BASE] + fields[_DELTA]

    def _end_of(self, index: int) -> int:
        """Return the end position of a batch in the records."""
        fields = self._fields[index]
        return fields[_POSITION] + fields[_LENGTH] + LOG_OVERHEAD_BYTES
