"""The protocol in construct: Kafka's encodings as constructs, and `struct_at`.

A declaration and a version result in a `MessageStruct`, a construct Struct that parses to and
builds from Message objects. This is the specification: `protocol.generator` writes the fast codec
from it, and tests compare both. Malformed bytes raise construct's own errors.

The module is imported when the first message of any kind is coded, because importing construct
takes about 30 ms of CPU.
"""

from __future__ import annotations

import io
from functools import cache
from typing import Any

import construct

from protocol.errors import ProtocolError
from protocol.schema import (
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    PLAIN_STRING,
    RECORDS,
    STRING,
    UINT16,
    UUID,
    ArrayType,
    Field,
    FieldType,
    Message,
)
from protocol.utf8 import JAVA_REPLACE
from protocol.varint import encode_unsigned_varint

MAX_STRING_BYTES = 0x7FFF

# The length is an unsigned varint of length + 1; 0 means null (KIP-482).
COMPACT = "compact"
# The length is an int16; a negative length means null.
SHORT = "short"
# The length is an int32; a negative length means null.
LONG = "long"

FIXED: dict[FieldType, construct.Construct] = {
    BOOL: construct.Flag,
    INT8: construct.Int8sb,
    INT16: construct.Int16sb,
    UINT16: construct.Int16ub,
    INT32: construct.Int32sb,
    INT64: construct.Int64sb,
    FLOAT64: construct.Float64b,
    UUID: construct.Bytes(16),
}


class Wire(construct.Construct):  # type: ignore[misc]  # construct ships no types
    """Base of Kafka's variable-length encodings."""


class UnsignedVarint(Wire):
    """A 32-bit number in one to five bytes, seven bits each, lowest first."""

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> int:
        value = 0
        for shift in (0, 7, 14, 21, 28):
            byte = construct.stream_read(stream, 1, path)[0]
            value |= (byte & 0x7F) << shift
            if byte < 128:
                return int(value & 0xFFFF_FFFF)
        raise construct.IntegerError("a varint of more than five bytes", path=path)

    def _build(self, obj: int, stream: io.BytesIO, context: Any, path: str) -> int:
        stream.write(encode_unsigned_varint(obj))
        return obj


UNSIGNED_VARINT = UnsignedVarint()
_LENGTHS = {SHORT: construct.Int16sb, LONG: construct.Int32sb}


def _bytes_left(stream: io.BytesIO) -> int:
    return int(stream.getbuffer().nbytes) - stream.tell()


class Sized(Wire):
    """A value after its length or count; where `nullable`, a negative length means null."""

    def __init__(self, prefix: str, nullable: bool) -> None:
        super().__init__()
        self.prefix = prefix
        self.nullable = nullable

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> Any:
        if self.prefix == COMPACT:
            length = UNSIGNED_VARINT._parse(stream, context, path) - 1
        else:
            length = _LENGTHS[self.prefix]._parse(stream, context, path)
        if length < 0:
            if self.nullable:
                return None
            raise construct.ConstructError("null where null is not allowed", path=path)
        # Check before allocating: each element of an array takes at least one byte.
        if length > _bytes_left(stream):
            raise construct.StreamError(f"{length} runs past the end", path=path)
        return self._parse_sized(length, stream, context, path)

    def _build(self, obj: Any, stream: io.BytesIO, context: Any, path: str) -> Any:
        if obj is None:
            if not self.nullable:
                raise construct.ConstructError("null where null is not allowed", path=path)
            self._build_length(-1, stream, context, path)
        else:
            self._build_sized(obj, stream, context, path)
        return obj

    def _build_length(self, length: int, stream: io.BytesIO, context: Any, path: str) -> None:
        if self.prefix == COMPACT:
            UNSIGNED_VARINT._build(length + 1, stream, context, path)
        else:
            _LENGTHS[self.prefix]._build(length, stream, context, path)

    def _parse_sized(self, length: int, stream: io.BytesIO, context: Any, path: str) -> Any:
        raise NotImplementedError

    def _build_sized(self, obj: Any, stream: io.BytesIO, context: Any, path: str) -> None:
        raise NotImplementedError


class Bytes(Sized):
    """Opaque bytes."""

    def _parse_sized(self, length: int, stream: io.BytesIO, context: Any, path: str) -> Any:
        return construct.stream_read(stream, length, path)

    def _build_sized(self, obj: Any, stream: io.BytesIO, context: Any, path: str) -> None:
        self._build_length(len(obj), stream, context, path)
        stream.write(obj)


class Records(Bytes):
    """Record batches; bytes here, a memoryview of the frame in the generated codec."""


class String(Bytes):
    """UTF-8 text; invalid bytes become U+FFFD, as in Java."""

    def _parse_sized(self, length: int, stream: io.BytesIO, context: Any, path: str) -> str:
        if length > MAX_STRING_BYTES:
            raise construct.StringError(f"a string of {length} bytes", path=path)
        return str(super()._parse_sized(length, stream, context, path), "utf-8", JAVA_REPLACE)

    def _build_sized(self, obj: Any, stream: io.BytesIO, context: Any, path: str) -> None:
        super()._build_sized(obj.encode(), stream, context, path)


class Array(Sized):
    """A list of `element`, after its count."""

    def __init__(self, prefix: str, nullable: bool, element: construct.Construct) -> None:
        super().__init__(prefix, nullable)
        self.element = element

    def _parse_sized(self, length: int, stream: io.BytesIO, context: Any, path: str) -> Any:
        return [self.element._parsereport(stream, context, path) for _ in range(length)]

    def _build_sized(self, obj: Any, stream: io.BytesIO, context: Any, path: str) -> None:
        self._build_length(len(obj), stream, context, path)
        for item in obj:
            self.element._build(item, stream, context, path)


