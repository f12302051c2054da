"""Limits of the check of a batch's records: threads, memory and sizes."""

from __future__ import annotations

import mmap
import tracemalloc
from typing import Any

import pytest

from protocol.batch import (
    EncodedBatch,
    Record,
    batch_of_section,
    iterate_records,
    rebuilt_batch,
    record_bytes,
)
from protocol.batch_header import LOG_APPEND_TIME, read_header
from protocol.compression import Compression, compress
from storage import record_check
from storage.append_check import check_client_batch
from storage.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    UnreadableBatchError,
)
from storage.log_config import LogConfig
from storage.record_check import LongCheckError
from tests.unit.storage.support import NOW_MS

TO_GZIP = LogConfig(compression_type="gzip")


def packed(
    section: bytes, count: int, codec: Compression = Compression.ZSTD, attributes: int = 0
) -> bytes:
    """Return a batch with this records section."""
    whole = batch_of_section(section, count, NOW_MS)
    header = whole.header._replace(attributes=codec | attributes)
    return rebuilt_batch(header, compress(codec, section)).to_bytes()


def check(data: bytes, config: LogConfig | None = None, *, may_block: bool = True) -> bytes:
    """Return the batch that would be stored."""
    stored = check_client_batch(data, config or LogConfig(), NOW_MS, "t", 0, may_block=may_block)
    return EncodedBatch(*stored).to_bytes()


def records_of(data: bytes) -> list[Record]:
    """Return the records of a batch."""
    return list(iterate_records(data, read_header(data)))


def test_many_headers_are_read_in_a_thread() -> None:
    """Records with more headers than the event loop reads are checked in a thread.

    The same holds if the fast walk gives up.
    """
    for count in (63, record_check.MOST_STEPS + 1):
        number = record_check.MOST_STEPS // count + 1
        headers: list[tuple[str, bytes | None]] = [("", None)] * count
        section = b"".join(record_bytes(0, index, None, b"", headers) for index in range(number))
        data = packed(section, number, Compression.NONE)
        with pytest.raises(LongCheckError):
            check(data, may_block=False)
        assert check(data) == data


def test_many_parts_are_read_in_a_thread() -> None:
    """Skippable zstd frames count as parts, although they decompress to nothing."""
    section = record_bytes(0, 0, None, b"v")
    header = batch_of_section(section, 1, NOW_MS).header._replace(attributes=Compression.ZSTD)
    payload = bytes.fromhex("502a4d1800000000") * record_check.MOST_STEPS
    data = rebuilt_batch(header, payload + compress(Compression.ZSTD, section)).to_bytes()
    with pytest.raises(LongCheckError):
        check(data, may_block=False)
    assert check(data) == data


def test_many_bytes_are_compressed_in_a_thread() -> None:
    """Compressing 512 KiB or more runs in a thread, as it takes tens of milliseconds."""
    for size, is_long in ((record_check.MOST_COMPRESSED_BYTES, True), (500_000, False)):
        data = packed(record_bytes(0, 0, None, bytes(size)), 1)
        if is_long:
            with pytest.raises(LongCheckError):
                check(data, TO_GZIP, may_block=False)
        else:
            assert check(data, TO_GZIP, may_block=False) == check(data, TO_GZIP)


@pytest.mark.parametrize("is_time_wrong", [True, False])
def test_record_errors_are_limited(is_time_wrong: bool) -> None:
    """A batch of 20 000 invalid records gets 1 000 record errors; the message has the total."""
    section = b"".join(record_bytes(0, index, None, b"") for index in range(20_000))
    if is_time_wrong:
        data = packed(section, 20_000, attributes=LOG_APPEND_TIME)
        config = LogConfig(message_timestamp_type="LogAppendTime")
        with pytest.raises(InvalidTimestampError) as wrong_time:
            check(data, config)
        errors = wrong_time.value.record_errors
    else:
        config = LogConfig(cleanup_policy=("compact",))
        with pytest.raises(InvalidRecordError, match="20000 record errors in total") as no_key:
            check(packed(section, 20_000), config)
        errors = no_key.value.record_errors
    assert [index for index, _ in errors] == list(range(record_check.MOST_RECORD_ERRORS))


def test_records_are_rebuilt_in_little_memory() -> None:
    """Rebuilding 10 000 records of 80 KB in total takes less than 1 MB."""
    count = 10_000
    section = b"".join(record_bytes(1 + index % 2, index, None, b"") for index in range(count))
    data = packed(section, count)
    # Load the modules before memory is measured.
    check(packed(record_bytes(1, 0, None, b""), 1), TO_GZIP)
    tracemalloc.start()
    try:
        stored = check(data, TO_GZIP)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    records = records_of(stored)
    assert [record.offset for record in records] == list(range(count))
    assert [record.timestamp_ms - NOW_MS for record in records[:3]] == [1, 2, 1]


