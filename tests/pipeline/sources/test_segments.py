"""Segment files in any state are read as read_committed consumers would read them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.sources.logdir import LogPartition, all_partitions, partitions_of
from pipeline.sources.scan import PartitionScan
from pipeline.sources.source import InputError
from protocol.batch import Record, build_batch, iterate_records
from protocol.batch_header import HEADER_BYTES, iterate_batches
from protocol.compression import Compression
from tests.legacy_entries import ENTRY_MS, legacy_entry
from tests.pipeline.logs import (
    Found,
    commits,
    marker,
    plain,
    read_all,
    scanned,
    transactional,
    write_segment,
)

SEGMENTS = Path(__file__).parents[2] / "data" / "segments"


def rows(records: list[Record]) -> list[Found]:
    """Return the expected result of reading these records."""
    return [(one.offset, one.timestamp_ms, one.key, one.value) for one in records]


record = st.builds(
    Record,
    st.just(0),
    st.integers(0, 2**42),
    st.none() | st.binary(max_size=200),
    st.none() | st.binary(max_size=200),
    st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2),
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(record, min_size=1, max_size=6), st.sampled_from(Compression)),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([1, 100, 1 << 20]),
)
def test_any_batches_of_any_codec(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[tuple[list[Record], Compression]],
    slice_bytes: int,
) -> None:
    """Records of any size, in batches of any codec, are read in slices of any size."""
    directory = tmp_path_factory.mktemp("log")
    offset = 0
    for records, _ in batches:
        for one in records:
            one.offset = offset
            offset += 1
    write_segment(directory, [plain(*batch) for batch in batches])
    found, damage = read_all(scanned(directory, slice_bytes=slice_bytes))
    assert found == rows([one for records, _ in batches for one in records])
    assert damage == []


def test_the_segments_of_a_real_kafka() -> None:
    """Kafka's segments are read as `protocol.batch` reads them, without aborted transactions."""
    aborted = 0
    for partition in all_partitions(str(SEGMENTS)):
        scan = PartitionScan(partition)
        scan.refresh()
        data = (Path(partition.path) / f"{0:020}.log").read_bytes()
        expected = [
            one
            for header in iterate_batches(data)
            if not header.is_control
            for one in iterate_records(data, header)
        ]
        found, damage = read_all(scan)
        assert damage == []
        missing = [one for one in rows(expected) if one not in found]
        aborted += len(missing)
        assert len(found) + len(missing) == len(expected)
    # The only aborted transaction in these segments has three rows: two offset commits and one
    # record.
    assert aborted == 3


def test_transactions_count_only_when_they_are_committed(tmp_path: Path) -> None:
    """Of interleaved committed, aborted and open transactions, only the committed one is read."""
    write_segment(
        tmp_path,
        [
            transactional(commits(0, 2), 7),
            transactional(commits(2, 2), 8),
            plain(commits(4, 1)),
            marker(5, 8, commit=False),
            transactional(commits(6, 1), 8),
            marker(7, 7, commit=True),
            marker(8, 8, commit=True),
            transactional(commits(9, 1), 9),
            plain(commits(10, 1)),
        ],
    )
    scan = scanned(tmp_path)
    found, _ = read_all(scan)
    assert [one[0] for one in found] == [0, 1, 4, 6]
    assert (scan.last_stable_offset, scan.log_end) == (9, 11)


def test_what_the_cleaner_left_of_a_transaction_counts(tmp_path: Path) -> None:
    """Below the cleaner's checkpoint, transactional records without a marker are read."""
    path = write_segment(tmp_path, [transactional(commits(0, 2), 7), plain(commits(5, 1))])
    partition = LogPartition("__consumer_offsets", 0, str(path.parent))
    scan = PartitionScan(partition, cleaned_offset=4)
    scan.refresh()
    assert [one[0] for one in read_all(scan)[0]] == [0, 1, 5]


