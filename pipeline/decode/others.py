"""Decode records other than offset commits, one by one: they are few and differ in structure.

Group metadata of classic groups becomes columns. Records of KIP-848, share and streams groups
become JSON. Both are decoded by the messages of `protocol`.
"""

from __future__ import annotations

import json
from typing import Any

from pipeline.decode.kinds import EPOCH_TYPES, GROUP_METADATA_TYPE
from protocol.codec import decoder
from protocol.consumer_protocol import TopicPartition, decode_assignment, decode_subscription
from protocol.errors import ProtocolError
from protocol.json_form import to_json
from protocol.offsets_log import GroupMetadataValue, RecordedMember, record_types
from protocol.schema import Message

Columns = dict[str, Any]

_CONSUMER = "consumer"
_NONE = -1


def decode_other(record_type: int, key: bytes, value: bytes | None) -> Columns:
    """Return the columns of one record of a known type, with `problem` if it is malformed."""
    types = record_types(record_type)
    assert types is not None, record_type
    columns: Columns = {}
    try:
        key_message = _whole(types[0], 0, key, "key")
        columns["group"] = _group_of(key_message)
        columns["member_id"] = getattr(key_message, "member_id", None)
        version, value_message = 0, None
        if value is not None:
            version = _version_of(value)
            value_message = _whole(types[1], version, value, "value")
    except ProtocolError as error:
        columns["problem"] = str(error)
        return columns
    if record_type != GROUP_METADATA_TYPE:
        said = None if value_message is None else to_json(value_message, version)
        texts = {"key": to_json(key_message, 0), "value": said}
        columns["details"] = json.dumps(texts, ensure_ascii=False, separators=(",", ":"))
        if record_type in EPOCH_TYPES:  # the epoch of a streams topology is not the group's epoch
            columns["generation"] = getattr(value_message, "epoch", None)
    elif isinstance(value_message, GroupMetadataValue):
        columns.update(_group_metadata(value_message))
    return columns


def _whole(message_type: type[Message], version: int, data: bytes, what: str) -> Message:
    """Decode all bytes after the leading int16. Raises ProtocolError if bytes are left over."""
    message, position = decoder(message_type, version)(data, 2)
    if position != len(data):
        raise ProtocolError(f"{len(data) - position} bytes behind the {what}")
    return message


def _version_of(value: bytes) -> int:
    if len(value) < 2:
        raise ProtocolError("the value ends early")
    return int.from_bytes(value[:2], "big", signed=True)


def _group_of(key: Message) -> str:
    """Return the group id, a field that classic keys call `group`."""
    group: str = key.group if hasattr(key, "group") else getattr(key, "group_id")  # noqa: B009
    return group


def _group_metadata(value: GroupMetadataValue) -> Columns:
    """Return a classic group's columns; `state_timestamp_ms` is null below value version 2."""
    timestamp = value.current_state_timestamp
    return {
        "protocol_type": value.protocol_type,
        "generation": value.generation,
        "protocol": value.protocol,
        "leader": value.leader,
        "state_timestamp_ms": None if timestamp == _NONE else timestamp,
        "members": [_member(member, value.protocol_type) for member in value.members],
    }


def _member(member: RecordedMember, protocol_type: str) -> Columns:
    """Return a member with subscription and assignment, which are null if unreadable."""
    timeout = member.rebalance_timeout
    columns: Columns = {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": None if timeout == _NONE else timeout,
        "session_timeout_ms": member.session_timeout,
    }
    if protocol_type != _CONSUMER:
        columns["problem"] = f"protocol type {protocol_type!r}, not {_CONSUMER!r}"
        return columns
    problems = []
    try:
        subscription = decode_subscription(member.subscription)
        columns["subscribed_topics"] = subscription.topics
        columns["owned"] = _partitions(subscription.owned_partitions)
    except ProtocolError as error:
        problems.append(f"subscription: {error}")
    try:
        # A member without partitions may have an empty assignment, without a version.
        columns["assigned"] = (
            _partitions(decode_assignment(member.assignment).assigned_partitions)
            if member.assignment
            else []
        )
    except ProtocolError as error:
        problems.append(f"assignment: {error}")
    columns["problem"] = "; ".join(problems) or None
    return columns


def _partitions(topics: list[TopicPartition]) -> list[Columns]:
    return [{"topic": topic.topic, "partitions": topic.partitions} for topic in topics]
