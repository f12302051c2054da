"""A slow, simple decoder: one record after the other through `protocol.offsets_log`.

It is used in tests only; the pipeline's decoder must agree with it on any bytes.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from pipeline import schema
from pipeline.decode.kinds import KINDS
from pipeline.schema.arrow import arrow_schema
from protocol.codec import decoder
from protocol.consumer_protocol import decode_assignment, decode_subscription
from protocol.errors import ProtocolError
from protocol.json_form import to_json, uuid_to_text
from protocol.offsets_log import record_types
from protocol.schema import Message

Row = dict[str, Any]
COLUMNS = schema.OFFSETS_LOG.names


def raw_batch(records: list[tuple[bytes | None, bytes | None]]) -> pa.RecordBatch:
    """Return a batch of records with these keys and values, at offsets from 0."""
    rows = [
        {"log_partition": 3, "log_offset": at, "log_timestamp_ms": at, "key": key, "value": value}
        for at, (key, value) in enumerate(records)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(schema.RAW))


def expected(at: int, key: bytes | None, value: bytes | None) -> Row:
    """Return the expected row of a record.

    `problem` is only True or None, because the wording is the decoder's own.
    """
    row: Row = dict.fromkeys(COLUMNS)
    row.update(log_partition=3, log_offset=at, log_timestamp_ms=at, kind="unknown")
    row["tombstone"] = value is None
    row["record_bytes"] = len(key or b"") + len(value or b"")
    if value is not None and len(value) >= 2:
        row["value_version"] = int.from_bytes(value[:2], "big", signed=True)
    try:
        if key is None or len(key) < 2:
            raise ProtocolError("no record type")
        row["record_type"] = int.from_bytes(key[:2], "big", signed=True)
        if row["record_type"] not in KINDS:
            raise ProtocolError("unknown record type")
        row["kind"] = KINDS[row["record_type"]]
        _decode(row, row["record_type"], key, value)
    except ProtocolError:
        row["problem"] = True
        row["key_hex"] = None if key is None else key.hex()
        row["value_hex"] = None if value is None else value.hex()
    return row


def _decode(row: Row, record_type: int, key: bytes, value: bytes | None) -> None:
    types = record_types(record_type)
    assert types is not None
    named = _whole(types[0], 0, key)
    row["group"] = named.group if record_type < 3 else named.group_id
    row["member_id"] = getattr(named, "member_id", None)
    if record_type < 2:
        row["topic"], row["partition"] = named.topic, named.partition
    said = None
    if value is not None:
        if len(value) < 2:
            raise ProtocolError("no version")
        version = row["value_version"]
        said = _whole(types[1], version, value)
        if record_type < 2:
            _commit(row, said)
        elif record_type == 2:
            _group(row, said)
    if record_type > 2:
        shown = None if said is None else to_json(said, version)
        both = {"key": to_json(named, 0), "value": shown}
        row["details"] = json.dumps(both, ensure_ascii=False, separators=(",", ":"))
        if row["kind"].endswith("group_metadata"):
            row["generation"] = getattr(said, "epoch", None)


def _whole(message_type: type[Message], version: int, data: bytes) -> Any:
    message, position = decoder(message_type, version)(data, 2)
    if position != len(data):
        raise ProtocolError("bytes behind")
    return message


def _commit(row: Row, said: Any) -> None:
    row["committed_offset"], row["metadata"] = said.offset, said.metadata
    row["commit_timestamp_ms"] = _known(said.commit_timestamp)
    row["leader_epoch"] = _known(getattr(said, "leader_epoch", -1))
    row["expire_timestamp_ms"] = _known(getattr(said, "expire_timestamp", -1))
    topic_id = getattr(said, "topic_id", bytes(16))
    row["topic_id"] = uuid_to_text(topic_id) if any(topic_id) else None


def _group(row: Row, said: Any) -> None:
    row["protocol_type"], row["generation"] = said.protocol_type, said.generation
    row["protocol"], row["leader"] = said.protocol, said.leader
    row["state_timestamp_ms"] = _known(said.current_state_timestamp)
    row["members"] = [_member(one, said.protocol_type) for one in said.members]


def _member(one: Any, protocol_type: str) -> Row:
    row: Row = {
        "member_id": one.member_id,
        "group_instance_id": one.group_instance_id,
        "client_id": one.client_id,
        "client_host": one.client_host,
        "rebalance_timeout_ms": _known(one.rebalance_timeout),
        "session_timeout_ms": one.session_timeout,
        "subscribed_topics": None,
        "owned": None,
        "assigned": None,
        "problem": True if protocol_type != "consumer" else None,
    }
    if protocol_type != "consumer":
        return row
    try:
        subscription = decode_subscription(one.subscription)
        row["subscribed_topics"] = subscription.topics
        row["owned"] = _partitions(subscription.owned_partitions)
    except ProtocolError:
        row["problem"] = True
    try:
        row["assigned"] = []
        if one.assignment:
            row["assigned"] = _partitions(decode_assignment(one.assignment).assigned_partitions)
    except ProtocolError:
        row["assigned"], row["problem"] = None, True
    return row


def _partitions(given: Any) -> list[Row]:
    return [{"topic": one.topic, "partitions": one.partitions} for one in given]


def _known(number: int) -> int | None:
    return None if number == -1 else number


def without_wording(row: Row) -> Row:
    """Return a decoded row with every `problem` replaced by True."""
    row = dict(row)
    row["problem"] = True if row["problem"] else None
    if row["members"] is not None:
        row["members"] = [
            {**member, "problem": True if member["problem"] else None} for member in row["members"]
        ]
    return row