def test_rebuilt_records_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that exceed the limit when they are rebuilt are refused."""
    monkeypatch.setattr(record_check, "MAX_DECOMPRESSED_BYTES", 1000)
    section = b"".join(record_bytes(1, index, None, b"v" * 100) for index in range(10))
    with pytest.raises(UnreadableBatchError, match="more than 1000 bytes"):
        check(packed(section, 10), TO_GZIP)


def test_all_fields_are_rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, values and headers of any size are rebuilt, also those copied in pieces."""
    monkeypatch.setattr(record_check, "PIECE_BYTES", 1000)
    sections = []
    for index, size in enumerate((0, 1, 999, 1000, 1001, 70_000)):
        headers: list[tuple[str, bytes | None]] = [("h" * size, b"w" * size), ("n", None)]
        sections.append(record_bytes(5 + index, 2 * index, b"k" * size, b"v" * size, headers))
    sections.append(record_bytes(3, 20, None, None))
    data = packed(b"".join(sections), 7)
    before = records_of(data)
    after = records_of(check(data, TO_GZIP))
    assert [record.offset for record in after] == list(range(7))
    for old, new in zip(before, after, strict=True):
        assert (old.timestamp_ms, old.key, old.value) == (new.timestamp_ms, new.key, new.value)
        assert list(old.headers) == list(new.headers)


class Watched(mmap.mmap):
    """Mapped memory that refuses copies of large slices."""

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            assert len(range(*place.indices(len(self)))) <= 1 << 20
        return super().__getitem__(place)


@pytest.mark.parametrize("target", ["producer", "gzip", "snappy", "lz4", "zstd", "uncompressed"])
@pytest.mark.parametrize("delta_ms", [0, 1])
def test_mapped_memory_is_not_copied(
    target: str, delta_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records of a large batch are processed in the memory that they were decompressed to."""
    monkeypatch.setattr("protocol.large_payload.mmap.mmap", Watched)
    value = bytes(6_000_000)
    section = record_bytes(delta_ms, 0, None, value)
    data = packed(section, 1, Compression.GZIP if target == "zstd" else Compression.ZSTD)
    config = LogConfig(compression_type=target, max_message_bytes=10_000_000)
    (record,) = records_of(check(data, config))
    assert (record.timestamp_ms, record.value) == (NOW_MS + delta_ms, value)
    if target == "uncompressed":
        # The batch is refused before it is copied.
        monkeypatch.setattr(record_check, "compress", None)
        with pytest.raises(MessageTooLargeError, match=r"is 60000.. bytes which exceeds"):
            check(data, LogConfig(compression_type=target, max_message_bytes=1_000_000))


SMALL = LogConfig(max_decompressed_message_bytes=100)
CODECS = [one for one in Compression if one is not Compression.NONE]


def section_of(*sizes: int) -> bytes:
    """Return records whose fields have these sizes."""
    return b"".join(
        record_bytes(0, index, b"a", b"x" * (size - 8)) for index, size in enumerate(sizes)
    )


@pytest.mark.parametrize("may_block", [False, True])
@pytest.mark.parametrize("codec", CODECS)
def test_decompressed_records_are_limited(codec: Compression, may_block: bool) -> None:
    """A record of a compressed batch may have exactly as many bytes as the limit."""
    data = packed(section_of(100, 80, 100), 3, codec)
    assert check(data, SMALL, may_block=may_block) == data
    with pytest.raises(InvalidRecordError):
        check(packed(section_of(100, 80, 101), 3, codec), SMALL, may_block=may_block)
    uncompressed = packed(section_of(100, 400), 2, Compression.NONE)
    assert check(uncompressed, SMALL, may_block=may_block) == uncompressed


def test_rebuilt_records_have_the_same_limit() -> None:
    """The record size limit also applies if the topic has another codec than the batch."""
    config = TO_GZIP._replace(max_decompressed_message_bytes=100)
    check(packed(section_of(100), 1), config)
    with pytest.raises(InvalidRecordError):
        check(packed(section_of(101), 1), config)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_refused_before_it_is_decompressed(codec: Compression) -> None:
    """A record of 50 MB with a limit of 1 MB is refused without using 50 MB of memory."""
    config = LogConfig(max_decompressed_message_bytes=1 << 20, max_message_bytes=1 << 26)
    data = packed(section_of(50 << 20), 1, codec)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRecordError):
            check(data, config)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
