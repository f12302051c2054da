"""Check the record batch vectors: batches that Kafka reads, and batches that Kafka refuses."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from protocol.batch import Record, build_batch, iterate_records
from protocol.batch_header import (
    BatchHeader,
    add_to_sequence,
    crc_is_valid,
    iterate_batches,
    read_header,
)
from protocol.compression import Compression
from protocol.errors import ProtocolError

Line = dict[str, Any]


def check_batch(line: Line) -> None:
    """Check that batches read as in Kafka, and that format 2 batches can be rebuilt."""
    data = bytes.fromhex(line["hex"])
    shown = []
    end = 0
    for header in iterate_batches(data):
        shown.append(show_batch(data, header))
        end = header.end
        if header.magic == 2:
            check_rebuild(data, header)
    assert {"batches": shown, "valid_bytes": end} == line["json"], f"read as {shown}"


def check_damaged_batch(line: Line) -> None:
    """Check that a damaged batch is refused exactly when Kafka refuses it."""
    data = bytes.fromhex(line["hex"])
    try:
        valid = crc_is_valid(data, read_header(data))
    except ProtocolError:
        valid = False
    assert valid == (line["error"] is None)


def check_rebuild(data: bytes, header: BatchHeader) -> None:
    """Check that `build_batch` gives the same bytes, or the same records if compressed."""
    records = list(iterate_records(data, header))
    rebuilt = build_batch(
        records,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        leader_epoch=header.leader_epoch,
        compression=header.compression,
        log_append_time_ms=header.max_timestamp_ms if header.log_append_time else None,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        delete_horizon_ms=header.delete_horizon_ms,
    ).to_bytes()
    again = read_header(rebuilt)
    assert crc_is_valid(rebuilt, again)
    assert list(iterate_records(rebuilt, again)) == records
    stamped_by_log = header.log_append_time  # log append times replace the producer's timestamps
    if header.compression is Compression.NONE and records and not stamped_by_log:
        assert rebuilt == data[header.position : header.end], rebuilt.hex()


def show_batch(data: bytes, header: BatchHeader) -> dict[str, Any]:
    """Return a batch in the form of the vectors."""
    records = list(iterate_records(data, header))
    # For a batch of an old format, Kafka reports the offset of the first record as base offset.
    base_offset = header.base_offset if header.magic == 2 else records[0].offset
    shown: dict[str, Any] = {
        "base_offset": base_offset,
        "last_offset": header.last_offset,
        "next_offset": header.next_offset,
        "timestamp_type": time_type(header),
        "max_timestamp": header.max_timestamp_ms,
        "partition_leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "valid": crc_is_valid(data, header),
        "magic": header.magic,
        "size_in_bytes": header.size_bytes,
        "compression": header.compression.name.lower(),
        "crc": header.crc,
        "records": [show_record(record, base_offset, header.base_sequence) for record in records],
    }
    if header.magic == 2:
        shown["count"] = header.record_count
    if header.delete_horizon_ms is not None:
        shown["delete_horizon_ms"] = header.delete_horizon_ms
    return shown


def time_type(header: BatchHeader) -> str:
    """Return Kafka's name of the batch's timestamp type."""
    if header.magic == 0:
        return "NoTimestampType"
    return "LogAppendTime" if header.log_append_time else "CreateTime"


def show_record(record: Record, base_offset: int, base_sequence: int) -> dict[str, Any]:
    """Return a record in the form of the vectors."""
    return {
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "sequence": add_to_sequence(base_sequence, record.offset - base_offset),
        "key": show_bytes(record.key),
        "value": show_bytes(record.value),
        "headers": [[name, show_bytes(value)] for name, value in record.headers],
    }


def show_bytes(data: bytes | None) -> str | None:
    """Return the bytes as Base64, or None."""
    return None if data is None else b64encode(data).decode()
