"""Batches and records of a log as plain data, for the tools that print or compare them.

Keys and values of internal topics are decoded. Keys and values of other topics are text if they are
valid UTF-8, otherwise base64. Names of fields inside keys and values are Kafka's.
"""

from __future__ import annotations

from base64 import b64encode
from enum import Enum
from typing import Any

from protocol.batch import Record
from protocol.batch_header import COMPRESSION_MASK, BatchHeader, add_to_sequence
from protocol.consumer_protocol import decode_assignment, decode_subscription
from protocol.control_record import end_marker
from protocol.errors import ProtocolError
from protocol.json_form import to_json
from protocol.offsets_log import (
    GroupMetadataValue,
    RecordedMember,
    UnknownKey,
    decode_key,
    decode_value,
)
from protocol.share_state_log import decode_share_state_key, decode_share_state_value
from protocol.transaction_log import decode_transaction_key, decode_transaction_value, status_name

CONSUMER_PROTOCOL_TYPE = "consumer"
_NEWEST = 3  # the ConsumerProtocol version whose fields are shown, whatever version is encoded


class Contents(Enum):
    """The encoding of a topic's keys and values."""

    PLAIN = "plain"
    OFFSETS = "offsets"
    TRANSACTIONS = "transactions"
    SHARE_STATE = "share-state"


CONTENTS_OF_TOPICS = {
    "__consumer_offsets": Contents.OFFSETS,
    "__transaction_state": Contents.TRANSACTIONS,
    "__share_group_state": Contents.SHARE_STATE,
}


def batch_data(batch: BatchHeader) -> dict[str, Any]:
    """Return a batch header as plain data; -1 means "none", as in the record format."""
    horizon_ms = batch.delete_horizon_ms
    return {
        "position": batch.position,
        "size_bytes": batch.size_bytes,
        "magic": batch.magic,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "records": batch.record_count,
        "leader_epoch": batch.leader_epoch,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "last_sequence": batch.last_sequence,
        "transactional": batch.is_transactional,
        "control": batch.is_control,
        "compression": _codec_name(batch),
        "timestamp_type": "LogAppendTime" if batch.log_append_time else "CreateTime",
        "max_timestamp_ms": batch.max_timestamp_ms,
        "delete_horizon_ms": -1 if horizon_ms is None else horizon_ms,
        "crc": batch.crc,
    }


def _codec_name(batch: BatchHeader) -> str:
    """Return Kafka's name of the codec, or the number of an unknown codec."""
    try:
        return batch.compression.name.lower()
    except ProtocolError:
        return str(batch.attributes & COMPRESSION_MASK)


def record_data(record: Record, batch: BatchHeader, contents: Contents) -> dict[str, Any]:
    """Return a record as plain data, decoded as far as its topic allows."""
    sequence = add_to_sequence(batch.base_sequence, record.offset - batch.base_offset)
    data = {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "sequence": sequence,
        "key_size": -1 if record.key is None else len(record.key),
        "value_size": -1 if record.value is None else len(record.value),
        "headers": [[name, plain(value)] for name, value in record.headers],
    }
    if batch.is_control:
        return {**data, **_marker(record)}
    key, value = _open(record, contents)
    return {**data, "key": key, "value": value}


def plain(data: bytes | None) -> Any:
    """Return bytes as a JSON value: text, {"base64": ...} if not valid UTF-8, or null."""
    if data is None:
        return None
    data = bytes(data)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
    return text if text.isprintable() else {"base64": b64encode(data).decode()}


def _open(record: Record, contents: Contents) -> tuple[Any, Any]:
    """Decode key and value; return undecodable ones as plain bytes with the reason."""
    try:
        if contents is Contents.OFFSETS and record.key is not None:
            return _offsets_record(record.key, record.value)
        if contents is Contents.TRANSACTIONS and record.key is not None:
            return _transaction_record(record.key, record.value)
        if contents is Contents.SHARE_STATE and record.key is not None:
            return _share_state_record(record.key, record.value)
    except ProtocolError as error:
        return {"undecodable": str(error), "key": plain(record.key)}, plain(record.value)
    return plain(record.key), plain(record.value)


def _offsets_record(key_bytes: bytes, value_bytes: bytes | None) -> tuple[Any, Any]:
    key = decode_key(key_bytes)
    if isinstance(key, UnknownKey):
        return {"type": key.record_type, "name": "unknown", "data": plain(key_bytes)}, plain(
            value_bytes
        )
    record_type = int.from_bytes(key_bytes[:2], "big")
    name = type(key).__name__.removesuffix("Key")
    opened = {"type": record_type, "name": name, "data": to_json(key, 0)}
    value = decode_value(key, value_bytes)
    if value is None or value_bytes is None:
        return opened, None
    version = int.from_bytes(value_bytes[:2], "big")
    data = to_json(value, version)
    if isinstance(value, GroupMetadataValue) and value.protocol_type == CONSUMER_PROTOCOL_TYPE:
        for shown, member in zip(data["members"], value.members, strict=True):
            _open_member(shown, member)
    return opened, {"version": version, "data": data}


def _open_member(shown: dict[str, Any], member: RecordedMember) -> None:
    """Decode a consumer's subscription and assignment; undecodable ones stay base64."""
    for name, data, decode in (
        ("subscription", member.subscription, decode_subscription),
        ("assignment", member.assignment, decode_assignment),
    ):
        try:
            shown[name] = to_json(decode(data), _NEWEST)
        except ProtocolError:
            continue


def _transaction_record(key_bytes: bytes, value_bytes: bytes | None) -> tuple[Any, Any]:
    key = decode_transaction_key(key_bytes)
    opened = {"type": 0, "name": "TransactionLog", "data": to_json(key, 0)}
    if value_bytes is None:
        return opened, None
    value, version = decode_transaction_value(value_bytes)
    data = to_json(value, version)
    data["transactionStatus"] = status_name(value.transaction_status)
    return opened, {"version": version, "data": data}


def _share_state_record(key_bytes: bytes, value_bytes: bytes | None) -> tuple[Any, Any]:
    key = decode_share_state_key(key_bytes)
    name = type(key).__name__.removesuffix("Key")
    record_type = int.from_bytes(key_bytes[:2], "big")
    opened = {"type": record_type, "name": name, "data": to_json(key, 0)}
    if value_bytes is None:
        return opened, None
    value, version = decode_share_state_value(key, value_bytes)
    return opened, {"version": version, "data": to_json(value, version)}


def _marker(record: Record) -> dict[str, Any]:
    """Return a control record as plain data: COMMIT or ABORT, or the type of another record."""
    marker = end_marker(record.key, record.value)
    if marker is None:
        kind = int.from_bytes(record.key[2:4], "big") if record.key else -1
        return {"marker": f"control type {kind}", "value": plain(record.value)}
    name = "COMMIT" if marker.commits else "ABORT"
    if marker.coordinator_epoch < 0:
        return {"marker": name, "value": plain(record.value)}
    return {"marker": name, "coordinator_epoch": marker.coordinator_epoch}
