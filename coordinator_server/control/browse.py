"""Browsing the records of a topic: partitions merged by time, from any offset or time, filtered.

A page holds the event loop for one record at a time. It ends after `limit` records or ANSWER_BYTES,
or when a certain number of records or decompressed bytes were looked at, so that a filter that
matches nothing ends too.
"""

from __future__ import annotations

import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.control.content import described
from coordinator_server.control.errors import ControlError
from protocol.batch import iterate_records
from protocol.batch_header import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    iterate_batches,
)
from protocol.raw_records import records_section

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from coordinator_server.control.content import View
    from coordinator_server.steps import Computation, Steps
    from coordinator_server.topics.topic import Partition
    from protocol.batch import Record
    from protocol.batch_header import BatchHeader

MOST_PARTITIONS = 2_000
"""Limit of partitions that are browsed together: their positions must fit into a URL."""

SCANNED_RECORDS, SCANNED_BYTES = 10_000, 16 * 1024 * 1024
"""Limits of what one page looks at; the bytes are decompressed ones."""

ANSWER_BYTES = 16 * 1024 * 1024
"""A page ends with the record that exceeds this limit, by the shown bytes."""

_SKIPPED_AT_ONCE = 100
_BLOCK_BYTES, _LEAST_BLOCK_BYTES = 1024 * 1024, 16 * 1024
_CURSOR_BYTES = 64 * 1024


class Filters(NamedTuple):
    """The filters of a request; None matches every record."""

    key: bytes | None
    value: bytes | None
    header: str | None

    def match(self, record: Record) -> bool:
        """Return whether a record matches all filters."""
        return (
            (self.key is None or (record.key is not None and self.key in record.key))
            and (self.value is None or (record.value is not None and self.value in record.value))
            and (self.header is None or any(name == self.header for name, _ in record.headers))
        )


