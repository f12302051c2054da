"""Record batches: building, reading, patching."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import batch
from protocol.batch import BatchHeader, Record
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
    """A built batch has the header asked for and gives its records back, in any compression."""
    data = batch.build_batch(RECORDS, compression=compression, leader_epoch=4)
    header = BatchHeader(data)
    assert batch.crc_is_valid(data, header)
    assert (header.base_offset, header.last_offset, header.next_offset) == (100, 105, 106)
    assert (header.leader_epoch, header.compression, header.record_count) == (4, compression, 3)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (1000, 2000)
    assert header.size_bytes == len(data) == header.end
    assert (header.producer_id, header.last_sequence, header.has_producer_id) == (-1, -1, False)
    flags = (header.is_control, header.is_transactional, header.log_append_time)
    assert flags == (False, False, False)
    assert list(batch.iterate_records(data, header)) == RECORDS


@settings(deadline=None, max_examples=50, database=None)
@given(ANY_RECORDS, st.sampled_from(list(Compression)))
def test_any_records_read_back(
    rows: list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    compression: Compression,
) -> None:
    """Any keys, values, headers, gaps and timestamps survive."""
    records = []
    offset = 0
    for gap, timestamp_ms, key, value, headers in rows:
        offset += gap
        records.append(Record(offset, timestamp_ms, key, value, headers))
    data = batch.build_batch(records, compression=compression)
    assert list(batch.iterate_records(data, BatchHeader(data))) == records


def test_batch_of_a_producer() -> None:
    """Producer id, epoch, sequence and the transactional flag are kept; sequences wrap to 0."""
    data = batch.build_batch(
        RECORDS, producer_id=7, producer_epoch=2, base_sequence=2**31 - 2, transactional=True
    )
    header = BatchHeader(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 2**31 - 2)
    assert header.last_sequence == 3
    assert header.is_transactional


def test_batches_lie_one_behind_the_other() -> None:
    """Iterating gives each batch with its position; a cut one at the end is left out."""
    one = batch.build_batch([Record(0, 1, None, b"a")])
    two = batch.build_batch([Record(1, 1, None, b"b")])
    headers = list(batch.iterate_batches(one + two + two[:-1]))
    assert [header.position for header in headers] == [0, len(one)]
    read = [record for header in headers for record in batch.iterate_records(one + two, header)]
    assert [record.value for record in read] == [b"a", b"b"]
    assert next(batch.iterate_batches(b"xx" + one, 2)).position == 2


def test_patching_the_offset_keeps_the_crc() -> None:
    """Base offset and leader epoch are changed in place, without touching what the CRC covers."""
    data = bytearray(b"front" + batch.build_batch(RECORDS))
    batch.patch_offset(data, 5, 5000, 9)
    header = BatchHeader(data, 5)
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (5000, 5005, 9)
    assert batch.crc_is_valid(data, header)
    assert [record.offset for record in batch.iterate_records(data, header)] == [5000, 5001, 5005]


def test_log_append_time() -> None:
    """Stamping renews the CRC, and all records then carry the time of the append."""
    data = bytearray(batch.build_batch(RECORDS))
    header = BatchHeader(data)
    batch.patch_log_append_time(data, header, 7777)
    again = BatchHeader(data)
    assert again.log_append_time
    assert (again.max_timestamp_ms, again.crc) == (7777, header.crc)
    assert batch.crc_is_valid(data, again)
    assert {record.timestamp_ms for record in batch.iterate_records(data, again)} == {7777}
    built = batch.build_batch(RECORDS, log_append_time_ms=7777)
    assert built == bytes(data)


def test_emptied_batch() -> None:
    """Compaction may keep a batch without records for its producer's sequence."""
    data = batch.build_batch(
        [], base_offset=10, last_offset=19, producer_id=3, compression=Compression.GZIP
    )
    header = BatchHeader(data)
    assert (header.base_offset, header.last_offset, header.record_count) == (10, 19, 0)
    assert list(batch.iterate_records(data, header)) == []


@pytest.mark.parametrize(
    ("position", "value"),
    [(16, 1), (16, 3), (8, 0x7F), (11, 5), (8, 0xFF)],
    ids=["magic 1", "magic 3", "too long", "too short", "negative"],
)
def test_bad_header_is_refused(position: int, value: int) -> None:
    """A wrong magic or a length that does not fit is refused when the header is read."""
    data = bytearray(batch.build_batch(RECORDS[2:]))
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[position] = value
    with pytest.raises(ProtocolError):
        BatchHeader(data)


def test_short_buffer_is_refused() -> None:
    """Too few bytes for a header, or for the batch, are refused."""
    data = batch.build_batch(RECORDS)
    for size in (0, 60, len(data) - 1):
        with pytest.raises(ProtocolError):
            BatchHeader(data[:size])


def test_wrong_crc_is_seen() -> None:
    """A changed byte under the CRC is noticed."""
    data = bytearray(batch.build_batch(RECORDS))
    data[-1] ^= 1
    assert not batch.crc_is_valid(data, BatchHeader(data))


def test_record_count_must_fit() -> None:
    """A count that is not that of the records is refused."""
    data = bytearray(batch.build_batch(RECORDS))
    for count in (2, 4, -1):
        data[57:61] = count.to_bytes(4, "big", signed=True)
        with pytest.raises(ProtocolError):
            list(batch.iterate_records(data, BatchHeader(data)))


def test_unknown_compression_is_refused() -> None:
    """Compressions 5 to 7 do not exist."""
    data = bytearray(batch.build_batch(RECORDS))
    data[22] |= 5
    with pytest.raises(ProtocolError):
        list(batch.iterate_records(data, BatchHeader(data)))


def test_delete_horizon() -> None:
    """A batch with a delete horizon says when its tombstones may go, and keeps its timestamps."""
    data = batch.build_batch(RECORDS, delete_horizon_ms=123_456)
    header = BatchHeader(data)
    assert header.delete_horizon_ms == 123_456
    assert BatchHeader(batch.build_batch(RECORDS)).delete_horizon_ms is None
    assert list(batch.iterate_records(data, header)) == RECORDS
