"""Batch headers of every format, and iteration over batches."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest

from protocol.batch import Record, build_batch, iterate_records
from protocol.batch_header import (
    BASE_TIMESTAMP_POSITION,
    FLAGS_POSITION,
    HEADER_BYTES,
    MAGIC_POSITION,
    MAX_TIMESTAMP_POSITION,
    BatchHeader,
    crc_is_valid,
    crc_mismatch,
    iterate_batches,
    iterate_header_fields,
    read_header,
    unpack_header,
)
from protocol.compression import Compression
from protocol.errors import ProtocolError
from tests.legacy_entries import ENTRY_MS, legacy_entry

NEW = build_batch(
    [Record(7, 1000, b"k", b"v"), Record(9, 900, None, None)],
    leader_epoch=3,
    producer_id=5,
    producer_epoch=1,
    base_sequence=2**31 - 2,
    transactional=True,
).to_bytes()


def test_all_fields_of_format_2() -> None:
    """A header has the fields of Kafka's DefaultRecordBatch, and values derived from them."""
    header = read_header(b"xx" + NEW, 2)
    assert header == BatchHeader(
        base_offset=7,
        length=len(NEW) - 12,
        leader_epoch=3,
        magic=2,
        crc=int.from_bytes(NEW[17:21], "big"),
        attributes=0x10,
        last_offset_delta=2,
        base_timestamp_ms=1000,
        max_timestamp_ms=1000,
        producer_id=5,
        producer_epoch=1,
        base_sequence=2**31 - 2,
        record_count=2,
        position=2,
    )
    assert (header.last_offset, header.next_offset, header.last_sequence) == (9, 10, 0)
    assert (header.size_bytes, header.end) == (len(NEW), len(NEW) + 2)
    assert crc_is_valid(b"xx" + NEW, header)


def test_single_fields_are_where_the_positions_say() -> None:
    """The positions of single fields agree with the header."""
    header = unpack_header(NEW)
    assert NEW[MAGIC_POSITION] == header.magic
    assert NEW[FLAGS_POSITION] == header.attributes
    base, longest = BASE_TIMESTAMP_POSITION, MAX_TIMESTAMP_POSITION
    assert int.from_bytes(NEW[base : base + 8], "big") == header.base_timestamp_ms
    assert int.from_bytes(NEW[longest : longest + 8], "big") == header.max_timestamp_ms


@pytest.mark.parametrize("magic", [0, 1])
def test_an_entry_of_an_old_format_is_a_batch(magic: int) -> None:
    """A batch of an old format has one offset, no producer, no epoch; unknown bits are ignored."""
    data = legacy_entry(magic, 40, b"v", attributes=0x7F & ~0x07)
    header = read_header(data)
    assert (header.base_offset, header.last_offset, header.record_count) == (40, 40, 1)
    assert header.max_timestamp_ms == (ENTRY_MS if magic else -1)
    assert (header.producer_id, header.leader_epoch, header.last_sequence) == (-1, -1, -1)
    assert (header.is_control, header.is_transactional, header.delete_horizon_ms) == (0, 0, None)
    assert header.log_append_time is bool(magic)
    assert header.end == len(data)
    assert crc_is_valid(data, header)
    assert [(one.offset, one.value) for one in iterate_records(data, header)] == [(40, b"v")]


def test_the_old_formats_have_no_zstd() -> None:
    """A batch with codec 4 (zstd) must have format 2."""
    assert (
        read_header(legacy_entry(1, 0, b"", attributes=Compression.LZ4)).compression
        is Compression.LZ4
    )
    with pytest.raises(ProtocolError, match="compression 4"):
        _ = read_header(legacy_entry(1, 0, b"", attributes=Compression.ZSTD)).compression


def test_a_walk_over_all_formats(tmp_path: Path) -> None:
    """Batches of mixed formats are iterated in memory and in a mapped file.

    A tuple of the fields equals the header.
    """
    data = legacy_entry(0, 0, b"v") + NEW + legacy_entry(1, 10, b"v") + NEW
    data += legacy_entry(0, 20, b"")
    magics = [0, 2, 1, 2, 0]
    headers = list(iterate_batches(data))
    assert [header.magic for header in headers] == magics
    assert [header.position for header in headers[1:]] == [header.end for header in headers[:-1]]
    assert headers[-1].end == len(data)
    assert list(iterate_header_fields(data)) == headers
    for view in (memoryview(data), bytearray(data)):
        assert list(iterate_batches(view)) == headers
    path = tmp_path / "log"
    path.write_bytes(data)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert list(iterate_batches(mapped)) == headers
        assert all(crc_is_valid(mapped, header) for header in headers)


def test_a_window_of_a_file() -> None:
    """In a window of a file the headers within are found, with their positions in the file.

    Bodies may extend beyond the window, but not beyond the end of the file.
    """
    data = NEW + NEW + NEW
    size = len(NEW)
    window = data[size : 2 * size + HEADER_BYTES]
    headers = list(iterate_batches(window, size, origin=size, end=len(data)))
    assert [header.position for header in headers] == [size, 2 * size]
    assert crc_is_valid(window, headers[0], size)
    assert not list(iterate_batches(window[: HEADER_BYTES - 1], size, origin=size, end=len(data)))
    assert len(list(iterate_batches(window, size, origin=size, end=len(data) - 1))) == 1


def test_nothing_after_the_end_is_looked_at() -> None:
    """Bytes of a buffer after `end` are ignored, as in a growing file."""
    data = NEW + b"\xff" * 80
    assert [header.end for header in iterate_batches(data, end=len(NEW))] == [len(NEW)]
    with pytest.raises(ProtocolError):
        list(iterate_batches(data))


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_an_impossible_size_is_refused(magic: int) -> None:
    """A length smaller than the fields of its format is refused, also at the end of a buffer."""
    data = bytearray(NEW if magic == 2 else legacy_entry(magic, 0, b"v"))
    data[8:12] = (5).to_bytes(4, "big")
    for size in (len(data), 40, 30):
        with pytest.raises(ProtocolError, match="impossible batch size 17"):
            list(iterate_batches(data[:size]))


def test_a_wrong_crc_is_explained() -> None:
    """The error for a wrong CRC has the stored and the computed CRC."""
    data = bytearray(NEW)
    data[-1] ^= 1
    header = read_header(data)
    assert (crc_mismatch(data, header) or "").startswith(f"CRC is {header.crc}, the bytes give ")