class Page:
    """One page of records from `partitions`; `positions` has the next offset of each.

    After `read`, `records` has the records and `positions` where the next page begins.
    """

    def __init__(
        self, partitions: Sequence[Partition], positions: list[int], filters: Filters
    ) -> None:
        self.records: list[dict[str, Any]] = []
        self.positions = positions
        self.scanned = 0
        self._partitions = partitions
        self._filters = filters
        self._scanned_bytes = self._shown_bytes = 0
        self._block_bytes = max(_BLOCK_BYTES // len(partitions), _LEAST_BLOCK_BYTES)
        self._heads: list[tuple[int, int, int]] = []
        self._waiting: dict[int, tuple[Record, BatchHeader]] = {}

    @property
    def _is_tired(self) -> bool:
        # At least one record is looked at, so that the next page begins after this one.
        has_read_much = self.scanned and self._scanned_bytes >= SCANNED_BYTES
        return self.scanned >= SCANNED_RECORDS or bool(has_read_much)

    @property
    def _is_full(self) -> bool:
        return self._shown_bytes >= ANSWER_BYTES

    @property
    def is_at_end(self) -> bool:
        """Whether no partition has more records."""
        return all(
            position >= partition.log.high_watermark
            for partition, position in zip(self._partitions, self.positions, strict=True)
        )

    def read(self, limit: int, view: View) -> Steps:
        """Read up to `limit` records, merged by timestamp. Raises StorageError, ProtocolError."""
        readers = [self._scan(number) for number in range(len(self._partitions))]
        for number in range(len(readers)):
            yield from self._advance(readers, number)
        while self._heads and len(self.records) < limit and not self._is_full:
            _, number, _ = heappop(self._heads)
            record, batch = self._waiting.pop(number)
            partition = self._partitions[number].index
            shown = yield from described(record, partition, batch, view)
            self.records.append(shown)
            self._shown_bytes += _shown_bytes(shown)
            self.positions[number] = record.offset + 1
            yield
            if not self._is_tired:
                yield from self._advance(readers, number)
            elif len(self.records) >= len(readers):
                break

    def _advance(self, readers: Sequence[Iterator[None]], number: int) -> Steps:
        """Look for the next matching record of a partition."""
        while number not in self._waiting and not self._is_tired:
            if next(readers[number], readers) is readers:
                return
            yield

    def _scan(self, number: int) -> Iterator[None]:
        """Look at the records of a partition; stop at each that matches, which then waits."""
        log = self._partitions[number].log
        while (position := max(self.positions[number], log.log_start_offset)) < log.high_watermark:
            data = log.read(position, self._block_bytes, up_to=log.high_watermark)
            for batch in iterate_batches(data):
                buffer, plain = _decompressed(data, batch)
                self._scanned_bytes += plain.size_bytes
                yield from self._scan_batch(number, plain, buffer, position)
                self.positions[number] = max(self.positions[number], batch.next_offset)
                yield
            if self.positions[number] <= position:
                return

    def _scan_batch(
        self, number: int, batch: BatchHeader, data: bytes, position: int
    ) -> Iterator[None]:
        for record in records_from(data, batch, position):
            if record is None:
                yield
                continue
            self.scanned += 1
            if self._filters.match(record):
                self.positions[number] = record.offset
                self._waiting[number] = record, batch
                heappush(self._heads, (record.timestamp_ms, number, record.offset))
                yield
            self.positions[number] = record.offset + 1
            if not self.scanned % 100:
                yield


def _decompressed(data: bytes, batch: BatchHeader) -> tuple[bytes, BatchHeader]:
    """Return a batch without compression: a buffer and its header. Raises ProtocolError."""
    if batch.magic < 2 or not batch.attributes & COMPRESSION_MASK:
        return data, batch
    section = records_section(data, batch)
    return section, batch._replace(
        attributes=batch.attributes & ~COMPRESSION_MASK,
        length=len(section) + HEADER_BYTES - LOG_OVERHEAD_BYTES,
        position=-HEADER_BYTES,  # the section begins at 0
    )


def records_from(data: bytes, batch: BatchHeader, offset: int) -> Iterator[Record | None]:
    """Yield the records of a batch from `offset` on; None after some records that are skipped.

    Transaction markers are no records. Raises ProtocolError.
    """
    if batch.is_control:
        return
    for number, record in enumerate(iterate_records(data, batch), start=1):
        if record.offset >= offset:
            yield record
        elif not number % _SKIPPED_AT_ONCE:
            yield None


def _shown_bytes(record: Mapping[str, Any]) -> int:
    """Return the size of a record in the response, without the names of its fields."""
    contents = [record["key"], record["value"]]
    contents += [header["value"] for header in record["headers"]]
    names = sum(len(header["name"]) for header in record["headers"])
    return names + sum(len(content["text"] or "") for content in contents)


def start_positions(partitions: Sequence[Partition], values: Mapping[str, Any]) -> Computation[Any]:
    """Return the offsets that a request starts at, in steps. Raises StorageError, ControlError."""
    if values["after"] is not None:
        return _decoded(values["after"], len(partitions))
    positions = []
    for partition in partitions:
        log = partition.log
        start, end = log.log_start_offset, log.high_watermark
        position = {"earliest": start, "latest": end, "last": max(start, end - values["limit"])}[
            values["position"]
        ]
        if values["offset"] is not None:
            position = max(start, min(values["offset"], end))
        elif values["timestamp_ms"] is not None:
            since = log.offset_for_timestamp(values["timestamp_ms"])
            position = end if since is None else since.offset
        positions.append(position)
        yield
    return positions


def cursor(positions: Sequence[int]) -> str:
    """Return positions as a text that fits into a URL."""
    raw = bytearray()
    for position in positions:
        rest = position
        while rest >= 0x80:
            raw.append(rest & 0x7F | 0x80)
            rest >>= 7
        raw.append(rest)
    return urlsafe_b64encode(zlib.compress(bytes(raw), 9)).decode().rstrip("=")


def _decoded(text: str, count: int) -> list[int]:
    """Return the positions of a cursor. Raises ControlError for another text."""
    error = ControlError(400, f"after={text[:100]} is not from a page of these partitions")
    try:
        packed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        raw = zlib.decompressobj().decompress(packed, _CURSOR_BYTES)
    except (ValueError, zlib.error):
        raise error from None
    positions, number, shift = [], 0, 0
    for byte in raw:
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            positions.append(number)
            number = shift = 0
    if shift or len(positions) != count or max(positions) >= 1 << 63:
        raise error
    return positions
