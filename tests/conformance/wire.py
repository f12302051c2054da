"""Requests and answers as bytes, for every version of the APIs that the scenarios use.

This codec is separate from the codec of the broker, so that an error in one is not repeated in the
other. It is driven by schemas.json, compiled from Kafka 4.4.0's message definitions by
`python -m tests.conformance.compile_schemas`. Any version number can be sent: outside of the valid
range the layout of the nearest valid version is used. Decoding is strict: bytes that do not parse,
and bytes left over, raise ValueError.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Field = dict[str, Any]
"""One field of a message: name n, type t, versions v, default d, fields f, and more."""

SCHEMAS: dict[str, Any] = json.loads(Path(__file__).with_name("schemas.json").read_text())
KEY: dict[str, int] = {name: schema["key"] for name, schema in SCHEMAS.items()}

ERRORS = {
    -1: "UNKNOWN_SERVER_ERROR",
    0: "NONE",
    1: "OFFSET_OUT_OF_RANGE",
    2: "CORRUPT_MESSAGE",
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    12: "OFFSET_METADATA_TOO_LARGE",
    14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
    17: "INVALID_TOPIC_EXCEPTION",
    22: "ILLEGAL_GENERATION",
    23: "INCONSISTENT_GROUP_PROTOCOL",
    24: "INVALID_GROUP_ID",
    25: "UNKNOWN_MEMBER_ID",
    26: "INVALID_SESSION_TIMEOUT",
    27: "REBALANCE_IN_PROGRESS",
    28: "INVALID_COMMIT_OFFSET_SIZE",
    29: "TOPIC_AUTHORIZATION_FAILED",
    30: "GROUP_AUTHORIZATION_FAILED",
    35: "UNSUPPORTED_VERSION",
    36: "TOPIC_ALREADY_EXISTS",
    42: "INVALID_REQUEST",
    45: "OUT_OF_ORDER_SEQUENCE_NUMBER",
    47: "INVALID_PRODUCER_EPOCH",
    48: "INVALID_TXN_STATE",
    49: "INVALID_PRODUCER_ID_MAPPING",
    50: "INVALID_TRANSACTION_TIMEOUT",
    51: "CONCURRENT_TRANSACTIONS",
    59: "UNKNOWN_PRODUCER_ID",
    68: "NON_EMPTY_GROUP",
    69: "GROUP_ID_NOT_FOUND",
    79: "MEMBER_ID_REQUIRED",
    81: "GROUP_MAX_SIZE_REACHED",
    82: "FENCED_INSTANCE_ID",
    86: "GROUP_SUBSCRIBED_TO_TOPIC",
    88: "UNSTABLE_OFFSET_COMMIT",
    90: "PRODUCER_FENCED",
    100: "UNKNOWN_TOPIC_ID",
    105: "TRANSACTIONAL_ID_NOT_FOUND",
    110: "FENCED_MEMBER_EPOCH",
    111: "UNRELEASED_INSTANCE_ID",
    112: "UNSUPPORTED_ASSIGNOR",
    113: "STALE_MEMBER_EPOCH",
    120: "TRANSACTION_ABORTABLE",
    128: "INVALID_REGULAR_EXPRESSION",
}
"""Names of the error codes in answers that are recorded whole."""

_FORMATS = {
    "int8": ">b",
    "int16": ">h",
    "int32": ">i",
    "int64": ">q",
    "float64": ">d",
    "uint16": ">H",
    "uint32": ">I",
}
_TAGS = "_tags"


def has(versions: Sequence[int] | None, version: int) -> bool:
    """Return whether a range [first, last] includes a version; False if the range is None."""
    return versions is not None and versions[0] <= version <= versions[1]


def layout(api: str, version: int) -> int:
    """Return the valid version that is nearest to a version."""
    first, last = SCHEMAS[api]["valid"]
    return int(max(first, min(last, version)))


def is_flexible(api: str, version: int) -> bool:
    """Return whether requests of a version are laid out with compact fields and tags."""
    return has(SCHEMAS[api]["flex"], version)


def request_fields(api: str) -> list[Field]:
    """Return the fields of a request, of all versions."""
    fields: list[Field] = SCHEMAS[api]["req"]
    return fields


# ---- encoding


def enc_request(
    api: str, version: int, correlation_id: int, client_id: str | None, body: Mapping[str, Any]
) -> bytes:
    """Return a request with its header; fields that are not in the body have their defaults."""
    used = layout(api, version)
    flexible = is_flexible(api, used)
    head = header(KEY[api], version, correlation_id, client_id, flexible)
    return head + enc_struct(request_fields(api), body, used, flexible)


def header(
    key: int, version: int, correlation_id: int, client_id: str | None, flexible: bool
) -> bytes:
    """Return a request header."""
    name = b"\xff\xff" if client_id is None else _short(client_id.encode())
    return struct.pack(">hhi", key, version, correlation_id) + name + (b"\x00" if flexible else b"")


def enc_struct(
    fields: Sequence[Field], values: Mapping[str, Any], version: int, flexible: bool
) -> bytes:
    """Return the encoded fields of a version. `_tags` has further tagged fields by tag number."""
    unknown = set(values) - {field["n"] for field in fields} - {_TAGS}
    if unknown:
        raise ValueError(f"unknown fields {unknown}")
    parts = []
    tags = dict(values.get(_TAGS, {}))
    for field in fields:
        if has(field.get("tagv"), version):
            if field["n"] in values:
                value = values[field["n"]]
                tags[field["tag"]] = _enc_value(field["t"], field, value, version, flexible)
        elif has(field["v"], version):
            value = values.get(field["n"], _default(field))
            if field["t"] == "struct" and has(field.get("null"), version):
                inner = b"" if value is None else enc_struct(field["f"], value, version, flexible)
                parts.append((b"\xff" if value is None else b"\x01") + inner)
            else:
                parts.append(_enc_value(field["t"], field, value, version, flexible))
    if flexible:
        parts.append(_uvarint(len(tags)))
        parts += [_uvarint(tag) + _uvarint(len(tags[tag])) + tags[tag] for tag in sorted(tags)]
    return b"".join(parts)


def _enc_value(kind: str, field: Field, value: Any, version: int, flexible: bool) -> bytes:
    if "flex" in field:
        flexible = has(field["flex"], version)
    if kind.startswith("[]"):
        if value is None:
            return b"\x00" if flexible else b"\xff\xff\xff\xff"
        count = _uvarint(len(value) + 1) if flexible else struct.pack(">i", len(value))
        return count + b"".join(
            _enc_value(kind[2:], field, element, version, flexible) for element in value
        )
    if kind == "struct":
        return enc_struct(field["f"], value, version, flexible)
    if kind == "bool":
        return b"\x01" if value else b"\x00"
    if kind in _FORMATS:
        return struct.pack(_FORMATS[kind], value)
    if kind == "uuid":
        return bytes(value)
    short = kind == "string"
    if value is None:
        return b"\x00" if flexible else b"\xff\xff" if short else b"\xff\xff\xff\xff"
    data = value.encode() if isinstance(value, str) else value
    if flexible:
        return _uvarint(len(data) + 1) + data
    return _short(data) if short else struct.pack(">i", len(data)) + data


def _default(field: Field) -> Any:
    default, kind = field.get("d"), field["t"]
    if default == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind in _FORMATS:
        return int(default, 0) if isinstance(default, str) else (default or 0)
    defaults: dict[str, Any] = {
        "struct": {},
        "bool": default in (True, "true"),
        "uuid": bytes(16),
        "string": default or "",
    }
    return defaults.get(kind, b"")


def _short(data: bytes) -> bytes:
    return struct.pack(">h", len(data)) + data


def _uvarint(number: int) -> bytes:
    out = bytearray()
    number &= 0xFFFFFFFF
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


# ---- decoding


class Reader:
    """Bytes with a position."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        if count < 0 or self.position + count > len(self.data):
            raise ValueError(f"need {count} bytes at {self.position} of {len(self.data)}")
        self.position += count
        return self.data[self.position - count : self.position]

    def number(self, layout: str) -> Any:
        """Return the next number, in a layout of `struct`."""
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def uvarint(self) -> int:
        """Return the next unsigned varint."""
        value = shift = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                raise ValueError("varint too long")