class NullableStruct(Wire):
    """A nested message that may be null: an int8, negative for null, then the message.

    As a tagged field it begins with an unsigned varint, 0 for null (Kafka's MessageDataGenerator).
    """

    def __init__(self, element: MessageStruct, is_tagged: bool) -> None:
        super().__init__()
        self.element = element
        self.is_tagged = is_tagged

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> Message | None:
        if self.is_tagged:
            if not UNSIGNED_VARINT._parse(stream, context, path):
                return None
        elif construct.Int8sb._parse(stream, context, path) < 0:
            return None
        message: Message = self.element._parse(stream, context, path)
        return message

    def _build(self, obj: Any, stream: io.BytesIO, context: Any, path: str) -> Any:
        marker = 1 if obj is not None else 0 if self.is_tagged else -1
        construct.Int8sb._build(marker, stream, context, path)
        if obj is not None:
            self.element._build(obj, stream, context, path)
        return obj


class TaggedFields(Wire):
    """The tagged fields at the end of a flexible struct (KIP-482).

    The encoding is a count, then tag, size and value of each. Parses to a dict of the present
    fields. As in Kafka, tags may have any order and repeat, unknown tags are skipped, and the size
    of a known tag is not checked.
    """

    def __init__(self, fields: dict[int, tuple[Field, construct.Construct]]) -> None:
        super().__init__()
        self.fields = fields

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> dict[str, Any]:
        values = {}
        for _ in range(UNSIGNED_VARINT._parse(stream, context, path)):
            tag = UNSIGNED_VARINT._parse(stream, context, path)
            size = UNSIGNED_VARINT._parse(stream, context, path)
            if tag in self.fields:
                field, element = self.fields[tag]
                values[field.name] = element._parse(stream, context, f"{path} -> {field.name}")
            elif size > _bytes_left(stream):
                raise construct.StreamError(f"tag of {size} bytes", path=path)
            else:
                stream.seek(size, io.SEEK_CUR)
        return values

    def _build(self, obj: Any, stream: io.BytesIO, context: Any, path: str) -> Any:
        encoded = []
        for tag, (field, element) in sorted(self.fields.items()):
            value = obj[field.name]
            if value != field.default_value():
                encoded.append((tag, element.build(value)))
        UNSIGNED_VARINT._build(len(encoded), stream, context, path)
        for tag, data in encoded:
            UNSIGNED_VARINT._build(tag, stream, context, path)
            UNSIGNED_VARINT._build(len(data), stream, context, path)
            stream.write(data)
        return obj


class MessageStruct(construct.Struct):  # type: ignore[misc]  # construct ships no types
    """The Struct of one message at one version; parses to the Message and builds from it."""

    TAGGED = "tagged_fields"

    def __init__(self, message_type: type[Message], version: int, flexible: bool) -> None:
        self.message_type = message_type
        self.version = version
        subcons = []
        tagged = {}
        for field in message_type.FIELDS:
            if field.in_version(version):
                element = _element(field.type, field.nullable_in(version), version, flexible)
                if field.tag is not None:
                    if isinstance(element, NullableStruct):
                        element.is_tagged = True
                    tagged[field.tag] = (field, element)
                else:
                    subcons.append(construct.Renamed(element, newname=field.name))
        if flexible:
            subcons.append(construct.Renamed(TaggedFields(tagged), newname=self.TAGGED))
        super().__init__(*subcons)

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> Message:
        values = super()._parse(stream, context, path)
        del values["_io"]
        values.update(values.pop(self.TAGGED, {}))
        return self.message_type(**values)

    def _build(self, obj: Any, stream: io.BytesIO, context: Any, path: str) -> Any:
        if not isinstance(obj, self.message_type):
            raise construct.ConstructError(f"{obj!r} is no {self.message_type.__name__}", path=path)
        values = {field.name: getattr(obj, field.name) for field in self.message_type.FIELDS}
        super()._build({**values, self.TAGGED: values}, stream, context, path)
        return obj


def _element(
    kind: FieldType | type[Message], nullable: bool, version: int, flexible: bool
) -> construct.Construct:
    """Return the construct of a field type at a version."""
    if isinstance(kind, type):
        struct = MessageStruct(kind, version, flexible)
        return NullableStruct(struct, is_tagged=False) if nullable else struct
    if kind in FIXED:
        return FIXED[kind]
    if isinstance(kind, ArrayType):
        # Kafka has no field whose array elements may be null.
        element = _element(kind.element, False, version, flexible)
        return Array(COMPACT if flexible else LONG, nullable, element)
    if kind is STRING:
        return String(COMPACT if flexible else SHORT, nullable)
    if kind is PLAIN_STRING:
        return String(SHORT, nullable)
    if kind is RECORDS:
        return Records(COMPACT if flexible else LONG, nullable)
    assert kind is BYTES, kind
    return Bytes(COMPACT if flexible else LONG, nullable)


@cache
def struct_at(message_type: type[Message], version: int) -> MessageStruct:
    """Return the Struct of a top-level message. Raises ProtocolError for an unknown version."""
    lowest, highest = message_type.VERSIONS
    if not lowest <= version <= highest:
        raise ProtocolError(f"{message_type.__name__} has no version {version}")
    return MessageStruct(message_type, version, message_type.is_flexible(version))
