"""Helpers of the storage tests: batches, and logs and data directories on a MemoryDisk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from protocol.batch import EncodedBatch, Record, build_batch, iterate_records
from protocol.batch_header import CRC_START, BatchHeader, iterate_batches, read_header
from protocol.compression import Compression
from protocol.control_record import EndMarker
from storage.disk import Disk
from storage.log_config import LogConfig
from storage.log_loader import LogLoader
from storage.log_manager import LogManager
from storage.memory_disk import MemoryDisk
from storage.open_files import OpenFiles
from storage.partition_log import PartitionLog
from storage.topic_catalogue import TopicRecord

NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
DIRECTORY = "data/t-0"


def batch(
    *values: bytes,
    key: bytes | None = b"k",
    timestamp_ms: int = NOW_MS,
    compression: Compression = Compression.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """Return a batch as a producer sends it, with one record per value."""
    records = [
        Record(offset, timestamp_ms, key, value) for offset, value in enumerate(values or (b"v",))
    ]
    return build_batch(
        records,
        base_offset=0,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        control=control,
    ).to_bytes()


def marker(
    producer_id: int, epoch: int, *, commit: bool, timestamp_ms: int = NOW_MS
) -> EncodedBatch:
    """Return an end-of-transaction marker of coordinator epoch 9."""
    key = (0).to_bytes(2, "big") + int(commit).to_bytes(2, "big")
    value = (0).to_bytes(2, "big") + (9).to_bytes(4, "big")
    built = build_batch(
        [Record(0, timestamp_ms, key, value)],
        base_offset=0,
        producer_id=producer_id,
        producer_epoch=epoch,
        transactional=True,
        control=True,
    )
    return built._replace(marker=EndMarker(commit, 9))


def own(data: bytes) -> EncodedBatch:
    """Return the bytes of a batch in the form of a batch built by the broker."""
    return EncodedBatch(read_header(data), data[CRC_START:])


def keyed(
    *pairs: tuple[bytes | None, bytes | None],
    timestamp_ms: int = NOW_MS,
    compression: Compression = Compression.NONE,
    producer_id: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """Return a batch of (key, value) records."""
    records = [Record(i, timestamp_ms, key, value) for i, (key, value) in enumerate(pairs)]
    return build_batch(
        records,
        base_offset=0,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 0,
        base_sequence=sequence,
        transactional=transactional,
    ).to_bytes()


def open_log(
    disk: Disk,
    config: LogConfig | None = None,
    *,
    clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    max_open_files: int = 64,
) -> PartitionLog:
    """Return the opened log of partition t-0; its previous process has ended."""
    if isinstance(disk, MemoryDisk):
        disk.open_files.clear()
    loader = LogLoader(
        OpenFiles(disk, max_open_files),
        DIRECTORY,
        "t",
        0,
        config or LogConfig(),
        recovery_point,
        log_start_offset,
        clean,
        NOW_MS,
    )
    return PartitionLog(loader, TOPIC_ID)


def open_manager(disk: Disk, defaults: LogConfig | None = None) -> LogManager:
    """Return the opened data directory `data`."""
    return LogManager.open(disk, "data", defaults or LogConfig(), cluster_id="c", now_ms=NOW_MS)


def change_topic(manager: LogManager, name: str, **changes: Any) -> None:
    """Replace fields of a topic's record."""
    record = manager.topics().get(name) or TopicRecord(name, bytes(16), 1, {})
    for _ in manager.change_topics([record._replace(**changes)]):
        pass


def delete_topic(manager: LogManager, name: str) -> None:
    """Delete a topic, and move its directories out of the way."""
    manager.delete_topics([name])
    for _ in manager.finish_deletions():
        pass


def headers_of(data: bytes) -> list[BatchHeader]:
    """Return the batch headers of a read."""
    return list(iterate_batches(data))


def all_batches(log: PartitionLog, max_bytes: int = 1 << 20) -> list[BatchHeader]:
    """Return every batch from the log start on, by reads of `max_bytes`."""
    return headers_of(all_bytes(log, max_bytes))


def all_bytes(log: PartitionLog, max_bytes: int = 1 << 20) -> bytes:
    """Return every byte from the log start on, by reads of `max_bytes`."""
    parts = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, max_bytes)
        if not data:
            break
        parts.append(data)
        offset = headers_of(data)[-1].next_offset
    return b"".join(parts)


def all_records(log: PartitionLog) -> list[Record]:
    """Return every record from the log start on."""
    data = all_bytes(log)
    return [
        record
        for header in iterate_batches(data)
        for record in iterate_records(data, header)
        if not header.is_control and record.offset >= log.log_start_offset
    ]


def committed(log: PartitionLog, at_once_bytes: int = 1 << 20) -> list[Record]:
    """Return the records that a read_committed reader gets, by reads of `at_once_bytes`."""
    found: list[Record] = []
    offset, stop = log.log_start_offset, log.last_stable_offset
    while offset < stop:
        data = log.read(offset, at_once_bytes, up_to=stop)
        if not data:
            break
        headers = headers_of(data)
        end = headers[-1].next_offset
        ahead = sorted(log.aborted_transactions(offset, end), key=lambda one: one.first_offset)
        aborted: set[int] = set()
        for header in headers:
            while ahead and ahead[0].first_offset <= header.last_offset:
                aborted.add(ahead.pop(0).producer_id)
            records = list(iterate_records(data, header))
            if header.is_control:
                if records and (records[0].key or b"")[3] == 0:
                    aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                found += [record for record in records if record.offset >= offset]
        offset = end
    return found


def values_of(log: PartitionLog) -> list[tuple[int, bytes | None]]:
    """Return (offset, value) of every record."""
    return [(record.offset, record.value) for record in all_records(log)]


def flip(disk: MemoryDisk, path: str, position: int) -> None:
    """Change a byte of a file without notice to the log."""
    data = bytearray(disk.read_file(path))
    data[position] ^= 0xFF
    overwrite(disk, path, bytes(data))


def overwrite(disk: Disk, path: str, contents: bytes) -> None:
    """Replace the contents of a file."""
    file = disk.open(path, create=True)
    file.truncate(0)
    file.append([contents])
    file.close()


def files_in(disk: Disk, path: str, suffix: str) -> Sequence[str]:
    """Return the sorted names in a directory that have this suffix."""
    return sorted(name for name in disk.listdir(path) if name.endswith(suffix))
