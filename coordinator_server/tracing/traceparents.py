"""Finds W3C trace contexts in the headers of produced records."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from coordinator_server.telemetry.payload import decompressed
from protocol.batch import read_record_headers
from protocol.batch_header import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    iterate_batches,
)
from protocol.compression import Compression
from protocol.errors import ProtocolError
from protocol.raw_records import raw_records, records_section

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.apis.produce import ProduceRequest
    from protocol.batch_header import BatchHeader

MOST_BYTES = 128 * 1024
"""Limit of the decompressed bytes of a request in which headers are looked for."""

MOST_RECORDS = 100
"""Limit of records of a batch whose headers are read."""

MOST_PARTITIONS = 100
"""Limit of topics, and of partitions, whose first batch is read. Producers send one batch each."""

MOST_HEADERS = 5_000
"""Limit of the headers of a request that are read; a record with 64 or more ends its batch."""

MOST_LINKS = 32
_MULTI_BYTE = 0x80
"""The first byte of a longer varint."""

_NAME = "traceparent"
_MOST_CHARACTERS = 100


def traceparents(request: ProduceRequest) -> list[str]:
    """Return the distinct values of the header `traceparent`, within the limits.

    Damaged batches have no values; the handler of the request refuses them.
    """
    values: dict[str, None] = {}
    left, headers_left = MOST_BYTES, MOST_HEADERS
    try:
        for batch, data in _batches(request):
            if len(data) > left:
                continue
            buffer, plain = _decompressed(data, batch, left)
            left -= max(len(data), len(buffer))
            if left < 0:
                break
            if _NAME.encode() not in buffer:
                continue
            section = records_section(buffer, plain)
            for raw in islice(raw_records(section, plain.record_count), MOST_RECORDS):
                position = raw[-1]
                headers_left -= section[position] // 2  # a zigzag-encoded count, below 64
                if section[position] >= _MULTI_BYTE or headers_left < 0:
                    break
                for name, value in read_record_headers(memoryview(section), position):
                    if name == _NAME and value is not None and len(value) <= _MOST_CHARACTERS:
                        values[bytes(value).decode("ascii", "replace")] = None
    except (ProtocolError, IndexError):
        pass
    return list(values)[:MOST_LINKS]


def _batches(request: ProduceRequest) -> Iterator[tuple[BatchHeader, bytes]]:
    """Yield the first batch of each partition with its bytes."""
    for records in islice(_sections(request), MOST_PARTITIONS):
        if records is None or len(records) > MOST_BYTES:
            continue
        for batch in islice(iterate_batches(records), 1):
            if batch.magic == 2 and not batch.is_control:
                yield batch, bytes(records[: LOG_OVERHEAD_BYTES + batch.length])


def _sections(request: ProduceRequest) -> Iterator[bytes | memoryview | None]:
    for topic in islice(request.topic_data, MOST_PARTITIONS):
        for partition in islice(topic.partition_data, MOST_PARTITIONS):
            yield partition.records


def _decompressed(data: bytes, batch: BatchHeader, limit: int) -> tuple[bytes, Any]:
    """Return a batch without compression: a buffer and its header. Raises ProtocolError."""
    codec = batch.attributes & COMPRESSION_MASK
    if not codec:
        return data, batch
    try:
        compression = Compression(codec)
    except ValueError as error:
        raise ProtocolError(f"compression {codec}") from error
    section = decompressed(compression, data[HEADER_BYTES:], limit)
    return section, batch._replace(
        attributes=batch.attributes & ~COMPRESSION_MASK,
        length=len(section) + HEADER_BYTES - LOG_OVERHEAD_BYTES,
        position=-HEADER_BYTES,  # the section begins at 0
    )
