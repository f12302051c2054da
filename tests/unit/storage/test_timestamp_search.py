"""Stored records above `max.decompressed.message.bytes` end a search by timestamp."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from protocol.batch import Record, build_batch
from protocol.compression import Compression
from protocol.varint import encode_varint
from storage.errors import InvalidRecordError
from storage.log_config import LogConfig
from storage.memory_disk import MemoryDisk
from storage.partition_log import PartitionLog
from storage.timestamp_search import _body_bytes
from tests.unit.storage.support import NOW_MS, open_log

SEARCHES: list[Callable[[PartitionLog], object]] = [
    lambda log: log.offset_for_timestamp(NOW_MS + 1),
    lambda log: log.max_timestamp(),
]


def batch(codec: Compression) -> bytes:
    """Return a batch with a record of 100 bytes and another record a millisecond later."""
    records = [Record(0, NOW_MS, b"a", b"x" * 92), Record(1, NOW_MS + 1, b"b", b"2")]
    return build_batch(records, compression=codec).to_bytes()


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(
    ("codec", "limit", "is_found"),
    [
        (Compression.GZIP, 100, True),
        (Compression.GZIP, 99, False),
        (Compression.NONE, 99, True),
    ],
)
def test_a_record_above_the_limit_ends_the_search(
    search: Callable[[PartitionLog], object], codec: Compression, limit: int, is_found: bool
) -> None:
    """A compressed record above the lowered limit is refused; uncompressed records are found."""
    disk = MemoryDisk()
    open_log(disk).append(batch(codec), NOW_MS)
    log = open_log(disk, LogConfig(max_decompressed_message_bytes=limit))
    if is_found:
        assert search(log) == (NOW_MS + 1, 1, 0)
    else:
        with pytest.raises(InvalidRecordError):
            search(log)


@pytest.mark.parametrize("body_bytes", [1, 63, 64, 65, 8190, 8191, 8192, 8193, 1 << 20, 1 << 28])
def test_the_size_of_a_record_is_without_its_length(body_bytes: int) -> None:
    """The size of a record excludes its length field, whatever that field's size."""
    assert _body_bytes(len(encode_varint(body_bytes)) + body_bytes) == body_bytes
