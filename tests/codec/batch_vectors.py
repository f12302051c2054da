"""The record batch lines of the vectors: what Kafka reads in them, and which it refuses."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from protocol import batch, legacy_batch
from protocol.batch import BatchHeader, Record
from protocol.compression import Compression
from protocol.errors import ProtocolError
from protocol.legacy_batch import LegacyEntry

Line = dict[str, Any]


def check_batch(line: Line) -> None:
    """All batches in the bytes read as Kafka reads them; plain ones of format 2 build back."""
    data = bytes.fromhex(line["hex"])
    shown = []
    end = 0
    for one in legacy_batch.iterate_entries(data):
        shown.append(show_batch(data, one))
        end = one.end
        if isinstance(one, BatchHeader):
            check_rebuild(data, one)
    assert {"batches": shown, "valid_bytes": end} == line["json"], f"read as {shown}"


def check_damaged_batch(line: Line) -> None:
    """A damaged batch is refused exactly when Kafka refuses it."""
    data = bytes.fromhex(line["hex"])
    try:
        valid = batch.crc_is_valid(data, BatchHeader(data))
    except ProtocolError:
        valid = False
    assert valid == (line["error"] is None)


def check_rebuild(data: bytes, header: BatchHeader) -> None:
    """`build_batch` of the records gives the same bytes, or the same records if compressed."""
    records = list(batch.iterate_records(data, header))
    rebuilt = batch.build_batch(
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
    )
    again = BatchHeader(rebuilt)
    assert batch.crc_is_valid(rebuilt, again)
    assert list(batch.iterate_records(rebuilt, again)) == records
    stamped_by_log = header.log_append_time  # the producer's own timestamps are not kept then
    if header.compression is Compression.NONE and records and not stamped_by_log:
        assert rebuilt == data[header.position : header.end], rebuilt.hex()


def show_batch(data: bytes, one: LegacyEntry | BatchHeader) -> dict[str, Any]:
    """A batch as the vectors show it."""
    if isinstance(one, LegacyEntry):
        records = list(legacy_batch.iterate_entry_records(data, one))
        base_offset = records[0].offset
        shown = {
            "base_offset": base_offset,
            "last_offset": one.offset,
            "next_offset": one.offset + 1,
            "timestamp_type": "NoTimestampType" if one.magic == 0 else time_type(one),
            "max_timestamp": one.timestamp_ms,
            "partition_leader_epoch": -1,
            "producer_id": -1,
            "producer_epoch": -1,
            "base_sequence": -1,
            "last_sequence": -1,
            "transactional": False,
            "control": False,
            "valid": legacy_batch.crc_is_valid(data, one),
        }
        base_sequence = -1
    else:
        records = list(batch.iterate_records(data, one))
        base_offset, base_sequence = one.base_offset, one.base_sequence
        shown = {
            "base_offset": one.base_offset,
            "last_offset": one.last_offset,
            "next_offset": one.next_offset,
            "timestamp_type": time_type(one),
            "max_timestamp": one.max_timestamp_ms,
            "partition_leader_epoch": one.leader_epoch,
            "producer_id": one.producer_id,
            "producer_epoch": one.producer_epoch,
            "base_sequence": one.base_sequence,
            "last_sequence": one.last_sequence,
            "transactional": one.is_transactional,
            "control": one.is_control,
            "valid": batch.crc_is_valid(data, one),
            "count": one.record_count,
        }
        if one.delete_horizon_ms is not None:
            shown["delete_horizon_ms"] = one.delete_horizon_ms
    shown["magic"] = one.magic
    shown["size_in_bytes"] = one.size_bytes
    shown["compression"] = one.compression.name.lower()
    shown["crc"] = one.crc
    shown["records"] = [show_record(record, base_offset, base_sequence) for record in records]
    return shown


def time_type(one: LegacyEntry | BatchHeader) -> str:
    """Kafka's name of whose timestamps the records carry."""
    return "LogAppendTime" if one.log_append_time else "CreateTime"


def show_record(record: Record, base_offset: int, base_sequence: int) -> dict[str, Any]:
    """A record as the vectors show it."""
    sequence = -1
    if base_sequence >= 0:
        sequence = batch.add_to_sequence(base_sequence, record.offset - base_offset)
    return {
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "sequence": sequence,
        "key": show_bytes(record.key),
        "value": show_bytes(record.value),
        "headers": [[name, show_bytes(value)] for name, value in record.headers],
    }


def show_bytes(data: bytes | None) -> str | None:
    """Base64, or null."""
    return None if data is None else b64encode(data).decode()
