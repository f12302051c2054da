"""Record batches: building, reading, patching."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.batch import Record, build_batch, iterate_records
from protocol.batch_header import crc_is_valid, iterate_batches, read_header
from protocol.compression import Compression
from protocol.errors import ProtocolError

RECORDS = [
    Record(100, 1000, b"k", b"v", [("h", b"1"), ("n", None)]),
    Record(101, 990, None, b"x" * 300),
    Record(105, 2000, b"", None),
]

BLOB = st.none() | st.binary(max_size=20)
ANY_RECORDS = st.lists(
    st.tuples(
        st.integers(1, 1000),
        st.integers(-1, 2**53),
        BLOB,
        BLOB,
        st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), BLOB)),
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.parametrize("compression", list(Compression))
def test_batch_reads_back(compression: Compression) -> None:
    """A built batch has the requested header and records, with every compression."""
    data = build_batch(RECORDS, compression=compression, leader_epoch=4).to_bytes()
    header = read_header(data)
    assert crc_is_valid(data, header)
    assert (header.base_offset, header.last_offset, header.next_offset) == (100, 105, 106)
    assert (header.leader_epoch, header.compression, header.record_count) == (4, compression, 3)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (1000, 2000)
    assert header.size_bytes == len(data) == header.end
    assert (header.producer_id, header.last_sequence) == (-1, -1)
    flags = (header.is_control, header.is_transactional, header.log_append_time)
    assert flags == (False, False, False)
    assert list(iterate_records(data, header)) == RECORDS


@settings(deadline=None, max_examples=50, database=None)
@given(ANY_RECORDS, st.sampled_from(list(Compression)))
def test_any_records_read_back(
    rows: list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    compression: Compression,
) -> None:
    """A built batch preserves any keys, values, headers, offset gaps and timestamps."""
    records = []
    offset = 0
    for gap, timestamp_ms, key, value, headers in rows:
        offset += gap
        records.append(Record(offset, timestamp_ms, key, value, headers))
    data = build_batch(records, compression=compression).to_bytes()
    assert list(iterate_records(data, read_header(data))) == records


def test_batch_of_a_producer() -> None:
    """A built batch has the producer id, epoch, sequence and transactional flag.

    Sequences wrap to 0.
    """
    data = build_batch(
        RECORDS, producer_id=7, producer_epoch=2, base_sequence=2**31 - 2, transactional=True
    ).to_bytes()
    header = read_header(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 2**31 - 2)
    assert header.last_sequence == 3
    assert header.is_transactional


def test_batches_lie_one_behind_the_other() -> None:
    """Iteration returns each batch with its position, without a truncated batch at the end."""
    one = build_batch([Record(0, 1, None, b"a")]).to_bytes()
    two = build_batch([Record(1, 1, None, b"b")]).to_bytes()
    headers = list(iterate_batches(one + two + two[:-1]))
    assert [header.position for header in headers] == [0, len(one)]
    read = [record for header in headers for record in iterate_records(one + two, header)]
    assert [record.value for record in read] == [b"a", b"b"]
    assert next(iterate_batches(b"xx" + one, 2)).position == 2


def test_a_built_batch_says_what_its_bytes_say() -> None:
    """The header of a built batch equals the header in its bytes.

    Base offset and leader epoch can be changed, as the CRC does not cover them.
    """
    built = build_batch(RECORDS, leader_epoch=4, producer_id=7, base_sequence=3)
    data = built.to_bytes()
    assert read_header(data) == built.header
    assert data.endswith(built.body)
    header = built.header._replace(base_offset=5000, leader_epoch=9)
    moved = built._replace(header=header).to_bytes()
    assert read_header(moved) == header
    assert crc_is_valid(moved, header)
    assert [record.offset for record in iterate_records(moved, header)] == [5000, 5001, 5005]


def test_log_append_time() -> None:
    """With LogAppendTime all records of a batch have the time of the append."""
    data = build_batch(RECORDS, log_append_time_ms=7777).to_bytes()
    header = read_header(data)
    assert header.log_append_time
    assert header.max_timestamp_ms == 7777
    assert {record.timestamp_ms for record in iterate_records(data, header)} == {7777}


def test_emptied_batch() -> None:
    """A batch without records, as compaction leaves for a producer's sequence, can be read."""
    data = build_batch(
        [], base_offset=10, last_offset=19, producer_id=3, compression=Compression.GZIP
    ).to_bytes()
    header = read_header(data)
    assert (header.base_offset, header.last_offset, header.record_count) == (10, 19, 0)
    assert list(iterate_records(data, header)) == []


@pytest.mark.parametrize(
    ("position", "value"),
    [(16, 3), (16, 0xFF), (8, 0x7F), (11, 5), (8, 0xFF)],
    ids=["magic 3", "magic -1", "too long", "too short", "negative"],
)
def test_bad_header_is_refused(position: int, value: int) -> None:
    """A wrong magic or an inconsistent length is refused when the header is read."""
    data = bytearray(build_batch(RECORDS[2:]).to_bytes())
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[position] = value
    with pytest.raises(ProtocolError):
        read_header(data)


def test_short_buffer_is_refused() -> None:
    """Bytes that are too short for a header or a batch are refused."""
    data = build_batch(RECORDS).to_bytes()
    for size in (0, 60, len(data) - 1):
        with pytest.raises(ProtocolError):
            read_header(data[:size])


def test_wrong_crc_is_seen() -> None:
    """A changed byte under the CRC is detected."""
    data = bytearray(build_batch(RECORDS).to_bytes())
    data[-1] ^= 1
    assert not crc_is_valid(data, read_header(data))


def test_record_count_must_fit() -> None:
    """A batch with a wrong record count is refused."""
    data = bytearray(build_batch(RECORDS).to_bytes())
    for count in (2, 4, -1):
        data[57:61] = count.to_bytes(4, "big", signed=True)
        with pytest.raises(ProtocolError):
            list(iterate_records(data, read_header(data)))


def test_unknown_compression_is_refused() -> None:
    """Compression types 5 to 7 do not exist and are refused."""
    data = bytearray(build_batch(RECORDS).to_bytes())
    data[22] |= 5
    with pytest.raises(ProtocolError):
        list(iterate_records(data, read_header(data)))


def test_delete_horizon() -> None:
    """A batch with a delete horizon returns this horizon and keeps its timestamps."""
    data = build_batch(RECORDS, delete_horizon_ms=123_456).to_bytes()
    header = read_header(data)
    assert header.delete_horizon_ms == 123_456
    assert read_header(build_batch(RECORDS).to_bytes()).delete_horizon_ms is None
    assert list(iterate_records(data, header)) == RECORDS
