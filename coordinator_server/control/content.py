"""Keys, values and headers of records as text for people, and as bytes from text."""

from __future__ import annotations

import json
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from coordinator_server.control.errors import ControlError, shown
from coordinator_server.control.json_steps import written_compactly
from coordinator_server.registry.framed import Framed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coordinator_server.steps import Computation
    from protocol.batch import Record
    from protocol.batch_header import BatchHeader

S = TypeVar("S", str, bytes)

_CONTROLS = bytes((*range(9), *range(11, 13), *range(14, 32), 127))
"""Bytes that text does not have: all ASCII control characters but tab and line ends."""

_CONFLUENT_MAGIC, _CONFLUENT_BYTES = 0, 5
_JSON_BYTES = 1024 * 1024
_UTF8_MOST_BYTES = 4
_STEP_BYTES = 192 * 1024
"""Size of the parts of large contents; base64 needs a multiple of 12."""


class View(NamedTuple):
    """How contents are shown: the format, and the shown bytes of each content.

    `framed` receives contents in Confluent's wire format, for a registry to decode; None without a
    registry.
    """

    how: str
    most: int
    framed: list[Framed] | None = None


# --- bytes as text --------------------------------------------------------------------------------


def described(
    record: Record, partition: int, batch: BatchHeader, view: View
) -> Computation[dict[str, Any]]:
    """Return a record in the shape `records.Record`, in steps."""
    key = yield from content(record.key, view)
    value = yield from content(record.value, view)
    headers = []
    for name, data in record.headers:
        headers.append({"name": name, "value": (yield from content(data, view))})
    return {
        "partition": partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "timestamp_type": "LogAppendTime" if batch.log_append_time else "CreateTime",
        "key": key,
        "value": value,
        "headers": headers,
        "producer_id": batch.producer_id if batch.producer_id >= 0 else None,
        "is_transactional": batch.is_transactional,
    }


def content(data: bytes | None, view: View) -> Computation[dict[str, Any]]:
    """Return bytes in the shape `records.Content`: at most the first `view.most` of them."""
    shown = yield from _content(data, view.how, view.most)
    schema_id = shown["schema_id"]
    if data is not None and schema_id is not None and view.framed is not None:
        view.framed.append(Framed(shown, schema_id, data[_CONFLUENT_BYTES:]))
    return shown


def _content(data: bytes | None, how: str, most: int) -> Computation[dict[str, Any]]:
    if data is None:
        return _shown("null", None, 0)
    is_framed = len(data) >= _CONFLUENT_BYTES and data[0] == _CONFLUENT_MAGIC
    schema_id = int.from_bytes(data[1:_CONFLUENT_BYTES], "big") if is_framed else None
    if is_framed and how in ("auto", "json"):
        # The header of Confluent's serializers is not shown before JSON.
        body = data[_CONFLUENT_BYTES:]
        name, text = yield from _rendered(body[:most], how, is_cut=len(body) > most)
        if name == "json":
            return _shown(name, text, len(data), schema_id=schema_id)
    is_cut = len(data) > most
    name, text = yield from _rendered(data[:most], how, is_cut=is_cut)
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


def _rendered(data: bytes, how: str, *, is_cut: bool) -> Computation[tuple[str, str]]:
    """Return the format and the text of the shown bytes; each kind of work is a step."""
    if len(data) > _STEP_BYTES:
        yield
    if how == "hex":
        return "hex", (yield from _to_hex(data))
    if how == "base64":
        return "base64", (yield from to_base64(data)) or ""
    text = _text(data, is_cut=is_cut)
    if len(data) > _STEP_BYTES:
        yield
    if text is None or (how != "text" and len(data.translate(None, _CONTROLS)) < len(data)):
        return "hex", (yield from _to_hex(data))
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


def to_bytes(value: Any, how: str, what: str) -> Computation[bytes | None]:
    """Return the bytes of a value in a request, in steps.

    Raises ControlError for another format.
    """
    if value is None:
        return None
    if how == "json":
        return (yield from written_compactly(value))
    if isinstance(value, str) and len(value) > _STEP_BYTES:
        yield
    try:
        if how == "hex":
            return bytes.fromhex(value)
        if how == "text":
            return str.encode(value)
        return (yield from _from_base64(value))
    except (Base64Error, TypeError, ValueError) as error:
        raise ControlError(400, f"{what} is {how} or null, not {shown(value)}") from error


def _from_base64(text: str) -> Computation[bytes]:
    """Return the bytes of base64, in steps. Raises Base64Error, TypeError."""
    data = bytearray()
    for part in _parts(text):
        if part.endswith("=") and len(data) // 3 * 4 + len(part) < len(text):
            raise Base64Error("data after the padding")
        data += a2b_base64(part, strict_mode=True)
        yield
    return bytes(data)


def to_base64(value: bytes | None) -> Computation[str | None]:
    """Return base64, or None for Kafka's null, in steps."""
    if value is None:
        return None
    texts = []
    for part in _parts(value):
        texts.append(b2a_base64(part, newline=False).decode())
        yield
    return "".join(texts)


def _to_hex(data: bytes) -> Computation[str]:
    """Return hexadecimal digits, in steps."""
    texts = []
    for part in _parts(data):
        texts.append(part.hex())
        yield
    return "".join(texts)


def _parts(content: S) -> Iterator[S]:
    """Yield the content in parts of _STEP_BYTES."""
    for start in range(0, len(content), _STEP_BYTES):
        yield content[start : start + _STEP_BYTES]