def dec_response(api: str, version: int, payload: bytes) -> tuple[int, dict[str, Any]]:
    """Return correlation id and fields of an answer, given without its length."""
    used = layout(api, version)
    reader = Reader(payload)
    correlation_id = reader.number(">i")
    flexible = is_flexible(api, used)
    if flexible and api != "ApiVersions":  # ApiVersions responses always have header version 0
        for _ in range(reader.uvarint()):
            reader.uvarint()
            reader.take(reader.uvarint())
    decoded = _dec_struct(SCHEMAS[api]["resp"], reader, used, flexible)
    if reader.position != len(payload):
        raise ValueError(f"{len(payload) - reader.position} bytes left over")
    return correlation_id, decoded


def _dec_struct(
    fields: Sequence[Field], reader: Reader, version: int, flexible: bool
) -> dict[str, Any]:
    decoded: dict[str, Any] = {}
    tagged = {field["tag"]: field for field in fields if has(field.get("tagv"), version)}
    for field in fields:
        if has(field.get("tagv"), version) or not has(field["v"], version):
            continue
        kind = field["t"]
        value: Any
        if kind == "struct" and has(field.get("null"), version):
            is_null = reader.number(">b") < 0
            value = None if is_null else _dec_struct(field["f"], reader, version, flexible)
        else:
            value = _dec_value(kind, field, reader, version, flexible)
            if value is None and kind in ("string", "bytes") and field.get("null") is None:
                value = "ILLEGAL-NULL"
        decoded[field["n"]] = value
    if flexible:
        for _ in range(reader.uvarint()):
            tag = reader.uvarint()
            inner = Reader(reader.take(reader.uvarint()))
            if tag in tagged:
                field = tagged[tag]
                decoded[field["n"]] = _dec_value(field["t"], field, inner, version, flexible)
            else:
                decoded.setdefault("UNKNOWN_TAGS", []).append(tag)
    return decoded


def _dec_value(kind: str, field: Field, reader: Reader, version: int, flexible: bool) -> Any:
    if kind.startswith("[]"):
        count = reader.uvarint() - 1 if flexible else reader.number(">i")
        if count > len(reader.data):
            raise ValueError(f"array of {count}")
        if count < 0:
            return None
        return [_dec_value(kind[2:], field, reader, version, flexible) for _ in range(count)]
    if kind == "struct":
        return _dec_struct(field["f"], reader, version, flexible)
    if kind == "bool":
        return reader.take(1) != b"\x00"
    if kind in _FORMATS:
        return reader.number(_FORMATS[kind])
    if kind == "uuid":
        return reader.take(16)
    layout = ">h" if kind == "string" else ">i"
    length = reader.uvarint() - 1 if flexible else reader.number(layout)
    if length < 0:
        return None
    data = reader.take(length)
    return data.decode() if kind == "string" else data
