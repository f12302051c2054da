"""Messages as JSON, in the form of Kafka's own JSON converters.

Names are in camelCase, bytes and records in base64, uuids in base64url without padding. Fields that
the version does not have and tagged fields with their default are left out.
"""

from __future__ import annotations

from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from typing import Any, TypeVar

from protocol.schema import BYTES, RECORDS, UUID, ArrayType, FieldType, Message

M = TypeVar("M", bound=Message)


def camel_case(name: str) -> str:
    """Return a field name in camelCase: `throttleTimeMs` for `throttle_time_ms`."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def uuid_to_text(uuid: bytes) -> str:
    """Return a uuid (16 bytes) as Kafka prints it: 22 characters of base64url."""
    return urlsafe_b64encode(uuid).decode().rstrip("=")


def uuid_from_text(text: str) -> bytes:
    """Return the 16 bytes of a printed uuid. Raises ValueError for an invalid text."""
    uuid = urlsafe_b64decode(text + "==")
    if len(uuid) != 16:
        raise ValueError(f"{text!r} is no uuid")
    return uuid


def to_json(message: Message, version: int) -> dict[str, Any]:
    """Return the fields of `message` in `version` as a dict for `json.dumps`."""
    out = {}
    for field in message.FIELDS:
        if not field.in_version(version):
            continue
        value = getattr(message, field.name)
        if field.tag is None or value != field.default_value():
            out[camel_case(field.name)] = _value_to_json(field.type, value, version)
    return out


def from_json(message_type: type[M], data: dict[str, Any]) -> M:
    """Return the message with the fields in `data`; absent fields get their defaults."""
    values = {}
    for field in message_type.FIELDS:
        name = camel_case(field.name)
        if name in data:
            values[field.name] = _value_from_json(field.type, data[name])
    return message_type(**values)


def _value_to_json(kind: FieldType | type[Message], value: Any, version: int) -> Any:
    if value is None:
        return None
    if isinstance(kind, type):
        return to_json(value, version)
    if isinstance(kind, ArrayType):
        return [_value_to_json(kind.element, item, version) for item in value]
    if kind is UUID:
        return uuid_to_text(value)
    if kind is BYTES or kind is RECORDS:
        return b64encode(value).decode()
    return value


def _value_from_json(kind: FieldType | type[Message], value: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, type):
        return from_json(kind, value)
    if isinstance(kind, ArrayType):
        return [_value_from_json(kind.element, item) for item in value]
    if kind is UUID:
        return uuid_from_text(value)
    if kind is BYTES or kind is RECORDS:
        return b64decode(value)
    return value
