"""Write log directories from batches, and read their records, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.sources.logdir import OFFSETS_TOPIC, LogPartition
from pipeline.sources.records import Damage, RecordColumns, read_slice
from pipeline.sources.scan import PartitionScan
from protocol.batch import Record, build_batch
from protocol.compression import Compression
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value

Found = tuple[int, int, bytes | None, bytes | None]
START_MS = 1_700_000_000_000


def commit_record(offset: int, group: str = "g", *, committed: int | None = None) -> Record:
    """Return a commit of `committed`, by default `offset`, at START_MS + offset."""
    value = OffsetCommitValue(
        offset=offset if committed is None else committed,
        leader_epoch=0,
        metadata="m",
        commit_timestamp=START_MS + offset,
    )
    key = OffsetCommitKey(group=group, topic="t", partition=0)
    return Record(offset, START_MS + offset, encode_key(key), encode_value(value, 4))


def commits(first: int, count: int, group: str = "g") -> list[Record]:
    """Return commits at successive log offsets."""
    return [commit_record(offset, group) for offset in range(first, first + count)]


def marker(offset: int, producer_id: int, *, commit: bool) -> bytes:
    """Return a transaction marker."""
    record = Record(offset, START_MS, bytes((0, 0, 0, int(commit))), bytes(6))
    built = build_batch([record], producer_id=producer_id, transactional=True, control=True)
    return built.to_bytes()


def transactional(records: Sequence[Record], producer_id: int) -> bytes:
    """Return a batch of a transaction."""
    built = build_batch(records, producer_id=producer_id, producer_epoch=0, transactional=True)
    return built.to_bytes()


def write_segment(
    directory: Path, batches: Sequence[bytes], base_offset: int = 0, topic: str = OFFSETS_TOPIC
) -> Path:
    """Write a segment of partition 0 and return its path."""
    partition = directory / f"{topic}-0"
    partition.mkdir(parents=True, exist_ok=True)
    path = partition / f"{base_offset:020}.log"
    path.write_bytes(b"".join(batches))
    return path


def plain(records: Sequence[Record], compression: Compression = Compression.NONE) -> bytes:
    """Return a batch outside of transactions."""
    return build_batch(records, compression=compression).to_bytes()


def scanned(
    directory: Path, topic: str = OFFSETS_TOPIC, slice_bytes: int = 1 << 20
) -> PartitionScan:
    """Return a refreshed scan of partition 0."""
    scan = PartitionScan(LogPartition(topic, 0, str(directory / f"{topic}-0")), 0, slice_bytes)
    scan.refresh()
    return scan


def read_all(
    scan: PartitionScan, first: int | None = None, end: int | None = None
) -> tuple[list[Found], list[Damage]]:
    """Return (offset, timestamp, key, value) of all records in reading order, and damage."""
    found: list[Found] = []
    damage: list[Damage] = []
    for part in scan.slices(first, end):
        for one in read_slice(part):
            if isinstance(one, Damage):
                damage.append(one)
            else:
                found += _rows(one)
    return found, damage


def _rows(records: RecordColumns) -> list[Found]:
    columns = []
    for slices in (records.keys, records.values):
        columns.append(
            [
                slices.data[start:stop].tobytes() if valid else None
                for start, stop, valid in zip(slices.start, slices.stop, slices.valid, strict=True)
            ]
        )
    return list(zip(records.offset.tolist(), records.timestamp_ms.tolist(), *columns, strict=True))
