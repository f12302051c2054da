"""Finds W3C trace contexts in the headers of produced records."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from coordinator_server.telemetry.payload import decompressed
from protocol.batch import iterate_records
from protocol.batch_header import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    iterate_batches,
)
from protocol.compression import Compression
from protocol.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.apis.produce import ProduceRequest
    from protocol.batch_header import BatchHeader

MOST_BYTES = 256 * 1024
"""Limit of the decompressed bytes of a request in which headers are looked for."""

MOST_RECORDS = 100
"""Limit of records of a batch whose headers are read."""

MOST_LINKS = 32
_NAME = "traceparent"
_MOST_CHARACTERS = 100


def traceparents(request: ProduceRequest) -> list[str]:
    """Return the distinct values of the header `traceparent`, within the limits.

    Damaged batches have no values; the handler of the request refuses them.
    """
    values: dict[str, None] = {}
    left = MOST_BYTES
    try:
        for batch, data in _batches(request):
            if len(data) - HEADER_BYTES > left:
                continue
            buffer, plain = _decompressed(data, batch, left)
            left -= len(buffer)
            if _NAME.encode() not in buffer:
                continue
            for record in islice(iterate_records(buffer, plain), MOST_RECORDS):
                for name, value in record.headers:
                    if name == _NAME and value is not None and len(value) <= _MOST_CHARACTERS:
                        values[bytes(value).decode("ascii", "replace")] = None
    except ProtocolError:
        pass
    return list(values)[:MOST_LINKS]


def _batches(request: ProduceRequest) -> Iterator[tuple[BatchHeader, bytes]]:
    for topic in request.topic_data:
        for partition in topic.partition_data:
            if partition.records is None or len(partition.records) > MOST_BYTES:
                continue
            data = bytes(partition.records)
            for batch in iterate_batches(data):
                if batch.magic == 2 and not batch.is_control:
                    end = batch.position + LOG_OVERHEAD_BYTES + batch.length
                    yield batch._replace(position=0), data[batch.position : end]


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
