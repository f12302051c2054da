"""Keys, values and headers of records as text for people, and as bytes from text."""

from __future__ import annotations

import json
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from typing import TYPE_CHECKING, Any

from coordinator_server.control.errors import ControlError, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.batch import Record
    from protocol.batch_header import BatchHeader

_CONTROLS = bytes((*range(9), *range(11, 13), *range(14, 32), 127))
"""Bytes that text does not have: all ASCII control characters but tab and line ends."""

_CONFLUENT_MAGIC, _CONFLUENT_BYTES = 0, 5
_JSON_BYTES = 1024 * 1024
_UTF8_MOST_BYTES = 4


# --- bytes as text --------------------------------------------------------------------------------


def described(
    record: Record, partition: int, batch: BatchHeader, how: str, most: int
) -> dict[str, Any]:
    """Return a record in the shape `records.Record`.

    `how` is the format, and `most` the shown bytes of each content.
    """
    return {
        "partition": partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "timestamp_type": "LogAppendTime" if batch.log_append_time else "CreateTime",
        "key": content(record.key, how, most),
        "value": content(record.value, how, most),
        "headers": [
            {"name": name, "value": content(value, how, most)} for name, value in record.headers
        ],
        "producer_id": batch.producer_id if batch.producer_id >= 0 else None,
        "is_transactional": batch.is_transactional,
    }


def content(data: bytes | None, how: str, most: int) -> dict[str, Any]:
    """Return bytes in the shape `records.Content`: at most the first `most` of them."""
    if data is None:
        return _shown("null", None, 0)
    is_framed = len(data) >= _CONFLUENT_BYTES and data[0] == _CONFLUENT_MAGIC
    schema_id = int.from_bytes(data[1:_CONFLUENT_BYTES], "big") if is_framed else None
    if is_framed and how in ("auto", "json"):
        # The header of Confluent's serializers is not shown before JSON.
        body = data[_CONFLUENT_BYTES:]
        name, text = _rendered(body[:most], how, is_cut=len(body) > most)
        if name == "json":
            return _shown(name, text, len(data), schema_id=schema_id)
    is_cut = len(data) > most
    name, text = _rendered(data[:most], how, is_cut=is_cut)
    return _shown(name, text, len(data), is_cut=is_cut, schema_id=schema_id)


def _shown(
    name: str,
    text: str | None,
    size_bytes: int,
    *,
    is_cut: bool = False,
    schema_id: int | None = None,
) -> dict[str, Any]:
    return {
        "format": name,
        "text": text,
        "size_bytes": size_bytes,
        "is_cut": is_cut,
        "schema_id": schema_id,
    }


def _rendered(data: bytes, how: str, *, is_cut: bool) -> tuple[str, str]:
    """Return the format and the text of the shown bytes."""
    if how == "hex":
        return "hex", data.hex()
    if how == "base64":
        return "base64", b2a_base64(data, newline=False).decode()
    text = _text(data, is_cut=is_cut)
    if text is None or (how != "text" and len(data.translate(None, _CONTROLS)) < len(data)):
        return "hex", data.hex()
    if how != "text" and not is_cut and _is_json(text, any_value=how == "json"):
        return "json", text
    return "text", text


def _text(data: bytes, *, is_cut: bool) -> str | None:
    """Return UTF-8 as text, without a character that was cut; None for other bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if is_cut and len(data) - error.start < _UTF8_MOST_BYTES:
            return _text(data[: error.start], is_cut=False)
        return None


def _is_json(text: str, *, any_value: bool) -> bool:
    if len(text) > _JSON_BYTES or not (any_value or text.lstrip()[:1] in ("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


# --- text as bytes --------------------------------------------------------------------------------


def to_bytes(value: Any, how: str, what: str) -> bytes | None:
    """Return the bytes of a value in a request. Raises ControlError for another format."""
    if value is None:
        return None
    if how == "json":
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "surrogatepass"
        )
    try:
        if how == "hex":
            return bytes.fromhex(value)
        if how == "text":
            return str.encode(value)
        return a2b_base64(value, strict_mode=True)
    except (Base64Error, TypeError, ValueError) as error:
        raise ControlError(400, f"{what} is {how} or null, not {shown(value)}") from error


def to_base64(value: bytes | None) -> str | None:
    """Return base64, or None for Kafka's null."""
    return None if value is None else b2a_base64(value, newline=False).decode()


def has_text(contents: Iterable[bytes | None], text: bytes) -> bool:
    """Return whether one of the contents has this text."""
    return any(content is not None and text in content for content in contents)
