"""The first record at or after a time, from segments with and without indexes."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.sources import time_index
from pipeline.sources.logdir import LogPartition, segments_of
from pipeline.sources.sampling import Found
from pipeline.sources.segments import LogTimes
from pipeline.sources.time_index import first_since, greatest_ms
from protocol.batch import Record, iterate_records
from protocol.batch_header import BatchHeader
from protocol.compression import Compression
from tests.pipeline.logs import START_MS, marker, plain, transactional, write_segment

TOPIC = "t"
PREALLOCATED = bytes(1200)


def write_log(directory: Path, chance: random.Random, indexes: str) -> list[tuple[int, int]]:
    """Write three segments of batches with late timestamps; return offset and time of records.

    `indexes` is `none`, `closed` or `preallocated`: zeros follow the entries of the last segment.
    """
    records: list[tuple[int, int]] = []
    offset, at_ms = 0, START_MS
    for number in range(3):
        base, batches, times, positions, size, greatest = offset, [], b"", b"", 0, -1
        for _ in range(20):
            some = []
            for _ in range(chance.randrange(1, 9)):
                at_ms += chance.choice([0, 1, 50, 60_000])
                some.append((offset, at_ms - chance.choice([0, 0, 700])))
                offset += 1
            records += some
            made = [Record(at, time_ms, b"k", b"v" * 30) for at, time_ms in some]
            batches.append(plain(made, chance.choice([Compression.NONE, Compression.LZ4])))
            if size:  # an entry for every batch but the first
                positions += struct.pack(">ii", some[0][0] - base, size)
            newest = max(time_ms for _, time_ms in some)
            if newest > greatest:
                greatest = newest
                times += struct.pack(">qi", greatest, some[0][0] - base)
            size += len(batches[-1])
        path = write_segment(directory, batches, base, TOPIC)
        zeros = PREALLOCATED if indexes == "preallocated" and number == 2 else b""
        if indexes != "none":
            path.with_suffix(".timeindex").write_bytes(times + zeros)
            path.with_suffix(".index").write_bytes(positions + zeros)
    return records


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("indexes", ["none", "closed", "preallocated"])
def test_the_first_record_since_a_time(
    indexes: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is that of a search through all records; with indexes few batches are read."""
    chance = random.Random(seed)
    records = write_log(tmp_path, chance, indexes)
    segments = segments_of(LogPartition(TOPIC, 0, str(tmp_path / f"{TOPIC}-0")))
    assert len(segments) == 3
    read: list[int] = []

    def counted(data: bytes, batch: BatchHeader) -> Iterator[Record]:
        read.append(batch.base_offset)
        return iterate_records(data, batch)

    monkeypatch.setattr(time_index, "iterate_records", counted)
    end_ms = max(at_ms for _, at_ms in records)
    for _ in range(60):
        time_ms, start = chance.randrange(START_MS - 10, end_ms + 10), chance.choice([0, 0, 90])
        wanted = next((one for one in records if one[1] >= time_ms and one[0] >= start), None)
        read.clear()
        assert first_since(segments, time_ms, start) == (wanted and Found(*wanted))
        assert len(read) <= 3
    assert greatest_ms(segments) == end_ms
    assert greatest_ms([]) is None


def test_a_fetch_returns_what_a_consumer_gets(tmp_path: Path) -> None:
    """Records of aborted transactions and markers are skipped; at the end there is no data."""

    def records(first: int) -> list[Record]:
        return [Record(at, START_MS + at, b"k", b"v" * 9) for at in range(first, first + 2)]

    log = [
        plain(records(0)),
        transactional(records(2), 7),
        marker(4, 7, commit=False),
        plain(records(5)),
        transactional(records(7), 7),
        marker(9, 7, commit=True),
    ]
    write_segment(tmp_path, log, topic=TOPIC)
    times = LogTimes(str(tmp_path))
    first = {start: times.fetch({(TOPIC, 0): start})[TOPIC, 0] for start in (0, 1, 2, 4, 6, 8, 9)}
    offsets = {start: None if record is None else record.offset for start, record in first.items()}
    assert offsets == {0: 0, 1: 1, 2: 5, 4: 5, 6: 6, 8: 8, 9: None}
    assert first[2] == (5, START_MS + 5, 10)