def test_a_flipped_byte_costs_its_batch_alone_and_is_told(tmp_path: Path) -> None:
    """Any flipped byte of a batch loses this batch only, and is reported as damage."""
    batches = [plain(commits(4 * number, 4)) for number in range(3)]
    start, length = len(batches[0]), len(batches[1])
    whole = b"".join(batches)
    quiet = 0
    for at in range(start, start + length):
        damaged = bytearray(whole)
        damaged[at] ^= 0x55
        write_segment(tmp_path, [bytes(damaged)])
        found, damage = read_all(scanned(tmp_path))
        offsets = [one[0] for one in found]
        assert offsets[:4] == [0, 1, 2, 3], at
        assert offsets[-4:] == [8, 9, 10, 11], at
        if len(offsets) == 12:
            # The byte belongs to the leader epoch, which no checksum covers and the reader
            # ignores.
            quiet += 1
            continue
        assert len(offsets) == 8, at
        assert len(damage) == 1, at
        assert damage[0].offset == 4
        assert damage[0].reason
    assert quiet == 4


def test_a_flipped_byte_in_compressed_records(tmp_path: Path) -> None:
    """A compressed batch with a wrong CRC is left out before it is decompressed."""
    batches = [plain(commits(4 * number, 4), Compression.ZSTD) for number in range(3)]
    damaged = bytearray(b"".join(batches))
    damaged[len(batches[0]) + HEADER_BYTES + 5] ^= 1
    write_segment(tmp_path, [bytes(damaged)])
    found, damage = read_all(scanned(tmp_path))
    assert [one[0] for one in found] == [0, 1, 2, 3, 8, 9, 10, 11]
    assert "CRC is" in damage[0].reason


def test_records_that_do_not_parse_under_a_right_crc(tmp_path: Path) -> None:
    """A batch with a valid CRC but malformed records is left out and reported."""
    good = plain(commits(0, 1))
    bad = bytearray(plain(commits(1, 3)))
    bad[HEADER_BYTES + 4] = 0x7E  # the key length exceeds the record
    from protocol.crc32c import crc32c

    bad[17:21] = crc32c(bytes(bad[21:])).to_bytes(4, "big")
    write_segment(tmp_path, [good, bytes(bad), plain(commits(4, 1))])
    found, damage = read_all(scanned(tmp_path))
    assert [one[0] for one in found] == [0, 4]
    assert [one.offset for one in damage] == [1]


@pytest.mark.parametrize("cut", [1, 30, 60, 70, 100])
def test_a_torn_tail_is_no_record_and_no_error(tmp_path: Path, cut: int) -> None:
    """A batch that was only partly written is neither read nor damage; its bytes are counted."""
    last = plain(commits(4, 2))
    write_segment(tmp_path, [plain(commits(0, 4)), last[:cut]])
    scan = scanned(tmp_path)
    found, damage = read_all(scan)
    assert (len(found), damage, scan.log_end, scan.torn_bytes) == (4, [], 4, cut)


def test_a_damaged_batch_before_a_torn_tail_is_reported(tmp_path: Path) -> None:
    """Only the last batch counts as torn; a damaged batch before it is reported."""
    damaged = bytearray(plain(commits(4, 1)))
    damaged[-1] ^= 1
    write_segment(tmp_path, [plain(commits(0, 4)), bytes(damaged), plain(commits(5, 1))[:70]])
    scan = scanned(tmp_path)
    found, damage = read_all(scan)
    assert (len(found), [one.offset for one in damage]) == (4, [4])
    assert (scan.log_end, scan.torn_bytes) == (5, 70)


def test_a_wrong_length_costs_one_batch(tmp_path: Path) -> None:
    """A batch with a wrong length loses only its own records.

    Its length is not trusted, since no batch begins where it ends.
    """
    damaged = bytearray(plain(commits(1, 1)))
    damaged[10] = 1  # the batch length is 256 bytes too large
    batches = [plain(commits(offset, 1)) for offset in range(2, 6)]
    write_segment(tmp_path, [plain(commits(0, 1)), bytes(damaged), *batches])
    scan = scanned(tmp_path)
    found, damage = read_all(scan)
    assert [one[0] for one in found] == [0, 2, 3, 4, 5]
    assert [one.offset for one in damage] == [1]
    assert (scan.log_end, scan.torn_bytes) == (6, 0)


def test_the_old_formats_are_read(tmp_path: Path) -> None:
    """Records of magic 0 are read without a timestamp, those of magic 1 with one."""
    # The last entry is shorter than a batch header of magic 2, so a reader must not demand a whole
    # header.
    old = [legacy_entry(*one) for one in ((0, 0, b"a"), (1, 1, b"b"), (0, 3, b""))]
    entries = [*old[:2], plain(commits(2, 1)), old[2]]
    write_segment(tmp_path, entries)
    found, damage = read_all(scanned(tmp_path))
    assert sorted(found)[:2] == [(0, -1, None, b"a"), (1, ENTRY_MS, None, b"b")]
    assert len(found) == 4
    assert damage == []


def test_a_scan_goes_on_where_it_stopped_also_in_a_new_segment(tmp_path: Path) -> None:
    """A refreshed scan finds appended batches and new segments."""
    path = write_segment(tmp_path, [plain(commits(0, 2))])
    scan = scanned(tmp_path)
    assert [one[0] for one in read_all(scan)[0]] == [0, 1]
    with path.open("ab") as file:
        file.write(plain(commits(2, 2)))
    write_segment(tmp_path, [plain(commits(4, 2))], base_offset=4)
    scan.refresh()
    assert [one[0] for one in read_all(scan, 2)[0]] == [2, 3, 4, 5]
    assert [one[0] for one in read_all(scan, 3, 5)[0]] == [3, 4]


def test_a_scan_notices_compaction_and_deletion(tmp_path: Path) -> None:
    """A scan starts again when a segment was replaced or removed."""
    first = write_segment(tmp_path, [plain(commits(0, 1)), plain(commits(1, 1))])
    write_segment(tmp_path, [plain(commits(2, 1))], base_offset=2)
    scan = scanned(tmp_path)
    planned = scan.slices()
    cleaned = first.with_suffix(".log.swap")
    cleaned.write_bytes(plain(commits(1, 1)))
    cleaned.rename(first)
    from pipeline.sources.records import RecordColumns, read_slice

    read = [one for part in planned for one in read_slice(part)]
    assert [one.offset.tolist() for one in read if isinstance(one, RecordColumns)] == [[1], [2]]
    scan.refresh()
    assert [one[0] for one in read_all(scan)[0]] == [1, 2]
    first.unlink()
    scan.refresh()
    assert scan.log_start == 2
    assert [one[0] for one in read_all(scan)[0]] == [2]


def test_an_empty_batch_and_an_empty_segment(tmp_path: Path) -> None:
    """Batches without records (after compaction) and empty segments are skipped."""
    empty = build_batch([], base_offset=0, last_offset=3, compression=Compression.GZIP).to_bytes()
    write_segment(tmp_path, [empty, plain(commits(4, 1))])
    write_segment(tmp_path, [], base_offset=5)
    scan = scanned(tmp_path)
    assert [one[0] for one in read_all(scan)[0]] == [4]
    assert scan.log_end == 5


def test_missing_and_empty_directories_are_named(tmp_path: Path) -> None:
    """A missing directory and one without partitions are reported."""
    with pytest.raises(InputError, match="no such directory"):
        partitions_of(str(tmp_path / "none"), "t")
    with pytest.raises(InputError, match="no partition lies there"):
        partitions_of(str(tmp_path), "t")
    shutil.copytree(SEGMENTS / "life-out-0", tmp_path / "life-out-0")
    assert partitions_of(str(tmp_path), "t") == []
    assert [one.number for one in partitions_of(str(tmp_path), "life-out")] == [0]
